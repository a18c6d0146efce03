"""Who is asked how he stands, and who is believed."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from logherd_operator.local.addresses import Ports
from logherd_operator.local.disk import check_disk
from logherd_operator.local.errors import LocalError
from logherd_operator.local.folder import Folder
from logherd_operator.local.look import look_at
from logherd_operator.local.processes import started_ticks
from logherd_operator.local.state import GroupState, PlaceState, Process
from logherd_operator.local.status import document_of

PORTS = Ports(name_service=20_000, broker=21_000, admin=21_002)
FAULT = "its log is damaged and is being mended"
HEALING = {
    "brokerId": 1, "role": "healing", "epoch": 0, "endPosition": 7, "committedPosition": 7, "ready": False,
    "fault": FAULT,
}  # fmt: skip


def of_one(guardian: int) -> GroupState:
    """A group of one broker, whose guardian is that process."""
    place = PlaceState(
        component="broker", ordinal=0, revision="r", guardian=Process(guardian, started_ticks(guardian) or 0)
    )  # fmt: skip
    return GroupState(group="orders", host="127.0.0.1", ports=PORTS, file="f", brokers=1, places=(place,))


def test_a_broker_that_heals_its_store_is_seen_though_it_serves_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has written no file that says who serves; what stands there is of the life before."""
    folder = Folder(tmp_path)
    folder.write_document("broker-1.ready", {"pid": 1 << 22, "guardian": os.getpid()})
    with subprocess.Popen(["sleep", "600"]) as process:
        monkeypatch.setattr("logherd_operator.local.look.ask", lambda *_: (200, HEALING | {"pid": process.pid}))
        look = look_at(of_one(os.getpid()), folder)
        process.kill()
    (broker,) = document_of(look, None)["brokers"]
    assert (broker["role"], broker["pid"], broker["ready"], broker["why"]) == ("healing", process.pid, False, FAULT)
    assert [slot.report.fault for slot in look.observed.brokers if slot.report is not None] == [FAULT]


@pytest.mark.parametrize("pid", [1, 0, -1, 10**300, "1", None])
def test_who_answers_and_is_not_the_guardians_child_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: object
) -> None:
    """As another program that has taken the port meanwhile."""
    monkeypatch.setattr("logherd_operator.local.look.ask", lambda *_: (200, HEALING | {"pid": pid}))
    look = look_at(of_one(os.getpid()), Folder(tmp_path))
    (broker,) = document_of(look, None)["brokers"]
    assert (broker["role"], broker["pid"]) == ("unknown", None)
    assert [slot.report for slot in look.observed.brokers] == [None]


def test_where_no_guardian_lives_nobody_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[object]()
    monkeypatch.setattr("logherd_operator.local.look.ask", lambda *given: asked.append(given))
    look_at(of_one(1 << 22), Folder(tmp_path))
    assert asked == []


TIME = "2026-01-02T03:04:05.678Z"
SERVES = f"{TIME} logherd-guardian: the child serves\n"
WARNED = f"{TIME} WARNING logherd.group: controllers do not answer\n"
STOPS = '"time": "2026-01-02T03:04:05.678Z", "level": "ERROR", "source": "logherd.app", "message": "process stops"'


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (f'{TIME} ERROR logherd.app: process stops process=broker reason="No space left on device"\n',
         "process stops: No space left on device"),
        (f"{TIME} ERROR logherd.app: process stops reason=full\n{TIME} INFO logherd.net: closed remote=a:1\n",
         "process stops: full"),
        (f'{TIME} ERROR logherd.app: it fails reason="No \\"space\\" left"\n', 'it fails: No "space" left'),
        (f"{{{STOPS}, \"reason\": \"No space left on device\"}}\n", "process stops: No space left on device"),
        (f"{{{STOPS}}}\n{{\"time\": \"2026-01-02T0", "process stops"),
        (f"{TIME} WARNING logherd.net: closed\n{TIME} ERROR logherd.ap", "closed"),
        ("Traceback (most recent call last):\n  File \"x.py\", line 1\nOSError: [Errno 28] No space left on device\n",
         "No space left on device"),
        (f"{TIME} ERROR logherd.app: it fails\nlogherd broker: port 1 is taken\n", "port 1 is taken"),
        ("nohup: ignoring input\n", "nohup: ignoring input"),
        (f"{TIME} INFO logherd.net: closed\n{{\"time\": 1}}\n{{\"ti", "its guardian has ended and said nothing"),
        (f"{WARNED}{SERVES}{WARNED}", "its guardian has ended and said nothing"),
        (f"{WARNED}{SERVES}{TIME} ERROR logherd.app: process stops reason=full\n", "process stops: full"),
        (f"{SERVES}{WARNED}{TIME} logherd-guardian: the child has exited: code=4\n", "controllers do not answer"),
    ],
)  # fmt: skip
def test_why_a_guardian_has_ended_is_told_in_words_and_not_in_lines_of_its_log(
    tmp_path: Path, log: str, why: str
) -> None:
    tmp_path.joinpath("broker-1.log").write_text(log)
    (broker,) = document_of(look_at(of_one(1 << 22), Folder(tmp_path)), None)["brokers"]
    assert broker["why"] == why


def test_that_a_full_disk_has_kept_a_log_from_saying_why_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logherd_operator.local.disk.shutil.disk_usage", lambda _: SimpleNamespace(free=0))
    (broker,) = document_of(look_at(of_one(1 << 22), Folder(tmp_path)), None)["brokers"]
    assert broker["why"] == "its guardian has ended and said nothing; its disk is full, also for its log"


def test_a_disk_that_does_not_say_how_full_it_is_ends_no_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("logherd_operator.local.disk.shutil.disk_usage", broken)
    (broker,) = document_of(look_at(of_one(1 << 22), Folder(tmp_path)), None)["brokers"]
    assert broker["why"] == "its guardian has ended and said nothing"
    with pytest.raises(LocalError, match="cannot be asked for its disk's space: Input/output error"):
        check_disk(tmp_path, 2)
