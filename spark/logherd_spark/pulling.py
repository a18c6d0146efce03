"""The messages of one range, pulled from the queue's leader and made into Arrow batches.

While one answer is decoded the next is on its way. Offsets are dense: what comes is compared with what should come.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logherd.wire.codes import ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header
from logherd.wire.headers.pull import PullMessageResponse
from logherd_spark.calls import PULLED, pull_request
from logherd_spark.cluster import Cluster
from logherd_spark.connection import Connection, ConnectionLost
from logherd_spark.decoding import Records
from logherd_spark.errors import DataLost
from logherd_spark.options import ReadOptions
from logherd_spark.patience import Retries
from logherd_spark.ranges import Range

__all__ = ["RangePuller"]

_BATCH_BYTES = 2 << 20


class RangePuller:
    """Reads one range once. Blocks; follows the leader; raises Unanswered, BrokerRefused, DataLost."""

    def __init__(self, cluster: Cluster, wanted: Range, options: ReadOptions) -> None:
        self._cluster = cluster
        self._queue, self._next, self._end = wanted
        self._options = options
        self._retries = Retries(cluster.patience)
        self._ahead: tuple[Connection, int, int] | None = None
        self._tags = None if options.tags == "*" else {tag.strip() for tag in options.tags.split("||")}

    def batches(self, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """All messages of the range in order, some thousands at a time."""
        parts: list[bytes] = []
        size, first = 0, self._next
        while self._next < self._end:
            body = self._pull()
            if body:
                parts.append(body)
                size += len(body)
            if size >= _BATCH_BYTES or self._next >= self._end:
                if parts:
                    yield from self._batches(parts, names, first)
                else:
                    self._compare(np.empty(0, np.int64), first)
                parts, size, first = [], 0, self._next

    def _batches(self, parts: list[bytes], names: tuple[str, ...], first: int) -> Iterator[pa.RecordBatch]:
        records = Records(b"".join(parts), str(self._queue))
        offsets = records.queue_offsets
        self._compare(offsets, first)
        wanted = names if self._tags is None or "tags" in names else (*names, "tags")
        left = int(np.searchsorted(offsets, self._end))
        for batch in records.batches(wanted, topic=self._queue.topic, queue_id=self._queue.queue_id):
            yield self._tagged(batch.slice(0, left), names)
            left = max(0, left - len(batch))

    def _compare(self, offsets: Any, first: int) -> None:
        """These came from `first` on. Raises: DataLost unless they are all up to where reading goes on."""
        if self._tags is not None or not self._options.fail_on_data_loss:
            return
        expected = first + np.arange(len(offsets))
        if (wrong := np.flatnonzero(offsets != expected)).size:
            row = int(wrong[0])
            raise DataLost(f"{self._queue}: offset {offsets[row]} came where {expected[row]} should be")
        end, until = first + len(offsets), min(self._next, self._end)
        if end < until:
            self._missing(f"offsets {end} to {until - 1} are gone")

    def _tagged(self, batch: pa.RecordBatch, names: tuple[str, ...]) -> pa.RecordBatch:
        """The broker compares hashes of tags; two tags may have the same."""
        if self._tags is None:
            return batch
        value_set = pa.array(sorted(self._tags))
        return batch.filter(pc.is_in(batch.column("tags"), value_set=value_set)).select(list(names))

    def _pull(self) -> bytes:
        """The next messages, b"" if there are none to be had at once; moves on."""
        offset = self._next
        answer = self._answer(offset)
        header = decode_header(PullMessageResponse, answer.ext)
        if answer.code == ResponseCode.SUCCESS:
            self._next = header.next_begin_offset
        elif offset < header.min_offset:
            self._missing(f"offsets {offset} to {header.min_offset - 1} are gone")
            self._next = header.min_offset
        elif answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and header.next_begin_offset > offset:
            # Nothing between has one of the tags. A consumer group that was reset is "moved", which moves no reader.
            if self._tags is None:
                self._missing(f"offsets {offset} to {header.next_begin_offset - 1} are gone")
            self._next = header.next_begin_offset
        elif not self._retries.pause():
            self._missing(f"the queue ends at {header.max_offset}, offsets up to {self._end - 1} were there before")
            self._next = self._end
        if self._next > offset:
            self._retries.succeeded()
            self._ask_ahead()
        return answer.body if answer.code == ResponseCode.SUCCESS else b""

    def _missing(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLost(f"{self._queue}: {what}; to go on with what is there: option failOnDataLoss=false")

    def _answer(self, offset: int) -> Frame:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[2] == offset:
            connection, opaque, _ = ahead
            try:
                answer = connection.receive(opaque, seconds=self._cluster.patience.request_seconds)
                if answer.code in PULLED:
                    return answer
            except ConnectionLost:
                pass
            self._cluster.lost(self._queue)
        return self._cluster.ask(self._queue, lambda: self._request(offset), good=PULLED)

    def _ask_ahead(self) -> None:
        if self._next >= self._end:
            return
        try:
            connection = self._cluster.connection(self._queue)
            opaque = connection.send(self._request(self._next), seconds=self._cluster.patience.request_seconds)
        except ConnectionLost:
            self._cluster.lost(self._queue)
        else:
            self._ahead = connection, opaque, self._next

    def _request(self, offset: int) -> Frame:
        return pull_request(
            self._queue, offset, count=self._end - offset, group=self._options.consumer_group, tags=self._options.tags
        )
