"""Queues that a stream has not seen before: it reads all of them, or says that it cannot."""

from collections.abc import Callable

import pytest

from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame
from logherd_spark.bounds import ranges_between
from logherd_spark.cluster import Cluster, QueueRef, Route
from logherd_spark.errors import DataLost, OptionRefused
from logherd_spark.options import read_options
from logherd_spark.patience import Patience
from logherd_spark.reading import LogHerdReader, LogHerdStreamReader
from logherd_spark.schema import COLUMNS
from logherd_spark.versions import ReadMaxRows

KNOWN, NEW = QueueRef("Events", "a", 0), QueueRef("Events", "a", 1)


class Kept(Cluster):
    """Queues of which the messages from one offset to another are kept."""

    def __init__(self, kept: dict[QueueRef, tuple[int, int]]) -> None:
        super().__init__(("names:9876",), Patience())
        self.kept = kept

    def route(self, topic: str, *, fresh: bool = False) -> Route:
        del topic, fresh
        return Route(tuple(self.kept), ())

    def ask(self, queue: QueueRef, request: Callable[[], Frame], *, good: frozenset[int] = frozenset({0})) -> Frame:
        del good
        edge = request().code == RequestCode.GET_MAX_OFFSET
        return Frame(0, 0, ext={"offset": str(self.kept[queue][edge])})


def reader(kept: dict[QueueRef, tuple[int, int]], **options: str) -> LogHerdStreamReader:
    given = {"bootstrap": "names:9876", "subscribe": "Events", **options}
    made = LogHerdStreamReader(read_options(given, streaming=True), COLUMNS)
    made._known = Kept(kept)
    return made


def test_a_new_queue_of_which_something_is_gone_already_is_told() -> None:
    """As after days in which the query did not run: the checkpoint knows only the old one."""
    made = reader({KNOWN: (0, 10), NEW: (500, 700)})
    start = {"Events": {"a:0": 10}}
    end = made.latestOffset(start, ReadMaxRows(1000))
    assert end == {"Events": {"a:0": 10, "a:1": 700}}
    with pytest.raises(DataLost, match="offsets 0 to 499 are gone"):
        made.partitions(start, end)


def test_a_new_queue_is_read_from_its_first_message_or_where_loss_is_no_matter_from_what_is_kept() -> None:
    for kept, options in (((0, 700), {}), ((500, 700), {"failOnDataLoss": "false"})):
        made = reader({KNOWN: (0, 10), NEW: kept}, **options)
        start = {"Events": {"a:0": 10}}
        end = made.latestOffset(start, ReadMaxRows(150))
        assert end == {"Events": {"a:0": 10, "a:1": kept[0] + 150}}
        (part,) = made.partitions(start, end)
        assert (part.value[0], part.value[1:]) == (NEW, (kept[0], kept[0] + 150))


def test_a_limit_counts_rows_that_are_kept_where_loss_is_no_matter() -> None:
    """Else a stream that comes back late makes empty micro-batches over all that is gone, and may never arrive."""
    other = KNOWN._replace(group="b")
    made = reader({KNOWN: (1_000_000, 1_000_700), NEW: (0, 10)}, failOnDataLoss="false")
    start = {"Events": {"a:0": 10, "a:1": 10, f"{other.group}:0": 5}}
    end = made.latestOffset(start, ReadMaxRows(150))
    assert end == {"Events": {"a:0": 1_000_150, "a:1": 10, "b:0": 5}}
    assert [each.value for each in made.partitions(start, end)] == [(KNOWN, 1_000_000, 1_000_150)]
    told = reader({KNOWN: (500, 700)}).latestOffset({"Events": {"a:0": 10}}, ReadMaxRows(150))
    assert told == {"Events": {"a:0": 160}}, "where loss matters it is told of all that is gone"


def test_a_limit_goes_behind_no_end_that_was_found_before_messages_went() -> None:
    made = reader({KNOWN: (0, 300)}, failOnDataLoss="false")
    made.prepareForTriggerAvailableNow()
    made._known = Kept({KNOWN: (400, 900)})
    assert made.latestOffset({"Events": {"a:0": 10}}, ReadMaxRows(150)) == {"Events": {"a:0": 300}}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"startingOffsets": '{"Events": {"0": 0, "1": 30}}', "endingOffsets": '{"Events": {"0": 9, "1": 20}}'},
            "option startingOffsets has 30 for queue 1 of topic Events in group a, option endingOffsets has 20:",
        ),
        (
            {"startingTimestamp": "8000", "endingTimestamp": "7000"},
            "option startingTimestamp has 8000, option endingTimestamp has 7000: reading would end before it begins",
        ),
        (
            {"startingTimestamp": "8000", "endingOffsetsByTimestamp": '{"Events": {"a:0": 8000, "a:1": 7000}}'},
            "startingTimestamp has 8000 for queue 1 of .*, option endingOffsetsByTimestamp has 7000: reading",
        ),
        (
            {"startingOffsetsByTimestamp": '{"Events": {"0": 1, "1": 8}}', "endingTimestamp": "7"},
            "startingOffsetsByTimestamp has 8 for queue 1 of .*, option endingTimestamp has 7: reading",
        ),
    ],
)
@pytest.mark.parametrize("kept", [(0, 50), (40, 50), (0, 10)])
@pytest.mark.parametrize("loss_matters", ["true", "false"])
def test_options_that_end_before_they_begin_are_refused_by_both_names_whatever_is_kept(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], said: str, kept: tuple[int, int], loss_matters: str
) -> None:
    """Nothing is lost there, and nothing is there with which reading could go on."""
    monkeypatch.setattr("logherd_spark.reading.Cluster", lambda *_: Kept({KNOWN: kept, NEW: kept}))
    given = {"bootstrap": "names:9876", "subscribe": "Events", "failOnDataLoss": loss_matters, **options}
    made = LogHerdReader(read_options(given, streaming=False), COLUMNS)
    with pytest.raises(OptionRefused, match=said):
        made.partitions()


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": '{"Events": {"0": 20}}', "endingOffsets": '{"Events": {"0": -1}}'},
        {"startingOffsets": '{"Events": {"0": -2}}', "endingOffsets": '{"Events": {"0": 50}}'},
        {"startingOffsets": '{"Events": {"0": 50}}', "endingOffsets": '{"Events": {"0": 50}}'},
        {"startingTimestamp": "7", "endingTimestamp": "7"},
        {"startingTimestamp": "7000", "endingOffsets": '{"Events": {"0": 50}}'},
    ],
)
def test_options_that_end_where_they_begin_or_later_are_read(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    monkeypatch.setattr("logherd_spark.reading.Cluster", lambda *_: Kept({KNOWN: (0, 50)}))
    given = {"bootstrap": "names:9876", "subscribe": "Events", **options}
    LogHerdReader(read_options(given, streaming=False), COLUMNS).partitions()


def test_bounds_in_the_wrong_order_are_told_as_such_and_not_as_a_queue_that_is_too_short() -> None:
    with pytest.raises(DataLost, match=r"reading would begin at offset 30 and end before 20;"):
        ranges_between(Kept({KNOWN: (0, 50)}), {KNOWN: 30}, {KNOWN: 20}, fail_on_data_loss=True)


def test_a_begin_behind_the_end_of_the_queue_is_told_with_that_end() -> None:
    with pytest.raises(DataLost, match=r"reading would begin at offset 70, the queue ends at 50; to go on"):
        ranges_between(Kept({KNOWN: (0, 50)}), {KNOWN: 70}, {KNOWN: 50}, fail_on_data_loss=True)
