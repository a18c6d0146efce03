"""What a commit asks before a job or micro-batch counts: every group to which an earlier attempt may have written."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd_spark import writing
from logherd_spark.cluster import Cluster, QueueRef, Route
from logherd_spark.errors import BrokerRefused, SourceError
from logherd_spark.options import write_options
from logherd_spark.patience import Patience
from logherd_spark.schema import COLUMNS
from logherd_spark.writers import Identity, Sent, confirm
from logherd_spark.writing import LogHerdStreamWriter, LogHerdWriter, Written

ME = Identity("nightly", "run-2", lasting=True)
QUEUES = (QueueRef("Events", "a", 0), QueueRef("Events", "a", 1), QueueRef("Events", "b", 0))
TO_A = Sent(topics={"a": "Events"}, epochs={"a": 2}, chunks={"a": 3}, rows=30)
OPTIONS = {"bootstrap": "names:9876", "topic": "Events"}
ROWS = COLUMNS.__class__([COLUMNS["value"]])


class Stored(Cluster):
    """Groups in whose logs stand so many chunks. `expired`: groups that have forgotten the writer; `never_close`: those
    that do not answer when it is closed."""

    def __init__(
        self, chunks: dict[str, int], expired: tuple[str, ...] = (), never_close: tuple[str, ...] = ()
    ) -> None:  # fmt: skip
        super().__init__(("names:9876",), Patience())
        self.chunks, self.expired, self.never_close = chunks, expired, never_close
        self.lost_groups: tuple[str, ...] = ()
        self.asked: list[tuple[str, int]] = []

    def route(self, topic: str, *, fresh: bool = False) -> Route:
        del topic, fresh
        return Route(QUEUES, tuple(each for each in QUEUES if each.group not in self.lost_groups))

    def ask(self, queue: QueueRef, request: Callable[[], Frame], *, good: frozenset[int] = frozenset({0})) -> Frame:
        del good
        code = request().code
        self.asked.append((queue.group, code))
        if queue.group in self.expired:
            raise BrokerRefused(ResponseCode.WRITER_UNKNOWN, "it has expired", "host:1")
        if code == RequestCode.WRITER_CLOSE and queue.group in self.never_close:
            raise self.gave_up(queue, "host:1 did not answer")
        if code == RequestCode.WRITER_OPEN:
            return Frame(0, 0, ext={"writerEpoch": "2"})
        return Frame(0, 0, ext={"chunks": str(self.chunks[queue.group]), "messages": "0"})


def test_a_group_that_this_attempt_left_out_holds_nothing_of_an_earlier_one() -> None:
    with pytest.raises(SourceError, match=r"group b has 1 chunks .* this attempt has 0"):
        confirm(Stored({"a": 3, "b": 1}), ME, 0, [TO_A], QUEUES)
    clean = Stored({"a": 3, "b": 0})
    confirm(clean, ME, 0, [TO_A], QUEUES)
    assert [group for group, code in clean.asked if code == RequestCode.WRITER_COUNT] == ["a", "b"]


def test_an_attempt_without_any_row_is_confirmed_as_any_other() -> None:
    with pytest.raises(SourceError, match=r"group a has 3 chunks .* this attempt has 0"):
        confirm(Stored({"a": 3, "b": 0}), ME, 0, [Sent()], QUEUES)


def test_where_the_writer_has_expired_it_left_nothing() -> None:
    confirm(Stored({"a": 3}, expired=("b",)), ME, 0, [TO_A], QUEUES)


def test_a_job_asks_the_groups_with_which_it_began_and_a_stream_those_of_the_route(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between two attempts of a task the name service may lose a group, and its rows go to another."""
    cluster = Stored({"a": 3, "b": 1})
    made: Callable[..., Any] = lambda *_, **__: cluster  # noqa: E731
    monkeypatch.setattr(writing, "Cluster", made)
    job = LogHerdWriter(write_options({**OPTIONS, "writeId": "nightly"}, streaming=False), ROWS)
    cluster.lost_groups = ("b",)
    with closing(cluster), pytest.raises(SourceError, match=r"group b has 1 chunks"):
        job.commit([Written(ME, TO_A)])
    cluster.lost_groups = ()
    stream = LogHerdStreamWriter(write_options(OPTIONS, streaming=True), ROWS)
    with pytest.raises(SourceError, match=r"group b has 1 chunks"):
        stream.commit([Written(ME, TO_A)], 0)


def ended(cluster: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job without a writeId stored three chunks in group a, and is committed."""
    made: Callable[..., Any] = lambda *_, **__: cluster  # noqa: E731
    monkeypatch.setattr(writing, "Cluster", made)
    job = LogHerdWriter(write_options(OPTIONS, streaming=False), ROWS)
    job.commit([Written(job._identity, TO_A)])


def test_a_job_that_ends_is_forgotten_in_every_group_in_which_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a job for which a group has no rows leaves a name there for a week, and names are bounded."""
    cluster = Stored({"a": 3, "b": 0})
    ended(cluster, monkeypatch)
    assert [group for group, code in cluster.asked if code == RequestCode.WRITER_CLOSE] == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "forgotten"),
    [({}, ["a", "b"]), ({"writeId": "nightly"}, []), ({"guarantee": "at-least-once"}, [])],
)
def test_a_job_that_fails_is_forgotten_where_it_began_unless_its_name_may_come_again(
    options: dict[str, str], forgotten: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what it has stored counts for a week among the chunks that a group remembers of all writers together."""
    cluster = Stored({"a": 3, "b": 0}, never_close=("a",))
    made: Callable[..., Any] = lambda *_, **__: cluster  # noqa: E731
    monkeypatch.setattr(writing, "Cluster", made)
    LogHerdWriter(write_options({**OPTIONS, **options}, streaming=False), ROWS).abort([None])
    assert [group for group, code in cluster.asked if code == RequestCode.WRITER_CLOSE] == forgotten
    assert cluster.patience.total_seconds == cluster.patience.request_seconds or not forgotten


def test_a_job_whose_rows_are_confirmed_does_not_fail_because_it_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who runs it again, because it failed, writes all rows a second time."""
    cluster = Stored({"a": 3, "b": 0}, never_close=("a",))
    ended(cluster, monkeypatch)
    assert [group for group, code in cluster.asked if code == RequestCode.WRITER_CLOSE] == ["a", "b"]
