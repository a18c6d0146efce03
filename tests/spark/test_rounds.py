"""Rounds through a group whose leader is killed: rows written, copied by a stream and read back, each once.

In every round a task dies and is tried again, and Spark itself runs a slow task a second time beside the first; the
stream is stopped in the middle of a micro-batch and goes on from its checkpoint. The round's number says, as a seed, at
which rows of which tasks, and which of the three jobs stands still in the middle while the leader is killed under it.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pytest

from logherd_spark.cluster import Cluster
from spark.conftest import PATIENCE, make_topic
from spark.driving import DriverProcess, JobFailed
from spark.faults import Faults
from spark.rows import stored
from system.guarded_group import GuardedGroup
from system.guardians import eventually, is_alive

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

ROUNDS = int(os.environ.get("LOGHERD_SPARK_ROUNDS", "3"))
"""Three kill the leader under each of a round's jobs once; CI has no time for more."""
ROWS, PARTS, QUEUES, TRIGGER = 600, 4, 4, 250
EACH = ROWS // PARTS
AT_ONCE = {"maxRequestBytes": "128"}
"""A chunk is a row or two, so that some are stored while a task stands still."""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriverProcess]:
    with DriverProcess(tmp_path_factory.mktemp("spark") / "cluster", "127.0.0.1", "127.0.0.2") as made:
        yield made


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, driver: DriverProcess) -> Iterator[GuardedGroup]:
    """Starts while the driver does."""
    with GuardedGroup(tmp_path_factory.mktemp("rounds"), store={"segmentSize": "16MiB", "reservedPercent": 0}) as made:
        yield made


def new_topic(group: GuardedGroup) -> str:
    leader, _ = group.leader()
    return make_topic(f"{leader.host}:{leader.port}", group.name_server, QUEUES)


def rows_of(group: GuardedGroup, topic: str) -> list[list[Any]]:
    found = stored(Cluster((group.name_server,), PATIENCE), topic)
    return [
        [row["key"], bytes(row["value"]).decode(), row["tags"], row["queue"], row["offset"], dict(row["properties"])]  # type: ignore[call-overload]
        for row in found
    ]


def assert_is_the_input(rows: list[list[Any]]) -> None:
    """Each row once, whole, a key in one queue, and what one task wrote of a key in its order."""
    contents = sorted((number(row), row[0], row[2], row[5]["number"]) for row in rows)
    assert contents == [(n, f"key-{n % 17}", f"tag-{n % 2}", str(n)) for n in range(ROWS)]
    assert len({(row[0], row[3]) for row in rows}) == 17
    by_place = sorted(rows, key=lambda row: (row[0], number(row) // EACH, row[4]))
    for _, of_task in groupby(by_place, key=lambda row: (row[0], number(row) // EACH)):
        numbers = [number(row) for row in of_task]
        assert numbers == sorted(numbers)


def number(row: list[Any]) -> int:
    return int(row[1].removeprefix("value-"))


def in_order(rows: list[list[Any]]) -> dict[int, list[str]]:
    """The values of each queue by their offsets."""
    return {
        queue: [row[1] for row in sorted(rows, key=lambda row: row[4]) if row[3] == queue] for queue in range(QUEUES)
    }


@contextmanager
def standing_still(job: "Future[dict[str, Any]]", directory: Path) -> Iterator[None]:
    """While a task of the job stands still. It goes on then, and if something has failed, ends: its driver carries out
    one order at a time, and what is asked of it next would wait behind this job until the tests' limit."""
    try:
        eventually(lambda: job.done() or (directory / "holding").exists(), "no task stands still", 300)
        assert not job.done(), job.result()
        yield
    except BaseException:
        (directory / "go").touch()
        wait([job], timeout=300)
        raise
    (directory / "go").touch()


@dataclass
class Round:
    """One round's random places, and the group whose leader one of its jobs loses."""

    group: GuardedGroup
    directory: Path
    seed: int

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.hurt = ("write", "copy", "read")[self.seed % 3]
        self.generation = self.random.randrange(2)

    def faults(self, name: str, rows: int, *, topic: str = "", generation: int = 0, hold: bool | None = None) -> Faults:
        """A task that dies, a slow one, and one that stands still, at random rows of the first `rows`."""
        directory = self.directory / name
        directory.mkdir()
        hold_part, fail_part, slow_part = self.random.sample(range(PARTS), 3)
        holds = self.hurt == name if hold is None else hold
        at = [self.random.randrange(rows) for _ in range(3)]
        return Faults(
            str(directory), generation, hold_part if holds else -1, at[0], fail_part, at[1], slow_part, at[2],
            names=self.group.name_server, topic=topic,
        )  # fmt: skip

    def through(self, faults: Faults, begin: "Callable[[], Future[dict[str, Any]]]") -> dict[str, Any]:
        """A job to its end; if one of its tasks stands still, the leader is killed meanwhile."""
        job = begin()
        directory = Path(faults.directory)
        if faults.hold_part >= 0:
            with standing_still(job, directory):
                leader, epoch = self.group.leader()
                child = leader.kill_child()
                eventually(lambda: not is_alive(child), "the leader is still there", 60)
                assert not job.done(), job.result()
            self.group.leader(after=epoch)
        answer = job.result(timeout=500)
        for name in ("died", "twice"):
            assert (directory / name).exists(), f"nothing {name} in {directory.name}"
        return answer


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_rows_written_copied_and_read_through_every_fault_are_the_input(
    group: GuardedGroup, driver: DriverProcess, tmp_path: Path, seed: int
) -> None:
    origin, copy = new_topic(group), new_topic(group)
    this = Round(group, tmp_path, seed)
    before = driver.ask("speculated")["attempts"]

    faults = this.faults("write", EACH, topic=origin)
    sink = {"bootstrap": group.name_server, "topic": origin, "writeId": f"round-{origin}", **AT_ONCE}
    this.through(faults, lambda: driver.begin("write", rows=ROWS, parts=PARTS, options=sink, faults=faults.told()))
    written = rows_of(group, origin)
    assert_is_the_input(written)

    source = {
        "bootstrap": group.name_server, "subscribe": origin, "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(TRIGGER),
    }  # fmt: skip
    place = str(tmp_path / "checkpoint")
    sink = {"bootstrap": group.name_server, "topic": copy, "checkpointLocation": place, **AT_ONCE}
    stopped = this.faults("stopped", TRIGGER // QUEUES, topic=copy, generation=this.generation, hold=True)
    first = driver.ask("copy", source=source, sink=sink, faults=stopped.told(), stop=True)
    assert (Path(stopped.directory) / "holding").exists()
    assert (tmp_path / "checkpoint" / "offsets" / str(this.generation)).exists()
    assert not (tmp_path / "checkpoint" / "commits" / str(this.generation)).exists(), "it was stopped in the middle"
    faults = this.faults("copy", TRIGGER // QUEUES, topic=copy, generation=this.generation)
    second = this.through(
        faults, lambda: driver.begin("copy", source=source, sink=sink, faults=faults.told(), stop=False)
    )
    assert (second["id"], second["run"] == first["run"]) == (first["id"], False)
    assert sum(rows for at, rows in second["batches"]) == ROWS - this.generation * TRIGGER
    copied = rows_of(group, copy)
    assert_is_the_input(copied)
    assert in_order(copied) == in_order(written)

    faults = this.faults("read", EACH // 2)
    options = {"bootstrap": group.name_server, "subscribe": copy, "minPartitions": "6"}
    read = this.through(faults, lambda: driver.begin("read", options=options, faults=faults.told()))
    assert sorted(read["rows"], key=json.dumps) == sorted(copied, key=json.dumps)
    eventually(lambda: driver.ask("speculated")["attempts"] >= before + 3, "Spark's scheduler says: not speculated", 60)


@pytest.fixture(scope="module")
def rival(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriverProcess]:
    """Another driver in a JVM of its own."""
    with DriverProcess(tmp_path_factory.mktemp("spark") / "rival") as made:
        yield made


def held(group: GuardedGroup, directory: Path, topic: str) -> tuple[Faults, Faults]:
    """Faults of a job that stands still when a part of its second task's rows is in the topic, and of one that runs."""
    for name in ("older", "newer"):
        (directory / name).mkdir()
    late = Faults(str(directory / "older"), hold_part=1, hold_rows=EACH // 3, names=group.name_server, topic=topic)
    return late, Faults(str(directory / "newer"))


def fenced_while_held(
    older: "Future[dict[str, Any]]", directory: Path, newer: Callable[[], dict[str, Any]]
) -> JobFailed:
    """The older job stands still, the newer one runs to its end, the older goes on and says why it may not."""
    with standing_still(older, directory):
        newer()
    # A task of the older job that had not begun may have been refused, and ended the job, before this one goes on.
    with pytest.raises(JobFailed) as caught:
        older.result(timeout=500)
    return caught.value


FENCED = (
    r"refused \(\d+ WRITER_FENCED\): writer \S+ was opened by a newer run \(epoch 2\); this older one may not write"
)


def test_of_two_drivers_with_one_write_id_the_older_is_fenced_by_name(
    group: GuardedGroup, driver: DriverProcess, rival: DriverProcess, tmp_path: Path
) -> None:
    topic = new_topic(group)
    late, newer = held(group, tmp_path, topic)
    job = {
        "rows": ROWS, "parts": PARTS,
        "options": {"bootstrap": group.name_server, "topic": topic, "writeId": f"nightly-{topic}", **AT_ONCE},
    }  # fmt: skip
    error = fenced_while_held(
        driver.begin("write", **job, faults=late.told()), Path(late.directory),
        lambda: rival.ask("write", **job, faults=newer.told()),
    )  # fmt: skip
    assert re.search(FENCED, str(error)), error
    assert_is_the_input(rows_of(group, topic))


def test_of_two_drivers_with_one_checkpoint_the_older_is_fenced_by_name(
    group: GuardedGroup, driver: DriverProcess, rival: DriverProcess, tmp_path: Path
) -> None:
    origin, copy = new_topic(group), new_topic(group)
    late, newer = held(group, tmp_path, copy)
    fill = {"bootstrap": group.name_server, "topic": origin}
    rival.ask("write", rows=ROWS, parts=PARTS, options=fill, faults=newer.told())
    job = {
        "source": {"bootstrap": group.name_server, "subscribe": origin, "startingOffsets": "earliest"},
        "sink": {
            "bootstrap": group.name_server, "topic": copy, "checkpointLocation": str(tmp_path / "checkpoint"),
            **AT_ONCE,
        },
        "stop": False,
    }  # fmt: skip
    error = fenced_while_held(
        driver.begin("copy", **job, faults=late.told()), Path(late.directory),
        lambda: rival.ask("copy", **job, faults=newer.told()),
    )  # fmt: skip
    assert re.search(FENCED, str(error)), error
    assert_is_the_input(rows_of(group, copy))
