"""The questions that planning and reading ask about queues, each answered by the queue's leader."""

from logherd.model.record import RecordError, body_crc, decode_record
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.offsets import GetMaxOffsetHeader, OffsetResponse, QueueHeader, SearchOffsetHeader
from logherd.wire.headers.pull import PullFlag, PullMessageHeader, PullMessageResponse
from logherd_spark.cluster import Cluster, QueueRef
from logherd_spark.errors import BrokerRefused, Unanswered

__all__ = ["PULLED", "end_of_unread", "max_offset", "min_offset", "offset_at", "pull_request", "seal_at"]

PULLED = frozenset({
    ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
})  # fmt: skip
_MESSAGES_MAX = 8192
_BYTES_MAX = 4 << 20
_SEAL_BITS = 20
_RESETS_TOLD_MAX = 3


def min_offset(cluster: Cluster, queue: QueueRef) -> int:
    """The queue offset of the first message that is kept; blocks, raises as `Cluster.ask`."""
    header = QueueHeader(topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.group)
    return _offset(cluster, queue, RequestCode.GET_MIN_OFFSET, encode_header(header))


def max_offset(cluster: Cluster, queue: QueueRef) -> int:
    """The queue offset after the last committed message; blocks, raises as `Cluster.ask`."""
    header = GetMaxOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.group)
    return _offset(cluster, queue, RequestCode.GET_MAX_OFFSET, encode_header(header))


def end_of_unread(cluster: Cluster, queue: QueueRef) -> int | None:
    """As `max_offset`, of a queue that is no more among those that a topic's route has to read. None if it has no log
    there, as one that never had a message, or if the broker tells nothing of it."""
    try:
        return max_offset(cluster, queue)
    except BrokerRefused as error:
        if error.code != ResponseCode.INVALID_PARAMETER:
            raise
        return None


def offset_at(cluster: Cluster, queue: QueueRef, timestamp_ms: int) -> int:
    """The queue offset of the first message stored at that time or later, the end if there is none; blocks, raises as
    `Cluster.ask`."""
    header = SearchOffsetHeader(
        topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms, boundary_type="LOWER",
        broker_name=queue.group,
    )  # fmt: skip
    return _offset(cluster, queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, encode_header(header))


def seal_at(cluster: Cluster, queue: QueueRef, offset: int, *, group: str) -> int | None:
    """By what the message at an offset is known again in its queue, whatever broker has it: when it was stored, in ms,
    and 20 bits of its body's checksum. None if it is not there, or cannot be had. Blocks, raises BrokerRefused and
    TopicMissing as `Cluster.ask`."""
    try:
        answer = _first_pull(cluster, queue, offset, group)
        record = decode_record(answer.body) if answer.code == ResponseCode.SUCCESS else None
    except (Unanswered, RecordError):  # as where it is damaged: it was read, and is not read again
        return None
    if record is None or record.queue_offset != offset:
        return None
    return record.store_timestamp << _SEAL_BITS | body_crc(record.body) & (1 << _SEAL_BITS) - 1


def _first_pull(cluster: Cluster, queue: QueueRef, offset: int, group: str) -> Frame:
    """The answer to a pull of one message. One that only tells a consumer group where it was reset to says nothing of
    the message: a broker gives no more than three of those."""
    for _ in range(_RESETS_TOLD_MAX + 1):
        answer = cluster.ask(queue, lambda: pull_request(queue, offset, count=1, group=group, tags="*"), good=PULLED)
        if answer.code != ResponseCode.PULL_OFFSET_MOVED:
            break
        ends = decode_header(PullMessageResponse, answer.ext)
        if not ends.min_offset <= offset < ends.max_offset:
            break
    return answer


def _offset(cluster: Cluster, queue: QueueRef, code: int, ext: dict[str, str]) -> int:
    answer = cluster.ask(queue, lambda: Frame(code, 0, ext=ext))
    return decode_header(OffsetResponse, answer.ext).queue_offset


def pull_request(queue: QueueRef, offset: int, *, count: int, group: str, tags: str) -> Frame:
    """Asks for committed messages from `offset` on, without waiting for new ones. `tags` as in "A || B", or "*"."""
    header = PullMessageHeader(
        consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, queue_offset=offset,
        messages_max=min(count, _MESSAGES_MAX), sys_flag=PullFlag.SUBSCRIPTION, commit_offset=0, suspend_timeout_ms=0,
        subscription_version=0, subscription=tags, expression_type="TAG", bytes_max=_BYTES_MAX,
        broker_name=queue.group,
    )  # fmt: skip
    return Frame(RequestCode.PULL_MESSAGE, 0, ext=encode_header(header))
