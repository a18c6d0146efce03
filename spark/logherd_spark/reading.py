"""Spark's readers: a batch between two bounds, and a stream whose offsets stand in its checkpoint."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from logherd_spark.bounds import begin_of_new, latest, queues_of, ranges_between, refuse_wrong_order, resolve
from logherd_spark.calls import end_of_unread, min_offset, seal_at
from logherd_spark.cluster import Cluster, QueueRef
from logherd_spark.errors import DataLost, SourceError, in_one_sentence
from logherd_spark.filters import Filter, narrowed
from logherd_spark.options import LATEST, Bound, ReadOptions
from logherd_spark.patience import Retries
from logherd_spark.pulling import RangePuller
from logherd_spark.ranges import Offsets, Place, Range, from_checkpoint, limited, split, to_checkpoint
from logherd_spark.schema import column_names
from logherd_spark.versions import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

__all__ = ["FilteringReader", "LogHerdReader", "LogHerdStreamReader"]


class LogHerdReader(DataSourceReader):
    """Everything between two bounds, looked up when the job is planned."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._names = column_names(schema)
        self._filters: list[Filter] = []

    @in_one_sentence
    def partitions(self) -> list[InputPartition]:
        options = self._options
        with closing(Cluster(options.bootstrap, options.patience)) as cluster:
            queues = queues_of(cluster, options.topics)
            refuse_wrong_order(queues, options.start, options.end)
            start = resolve(cluster, queues, options.start, "startingOffsets")
            end = resolve(cluster, queues, options.end, "endingOffsets")
            ranges = ranges_between(cluster, start, end, fail_on_data_loss=options.fail_on_data_loss)
        return _partitions(narrowed(ranges, self._filters), options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._options, self._names)


class FilteringReader(LogHerdReader):
    """With the option filterPushdown. Spark refuses a reader that can do it while its own setting is off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        self._filters = list(filters)
        return filters


class LogHerdStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An endless read. Its place is as `ranges` says; what it has read up to there is known again by seals."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._names = column_names(schema)
        self._known: Cluster | None = None
        self._last: Offsets | None = None
        self._initial: dict[str, Any] | None = None
        self._told: Place | None = None
        self._known_seals: dict[tuple[QueueRef, int], int] = {}
        """Of what was looked at for this micro-batch."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": None}

    @property
    def _cluster(self) -> Cluster:
        if self._known is None:
            self._known = Cluster(self._options.bootstrap, self._options.patience)
        return self._known

    @in_one_sentence
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if self._initial is None:  # Spark asks more than once, and the latest is another one by then
            queues = queues_of(self._cluster, self._options.topics)
            offsets = resolve(self._cluster, queues, self._options.start, "startingOffsets")
            self._initial = to_checkpoint(offsets, self._sealed(Place({}, {}, {}), offsets))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        rows = self._options.rows_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    @in_one_sentence
    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        if start is None and self._told is None and self._options.start == Bound("offset", LATEST):
            self.initialOffset()  # else it is asked for afterwards, and lies behind this end
        ends = self._ends() if self._last is None else self._last
        # Before Spark 4.2 there are no limits, and nobody says where the stream is: it is where it was sent.
        place = (self._told or Place({}, {}, {})) if start is None else from_checkpoint(start)
        begins = place.offsets if start is None else self._begins(place.offsets, ends)
        if self._options.fail_on_data_loss:
            ends = self._reached(begins, ends)
        # A queue that the topic lost, or a leader that has not all yet, must not move a stream back.
        ends = {**ends, **{queue: max(ends.get(queue, 0), begin) for queue, begin in begins.items()}}
        if isinstance(limit, ReadMaxRows):
            ends = limited(self._kept(begins, ends), ends, limit.max_rows)
        seals = self._sealed(place, ends)
        first = start is not None and start == self._initial
        started = place.offsets if first else place.begins if ends == place.offsets else {}
        self._told = Place(ends, seals, started)
        return to_checkpoint(ends, seals, started)

    @in_one_sentence
    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return to_checkpoint(self._ends())

    @in_one_sentence
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self._ends()

    @in_one_sentence
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        first, last = from_checkpoint(start), from_checkpoint(end)
        self._told = self._told or last
        # Another driver may have planned the stream's first micro-batch, and has written down where that begins.
        begins = last.begins if last.begins and not first.begins else first.offsets
        ranges = ranges_between(self._cluster, begins, last.offsets, fail_on_data_loss=self._options.fail_on_data_loss)
        if self._options.fail_on_data_loss:
            for each in ranges:  # also of a micro-batch that an earlier driver has planned
                for place in (first, last):
                    self._compare(each.queue, place)
        return _partitions(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._options, self._names)

    def commit(self, end: dict[str, Any]) -> None:
        """Progress is the checkpoint's; the broker is told nothing."""

    def stop(self) -> None:
        if self._known is not None:
            self._known.close()
            self._known = None

    def _begins(self, start: Offsets, ends: Offsets) -> Offsets:
        """The stream's place in each queue; in one that it has not seen before, where that begins."""
        loss_matters = self._options.fail_on_data_loss
        new = (queue for queue in ends if queue not in start)
        return {
            **start,
            **{queue: begin_of_new(self._cluster, queue, fail_on_data_loss=loss_matters) for queue in new},
        }

    def _kept(self, begins: Offsets, ends: Offsets) -> Offsets:
        """Where the rows of each queue begin: not before what is kept, if loss is no matter. A limit that counted what
        is gone would be used up by nothing, in one micro-batch after the other."""
        if self._options.fail_on_data_loss:
            return begins
        return {
            queue: begin if begin >= ends[queue] else min(max(begin, min_offset(self._cluster, queue)), ends[queue])
            for queue, begin in begins.items()
        }

    def _reached(self, begins: Offsets, ends: Offsets) -> Offsets:
        """The ends, none before the stream's place. Blocks while one is: a replica may not have all yet.

        Raises: DataLost when the patience ends: what will come up to that place would be passed over. Also for queues
        that are read no more, with rows in them.
        """
        retries = Retries(self._cluster.patience)
        while lost := _lost(begins, ends) or self._left(begins, ends):
            if not retries.pause():
                raise DataLost(lost)
            ends = self._ends()
            if self._last is not None:
                self._last = ends
        return ends

    def _left(self, begins: Offsets, ends: Offsets) -> str:
        """As `_lost`, of queues that their topic has no more in a group that has others of it: a pull of them is
        refused. "" if all of them was read."""
        groups = {(queue.topic, queue.group) for queue in ends}
        for queue, begin in begins.items():
            if queue in ends or (queue.topic, queue.group) not in groups:
                continue
            end = end_of_unread(self._cluster, queue)
            if begin > 0 if end is None else end > begin:
                ending = "and nobody knows where the queue ends" if end is None else f"the queue ends at {end}"
                return (
                    f"{queue}: is read no more, as the topic has fewer queues; the stream is at offset {begin}, "
                    f"{ending}: what comes from there on is not read; to read it: give the topic as many read queues "
                    "again; to go on without it: option failOnDataLoss=false"
                )
        return ""

    def _sealed(self, place: Place, ends: Offsets) -> dict[QueueRef, int]:
        """Seals of the ends, after the place's own were compared in the queues that go on. None where loss is no
        matter: then nothing is compared, and what was known of another queue of that name is forgotten.

        Raises: DataLost.
        """
        found: dict[QueueRef, int] = {}
        self._known_seals.clear()
        if not self._options.fail_on_data_loss:
            return found
        for queue, end in ends.items():
            if end == place.offsets.get(queue):
                seal = place.seals.get(queue)  # and none where there was none: what Spark compares is the text
            else:
                self._compare(queue, place)
                seal = self._seal(queue, end)
            if seal is not None:
                found[queue] = seal
        return found

    def _compare(self, queue: QueueRef, place: Place) -> None:
        """Raises: DataLost if another message stands before the place than the stream has read there."""
        seal = place.seals.get(queue)
        if seal is not None and self._seal(queue, place.offsets[queue]) not in (seal, None):
            at = place.offsets[queue]
            raise DataLost(
                f"{queue}: message {at - 1} is another one than the stream has read there: the checkpoint is of another"
                " cluster, or the topic was deleted and made again, or what was read is lost; to read what is there"
                f" from its beginning: another checkpoint; to go on at offset {at}: option failOnDataLoss=false"
            )

    def _seal(self, queue: QueueRef, offset: int) -> int | None:
        """Of the message before an offset."""
        known = self._known_seals.get((queue, offset))
        if known is None and offset > 0:
            known = seal_at(self._cluster, queue, offset - 1, group=self._options.consumer_group)
            if known is not None:
                self._known_seals[queue, offset] = known
        return known

    def _ends(self) -> Offsets:
        # The route is asked anew: a topic may have got more queues.
        return latest(self._cluster, queues_of(self._cluster, self._options.topics, fresh=True))


def _lost(begins: Offsets, ends: Offsets) -> str:
    """What a stream has read and finds no more, and what it can do; "" if nothing. A queue without a route is away; but
    where all are that it has read of a topic, and others are there, that is another topic."""
    for queue, begin in begins.items():
        if ends.get(queue, begin) < begin:
            return (
                f"{queue}: the stream is at offset {begin}, the queue ends at {ends[queue]}: what was read "
                "is gone there, and what comes in its place is not read; to read it: another checkpoint; to go on "
                "without it: option failOnDataLoss=false"
            )
    for topic in {queue.topic for queue in ends}:
        read = [queue for queue, begin in begins.items() if queue.topic == topic and begin > 0]
        if read and not any(queue in ends for queue in read):
            groups = " and ".join(sorted({queue.group for queue in ends if queue.topic == topic}))
            return (
                f"{read[0]}: has no route, as all queues that the stream has read of this topic, and others of it are"
                f" in group {groups}: the checkpoint is of another cluster, or that group is gone; to read those from"
                " their beginnings: option failOnDataLoss=false"
            )
    return ""


def _partitions(ranges: list[Range], options: ReadOptions) -> list[InputPartition]:
    pieces = split(ranges, parts_min=options.partitions_min, rows_max=options.rows_per_partition)
    return [InputPartition(tuple(piece)) for piece in pieces]


def _read(partition: InputPartition, options: ReadOptions, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    if partition.value is None:  # what Spark makes of no partitions at all
        return
    with closing(Cluster(options.bootstrap, options.patience)) as cluster:
        try:
            yield from RangePuller(cluster, Range(*partition.value), options).batches(names)
        except SourceError as error:
            raise error.with_traceback(None) from None
