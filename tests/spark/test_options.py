"""Options, ranges and offsets as plain values."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd_spark.cluster import QueueRef
from logherd_spark.errors import OptionRefused
from logherd_spark.options import EARLIEST, LATEST, Bound, read_options, write_options
from logherd_spark.ranges import Place, Range, from_checkpoint, limited, split, to_checkpoint

READ = {"bootstrap": "a:1,b:2", "subscribe": "t, u"}
WRITE = {"bootstrap": "a:1;b:2", "topic": "t"}
QUEUES = [QueueRef("t", "bg", number) for number in range(5)]


def test_names_are_those_of_the_kafka_source_in_any_case() -> None:
    options = read_options({**READ, "STARTINGOFFSETS": "earliest", "maxoffsetspertrigger": "10"}, streaming=True)
    assert (options.bootstrap, options.topics) == (("a:1", "b:2"), ("t", "u"))
    assert (options.start, options.end) == (Bound("offset", EARLIEST), Bound("offset", LATEST))
    assert (options.rows_per_trigger, options.fail_on_data_loss) == (10, True)
    assert read_options(READ, streaming=True).start == Bound("offset", LATEST)
    assert read_options(READ, streaming=False).start == Bound("offset", EARLIEST)


def test_time_goes_before_offsets() -> None:
    given_both = {**READ, "startingTimestamp": "5", "startingOffsets": "earliest"}
    assert read_options(given_both, streaming=False).start == Bound("time", 5)
    by_queue = {**READ, "startingOffsetsByTimestamp": json.dumps({"t": {"0": 7}})}
    assert read_options(by_queue, streaming=False).start == Bound("time", queues={"t": {"0": 7}})


def test_the_environment_stands_in_where_nothing_is_given() -> None:
    environment = {"LOGHERD_BOOTSTRAP": "e:1", "LOGHERD_TOPIC": "from-e", "LOGHERD_PIPELINE_ID": "p"}
    assert write_options({}, streaming=True, environment=environment).pipeline_id == "p"
    assert write_options({"topic": "t"}, streaming=True, environment=environment).topic == "t"
    assert read_options({"subscribe": "t"}, streaming=False, environment=environment).topics == ("t",)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "t"}, "option bootstrap is missing"),
        ({"bootstrap": "a:1"}, "option subscribe is missing"),
        ({**READ, "topic": "x"}, "options subscribe and topic both name what to read"),
        ({**READ, "bootstrap": "a"}, "option bootstrap names 'a', an address is host:port"),
        ({**READ, "startingOffset": "earliest"}, "unknown option for reading: startingOffset; known are bootstrap"),
        ({**READ, "maxOffsetsPerTrigger": "1"}, "unknown option for reading: maxOffsetsPerTrigger"),
        ({**READ, "path": "u"}, "unknown option for reading: path; known are bootstrap"),
        ({**READ, "startingOffsets": "latest"}, "startingOffsets is 'latest', it must be earliest or JSON"),
        ({**READ, "endingOffsets": "earliest"}, "endingOffsets is 'earliest', it must be latest or JSON"),
        ({**READ, "endingOffsets": "first"}, r'must be latest or JSON: {"topic": {"0": 23, "1": -1}}'),
        (
            {**READ, "endingOffsets": '{"t": {"0": -2}}'},
            r"endingOffsets has -2 for queue 0 of t, at least 0 or -1 \(latest\) is right",
        ),
        (
            {**READ, "startingOffsets": '{"t": {"0": 5, "1": -1}}'},
            r"startingOffsets has -1 for queue 1 of t, at least 0 or -2 \(earliest\) is right",
        ),
        ({**READ, "startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "has -1 for queue 0 of t, at least 0 is right"),
        ({**READ, "startingOffsets": f'{{"t": {{"0": 1{"0" * 5000}}}}}'}, "startingOffsets is no JSON: Exceeds"),
        *(
            (
                {**READ, name: f'{{"t": {{"0": 5, "1": {1 << 63}}}}}'},
                f"option {name} has {1 << 63} for queue 1 of t, at most {(1 << 63) - 1} is right",
            )
            for name in (
                "startingOffsets",
                "endingOffsets",
                "startingOffsetsByTimestamp",
                "endingOffsetsByTimestamp",
            )
        ),
        ({**READ, "startingOffsets": "{"}, "startingOffsets is no JSON"),
        ({**READ, "startingOffsets": '{"t": 1}'}, "startingOffsets must look like"),
        ({**READ, "failOnDataLoss": "no"}, "failOnDataLoss is 'no', it must be true or false"),
        ({**READ, "minPartitions": "0"}, "minPartitions is '0', it must be a number from 1"),
        ({**READ, "startingTimestamp": "noon"}, "startingTimestamp is 'noon', it must be milliseconds"),
        ({**READ, "startingTimestamp": f"{1 << 63}"}, f"startingTimestamp is '{1 << 63}', it must be milliseconds"),
        ({**READ, "bootstrap": "a:1,b:99999"}, "option bootstrap names 'b:99999', an address is host:port"),
        ({**READ, "bootstrap": "a:0"}, "option bootstrap names 'a:0', an address is host:port"),
        ({**READ, "bootstrap": f"a:{'9' * 5000}"}, "option bootstrap names 'a:9+', an address is host:port"),
        ({**READ, "minPartitions": "9" * 5000}, "minPartitions is '9+', it must be a number from 1"),
        ({**READ, "deliveryTimeoutMs": f"{1 << 62}"}, f"'{1 << 62}', it must be a number from 1 to {(1 << 31) - 1}"),
        ({**READ, "requestTimeoutMs": f"{1 << 31}"}, f"'{1 << 31}', it must be a number from 1 to {(1 << 31) - 1}"),
    ],
)
def test_what_means_nothing_is_refused_by_name(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionRefused, match=said):
        read_options(options, streaming=False)


def test_offsets_per_queue_may_be_those_that_a_batch_or_a_stream_can_begin_or_end_at() -> None:
    first, last = '{"t": {"0": -2, "1": 7}}', '{"t": {"0": -1, "1": 7}}'
    batch = read_options({**READ, "startingOffsets": first, "endingOffsets": last}, streaming=False)
    assert batch.start.queues == {"t": {"0": EARLIEST, "1": 7}}
    assert batch.end.queues == {"t": {"0": LATEST, "1": 7}}
    largest = read_options({**READ, "startingOffsets": f'{{"t": {{"0": {(1 << 63) - 1}}}}}'}, streaming=False)
    assert largest.start.queues == {"t": {"0": (1 << 63) - 1}}
    both = '{"t": {"0": -2, "1": -1}}'
    stream = read_options({**READ, "startingOffsets": both}, streaming=True)
    assert stream.start.queues == {"t": {"0": EARLIEST, "1": LATEST}}


@pytest.mark.parametrize("separator", ["\x01", "\x02"])
def test_a_writers_name_that_would_cut_the_mark_of_its_rows_is_refused(separator: str) -> None:
    """Rows that all have one mark are repetitions of one row to whoever reads."""
    with pytest.raises(OptionRefused, match=r"option writeId is 'a\\x0[12]b', it has the character 1 or 2"):
        write_options({**WRITE, "writeId": f"a{separator}b"}, streaming=False)
    with pytest.raises(OptionRefused, match=r"option pipelineId is 'a\\x0[12]b', it has the character 1 or 2"):
        write_options(WRITE, streaming=True, environment={"LOGHERD_PIPELINE_ID": f"a{separator}b"})


def test_a_guarantee_that_nobody_gives_is_refused() -> None:
    with pytest.raises(OptionRefused, match="guarantee is 'twice', it must be one of exactly-once, at-least-once"):
        write_options({**WRITE, "guarantee": "twice"}, streaming=False)
    with pytest.raises(OptionRefused, match="unknown option for writing a stream: writeId"):
        write_options({**WRITE, "writeId": "x"}, streaming=True)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_topic_that_is_given_as_a_path_is_refused_and_what_spark_leaves_there_is_not(streaming: bool) -> None:
    """`save("u")` with an option topic would write to that one without a word."""
    left = {"checkpointLocation": "/c", "queryName": "q", "outputMode": "append"}
    assert write_options({**WRITE, **left}, streaming=streaming).topic == "t"
    with pytest.raises(OptionRefused, match=r"unknown option for writing.*: path; known are bootstrap"):
        write_options({**WRITE, "path": "u"}, streaming=streaming)


@given(st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 1 << 60)))
def test_offsets_come_back_from_a_checkpoint(offsets: dict[QueueRef, int]) -> None:
    assert from_checkpoint(json.loads(json.dumps(to_checkpoint(offsets)))) == Place(offsets, {}, {})


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=5), st.integers(1, 120))
def test_a_limit_is_kept_and_used(waiting: list[tuple[int, int]], rows: int) -> None:
    start = {queue: first for queue, (first, _) in zip(QUEUES, waiting, strict=False)}
    end = {queue: first + more for queue, (first, more) in zip(QUEUES, waiting, strict=False)}
    found = limited(start, end, rows)
    taken = {queue: found[queue] - start[queue] for queue in end}
    assert all(0 <= taken[queue] <= end[queue] - start[queue] for queue in end)
    assert sum(taken.values()) == min(rows, sum(more for _, more in waiting))
    if rows >= len(waiting):
        assert all(taken[queue] for queue in end if end[queue] > start[queue])


def test_a_queue_with_much_is_not_passed_over_for_queues_with_little_that_get_more_every_time() -> None:
    """A limit below the number of queues: who waits longest has most."""
    at, ends = dict.fromkeys(QUEUES[:3], 0), dict.fromkeys(QUEUES[:3], 1)
    ends[QUEUES[0]] = 50
    for _ in range(10):
        at = limited(at, ends, 2)
        ends = {queue: end + (queue != QUEUES[0]) for queue, end in ends.items()}
    assert all(at[queue] >= 3 for queue in at), at


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=5), st.none() | st.integers(1, 20), st.none() | st.integers(1, 20)
)
def test_pieces_cover_their_ranges_once(counts: list[int], parts: int | None, rows: int | None) -> None:
    ranges = [Range(queue, 7, 7 + count) for queue, count in zip(QUEUES, counts, strict=False)]
    pieces = split(ranges, parts_min=parts, rows_max=rows)
    assert [(piece.queue, at) for piece in pieces for at in range(piece.start, piece.end)] == [
        (each.queue, at) for each in ranges for at in range(each.start, each.end)
    ]
    assert all(0 < piece.length <= (rows or piece.length) for piece in pieces)
