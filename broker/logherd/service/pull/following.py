"""Pulls that a follower answers itself: of messages that are committed, and of nothing else.

A follower may lack the newest messages, so it never says that there are none, nor that an offset is wrong, nor what is
forbidden: whenever the answer would be anything but messages, or that none of those passed suits the subscription, the
leader answers. It changes nothing: an offset that rides on a pull goes to the leader on its own.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable

from logherd.kit.clock import Clock
from logherd.model.topic import Permission
from logherd.service.clients.heartbeats import decode_heartbeat, subscription_of
from logherd.service.clients.registry import ClientRegistry, Connection, ConsumerProfile
from logherd.service.errors import RequestError
from logherd.service.metadata import Metadata
from logherd.service.ports import Reply, Session
from logherd.service.pull.filters import find_tag_codes
from logherd.service.pull.handler import PullHandler, pull_ends
from logherd.store import MessageStore, QueueLog, ReadResult, ReadStatus, StoreDamaged, StoreError
from logherd.telemetry.log import Log
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.errors import BodyError, HeaderError
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.clients import UnregisterClientHeader
from logherd.wire.headers.offsets import UpdateConsumerOffsetHeader
from logherd.wire.headers.pull import PullFlag, PullMessageHeader

__all__ = ["FollowerPulls"]

_log = Log("logherd.service.pull")

_LOOK_MS = 10_000
"""How often silent clients are looked for, as at the leader."""


class FollowerPulls:
    """Loop thread only. It knows the subscriptions of the clients that are connected here, by their heartbeats; whoever
    falls silent is forgotten, as at the leader, also while the connection lives.

    `readable`: up to where this follower may answer reads at this moment, which its store shows; None: not at all.
    `broker_id`, `behind`: whoever is so many bytes before the end is told to stay here, whoever is not, to go back.
    """

    def __init__(
        self, store: MessageStore, metadata: Metadata, pulls: PullHandler, *, readable: Callable[[], int | None],
        clock: Clock, broker_id: int, behind: int,
    ) -> None:  # fmt: skip
        self._store = store
        self._metadata = metadata
        self._pulls = pulls
        self._readable = readable
        self._broker_id = broker_id
        self._behind = behind
        self._registry = ClientRegistry()
        self._clock = clock
        self._looked_at = clock.monotonic_ms()
        self.served = 0
        """Number of pulls since the start that were answered here."""
        self.on_damage: Callable[[StoreDamaged], None] = lambda _: None
        """Hears of each damage that a pull has met; the leader then answers it."""

    # ---- who is connected

    def begin(self, heartbeats: Iterable[tuple[Session, Frame]]) -> None:
        """This broker leads no more; its clients have said this."""
        self._registry.clear()
        for session, frame in heartbeats:
            self.note(session, frame)

    def note(self, session: Session, frame: Frame) -> None:
        """A request 34 or 35 has come; what is wrong with it is for the leader to say."""
        try:
            if frame.code == RequestCode.HEART_BEAT:
                self._join(session, frame)
            elif frame.code == RequestCode.UNREGISTER_CLIENT:
                header = decode_header(UnregisterClientHeader, frame.ext)
                self._registry.leave(session.id, header.client_id, consumer_group=header.consumer_group or "")
        except (BodyError, HeaderError):
            return

    def closed(self, session_id: int) -> None:
        """A connection is gone."""
        self._registry.session_closed(session_id)

    def _join(self, session: Session, frame: Frame) -> None:
        data, now_ms = decode_heartbeat(frame.body), self._clock.monotonic_ms()
        if now_ms - self._looked_at >= _LOOK_MS:
            self._looked_at = now_ms
            self._registry.expire(now_ms)
        consumers = [consumer.group for consumer in data.consumers]
        if not self._registry.has_room(session.id, data.client_id, producers=(), consumers=consumers):
            return
        for consumer in data.consumers:
            profile = ConsumerProfile(consumer.consume_type, consumer.message_model, consumer.consume_from)
            wanted = {item.topic: subscription_of(item) for item in consumer.subscriptions}
            self._registry.join_consumer(
                consumer.group, profile, Connection(data.client_id, session, frame.language, frame.version, now_ms, 0),
                subscriptions=None if data.without_subscriptions else wanted,
            )  # fmt: skip

    # ---- pulls

    def answer(self, frame: Frame) -> tuple[Reply, Frame | None] | None:
        """The answer, and what the leader is to be told of it; None: the leader must answer this pull."""
        upto = self._readable()
        if upto is None:
            return None
        try:
            header = decode_header(PullMessageHeader, frame.ext)
            reply = self._answer(header, upto)
        except (RequestError, HeaderError):
            return None  # it says so itself
        except (StoreError, OSError) as error:  # OSError: no descriptor or no memory for a file of the log
            _log.error("a follower cannot read what it holds", error=error)
            if isinstance(error, StoreDamaged):
                self.on_damage(error)
            return None
        if reply is None:
            return None
        self.served += 1
        return reply, _commit_of(header)

    def _answer(self, header: PullMessageHeader, upto: int) -> Reply | None:
        if not self._allowed(header):
            return None
        tag_codes = find_tag_codes(header, self._registry, self._metadata)
        queue = self._store.find_queue(header.topic, header.queue_id)
        if queue is None:
            return None
        result = self._pulls.read(queue, header, tag_codes)
        if result.status not in (ReadStatus.FOUND, ReadStatus.NO_MATCH):
            return None
        end = self._end(queue, result, upto)
        if result.next_offset > end:
            return None  # the leader does not show all of it yet
        ext = pull_ends(result.next_offset, result.min_offset, end)
        unit = self._store.unit(queue, header.queue_offset)
        if unit is not None and self._store.committed_position - unit[0] >= self._behind:
            ext["suggestWhichBrokerId"] = str(self._broker_id)
        self._pulls.count_read(result)
        if result.status is ReadStatus.FOUND:
            return Reply(ResponseCode.SUCCESS, ext, result.slices, remark=result.status.value)
        return Reply(ResponseCode.PULL_RETRY_IMMEDIATELY, ext, remark=result.status.value)

    def _end(self, queue: QueueLog, result: ReadResult, upto: int) -> int:
        """The queue's end, of the log up to a position. Few messages lie behind what the leader has vouched for."""

        def is_beyond(offset: int) -> bool:
            unit = self._store.unit(queue, offset)
            return unit is None or unit[0] >= upto

        last = result.max_offset - 1
        if not is_beyond(last):
            return result.max_offset
        return bisect_left(range(last), True, lo=result.min_offset, key=is_beyond)  # noqa: FBT003

    def _allowed(self, header: PullMessageHeader) -> bool:
        """Whether the leader would let this pull read, as far as is known here."""
        group, topic = self._metadata.groups.get(header.consumer_group), self._metadata.topics.get(header.topic)
        if group is None or topic is None or not self._pulls.permission & Permission.READ:
            return False
        pending = self._metadata.offsets.pending_reset(group.name, topic.name, header.queue_id)
        return group.consume_enabled and topic.readable and 0 <= header.queue_id < topic.read_queues and pending is None


def _commit_of(header: PullMessageHeader) -> Frame | None:
    """The offset that rides on a pull, as a request of its own."""
    if not header.sys_flag & PullFlag.COMMIT_OFFSET or header.commit_offset < 0:
        return None
    commit = UpdateConsumerOffsetHeader(
        consumer_group=header.consumer_group, topic=header.topic, queue_id=header.queue_id,
        commit_offset=header.commit_offset, broker_name=header.broker_name,
    )  # fmt: skip
    return Frame(RequestCode.UPDATE_CONSUMER_OFFSET, 0, flag=Flag.ONEWAY, ext=encode_header(commit))
