"""Pulls: 11 and 361.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/processor/PullMessageProcessor.java
"""

from array import array
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Final, Protocol, cast

from msgspec.structs import replace

from logherd.kit.clock import Clock
from logherd.model.topic import GroupConfig, Permission, TopicConfig
from logherd.service.clients.registry import ClientRegistry
from logherd.service.dispatcher import RawHandler
from logherd.service.errors import RequestError
from logherd.service.group_names import check_group_name
from logherd.service.metadata import Metadata, MetadataRefusedError, NotLeading, is_system_group
from logherd.service.offset_rules import OffsetRules
from logherd.service.ports import PARKED, Answer, Reply, ReplyAfter, Request, Session
from logherd.service.pull.filters import ForbiddenError, find_tag_codes, names_tags
from logherd.service.pull.hold import Hold, Waiter
from logherd.service.pull.options import PullOptions
from logherd.service.requests import LEAVING, settled
from logherd.store import MessageStore, QueueLog, ReadResult, ReadStatus, StoreDamaged
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import decode_header
from logherd.wire.headers.pull import PullFlag, PullMessageHeader

__all__ = ["GetCounter", "PullHandler", "pull_ends", "unread"]

_FORBIDDEN_BROKER = 1
_FORBIDDEN_GROUP = 2
_FORBIDDEN_TOPIC = 3
_RESET: Final = "OFFSET_RESET"

_HEARD_MS: Final = 60_000
"""Stock clients send a heartbeat every 30 s."""

_TAGS_SHARED_MAX: Final = 4
"""Tags of a pull's own expression: the sets of most are shared. One of dozens takes more than all else of a pull."""

_CODES: Final = {
    ReadStatus.FOUND: ResponseCode.SUCCESS,
    ReadStatus.NO_MATCH: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.AT_END: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.BEYOND_END: ResponseCode.PULL_OFFSET_MOVED,
}


class GetCounter(Protocol):
    """Where pulls are counted."""

    def count_get(self, group: str, topic: str, messages: int, size: int) -> None:
        """One pull took this many messages of together `size` bytes; 0 if it found none."""

    def count_read(self, messages: int, size: int) -> None:
        """The same for a pull that a follower has answered."""


class PullHandler:
    """Answers pulls at once or parks them. `permission` is the broker's own, as updateBrokerConfig sets it."""

    def __init__(
        self, store: MessageStore, metadata: Metadata, registry: ClientRegistry, *,
        rules: OffsetRules, clock: Clock, counter: GetCounter, options: PullOptions,
    ) -> None:  # fmt: skip
        self._store = store
        self._metadata = metadata
        self._registry = registry
        self._clock = clock
        self._counter = counter
        self._options = options
        self._rules = rules
        self.hold = Hold(
            recheck_ms=options.recheck_ms, parked_max=options.parked_max, session_max=options.session_parked_max
        )
        self.permission: int = Permission.READ_WRITE
        self.auto_create_groups = options.auto_create_groups
        self._heard_at_ms = 0
        """From when on every client that is connected has said who it is."""
        self.lead()
        self.elsewhere: Callable[[QueueLog, int], int] | None = None
        """Which broker's id a pull of this queue and offset should go to next time; 0 for the leader."""

    def raw_handlers(self) -> dict[int, RawHandler]:
        return {RequestCode.PULL_MESSAGE: self.handle, RequestCode.LITE_PULL_MESSAGE: self.handle}

    # ---- what the app calls

    def committed(self, queues: Iterable[QueueLog]) -> None:
        """Messages became visible in these queues, or something else changed for them, as a reset does: answer who
        waited for it."""
        if len(self.hold):
            self.hold.wake(queues, self._retry)

    def tick(self) -> None:
        """Deadlines and rechecks of parked pulls; every 100 ms or so."""
        self.hold.tick(self._clock.monotonic_ms(), self._retry)

    def lead(self) -> None:
        """This broker begins to lead: who consumes here may not have said so yet."""
        self._heard_at_ms = self._clock.monotonic_ms() + _HEARD_MS

    def let_go(self) -> None:
        """This broker does not lead any more: who waits here is told to pull again, which then goes to the leader."""
        self.hold.release_all(self._look_again)

    def leave(self) -> None:
        """This broker stops: who waits here, or would, is told to pull again."""
        self.hold.leave(LEAVING)

    def session_closed(self, session: Session) -> None:
        """End the parked pulls of a client that is gone."""
        self.hold.session_closed(session.id, self._look_again)

    # ---- requests

    def handle(self, frame: Frame, session: Session) -> Answer:
        """Read for one pull, or park it.

        Raises: RequestError with the codes of the sheet (1, 16, 17, 23, 24, 25, 26, 29); HeaderError.
        """
        header = decode_header(PullMessageHeader, frame.ext)
        try:
            topic = self._check(header)
            tag_codes = self._find_tag_codes(header)
        except ForbiddenError as error:
            ext = pull_ends(0, 0, 0)
            ext["forbiddenType"] = str(error.forbidden_type)
            return Reply(error.code, ext, remark=error.remark)
        group, queue_id = header.consumer_group, header.queue_id
        if header.sys_flag & PullFlag.COMMIT_OFFSET:
            self._commit(header, session)
        queue = self._store.queue(topic.name, queue_id)
        moved = self._moved_by_reset(group, queue, header.queue_offset)
        if moved is not None:
            return moved
        result = self.read(queue, header, tag_codes)
        if result.status is ReadStatus.FOUND:
            found = self._found(result, group, topic.name, session)
            return found if self.elsewhere is None else self._suggest(found, self.elsewhere(queue, header.queue_offset))
        if _may_wait(result, header) and not frame.flag & Flag.ONEWAY:
            return self._park(frame, session, header, queue, result, tag_codes)
        self._counter.count_get(group, topic.name, 0, 0)
        return settled(self._metadata.topics.deletion_unsettled(topic.name), _not_found(result, header.queue_offset))

    def _check(self, header: PullMessageHeader) -> TopicConfig:
        if not self.permission & Permission.READ:
            raise ForbiddenError(
                _FORBIDDEN_BROKER, f"brokerPermission is {self.permission}, pulls need the bit {Permission.READ}"
            )
        group = self._metadata.groups.get(header.consumer_group) or self._create_group(header.consumer_group)
        if not group.consume_enabled:
            raise ForbiddenError(_FORBIDDEN_GROUP, f"group {group.name} may not consume (consumeEnable is false)")
        topic = self._metadata.topics.get(header.topic)
        if topic is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic {header.topic[:127]!a} does not exist, make it with updateTopic"
            )
        if not topic.readable:
            raise ForbiddenError(
                _FORBIDDEN_TOPIC, f"topic {topic.name} has permission {topic.permission}, pulls need {Permission.READ}"
            )
        if not 0 <= header.queue_id < topic.read_queues:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"queueId is {header.queue_id}, topic {topic.name} has read queues 0 to {topic.read_queues - 1}",
            )
        return topic

    def _create_group(self, name: str) -> GroupConfig:
        check_group_name(name)
        if not self.auto_create_groups and not is_system_group(name):
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"group {name} does not exist and is not created by a pull; make it with updateSubGroup",
            )
        config = GroupConfig(name)
        try:
            self._metadata.groups.put(config)
        except NotLeading:
            raise
        except MetadataRefusedError:
            return config  # reads go on with a full disk, and a later pull makes the group
        return config

    def _commit(self, header: PullMessageHeader, session: Session) -> None:
        # A pull is not refused for the offset that rides on it, nor for none, which is -1: the consumer commits again
        # every few seconds. Of a group that could not be made nothing is kept.
        if header.consumer_group not in self._metadata.groups:
            return
        with suppress(RequestError):
            self._rules.commit(
                header.consumer_group, header.topic, header.queue_id, offset=header.commit_offset, session=session
            )

    def _moved_by_reset(self, group: str, queue: QueueLog, asked: int) -> ReplyAfter | None:
        offsets = self._metadata.offsets
        pending = offsets.pending_reset(group, queue.topic, queue.queue_id)
        if pending is None or not offsets.tell_reset(group, queue.topic, queue.queue_id, asked):
            return None
        # The consumer begins anew there, so the reset itself must be durable before it hears of it.
        ext = pull_ends(pending, queue.min_offset, queue.max_offset)
        return ReplyAfter(offsets.position, Reply(ResponseCode.PULL_OFFSET_MOVED, ext, remark=_RESET))

    def _count(self, header: PullMessageHeader) -> int:
        # The pull consumer of the Go client asks for 0 messages; it gets one at a time, as from RocketMQ.
        return max(1, min(header.messages_max, self._options.messages_max))

    def count_read(self, result: ReadResult) -> None:
        """A follower answers a pull with this."""
        self._counter.count_read(result.count, sum(map(len, result.slices)))

    def read(self, queue: QueueLog, header: PullMessageHeader, tag_codes: frozenset[int] | None) -> ReadResult:
        """What the store has for one pull. Raises: StoreDamaged."""
        return self._read(queue, header.queue_offset, self._count(header), tag_codes)

    def _read(self, queue: QueueLog, offset: int, messages_max: int, tag_codes: frozenset[int] | None) -> ReadResult:
        return self._store.read(
            queue, offset, messages_max=messages_max, bytes_max=self._options.bytes_max, tag_codes=tag_codes
        )

    def _found(self, result: ReadResult, group: str, topic: str, session: Session) -> Reply:
        size = sum(map(len, result.slices))
        if not session.has_room(size):
            return unread(size)
        self._counter.count_get(group, topic, result.count, size)
        ext = pull_ends(result.next_offset, result.min_offset, result.max_offset)
        return Reply(ResponseCode.SUCCESS, ext, result.slices, remark=result.status.value)

    def _suggest(self, found: Reply, broker_id: int) -> Reply:
        """Name the broker that this consumer should pull from next."""
        if broker_id and isinstance(found.header, dict):
            found.header["suggestWhichBrokerId"] = str(broker_id)
        return found

    # ---- long polling

    def _park(
        self, frame: Frame, session: Session, header: PullMessageHeader, queue: QueueLog, result: ReadResult,
        tag_codes: frozenset[int] | None,
    ) -> Answer:  # fmt: skip
        if self.hold.leaving:
            return LEAVING
        if (refusal := self.hold.refusal(session.id)) is not None:
            raise RequestError(ResponseCode.SYSTEM_BUSY, refusal)
        now_ms = self._clock.monotonic_ms()
        suspend_ms = min(header.suspend_timeout_ms, self._options.suspend_ms_max)
        known = self._metadata.groups.get(header.consumer_group)
        own: Collection[int] | None = tag_codes if header.sys_flag & PullFlag.SUBSCRIPTION else None
        if own is not None and len(own) > _TAGS_SHARED_MAX:
            own = array("i", own)
        frame.ext = {}  # what of it is needed is in the header
        kept = replace(
            header, consumer_group=known.name if known else header.consumer_group, topic=queue.topic, broker_name=None,
            subscription=header.subscription if own is None else None,
        )  # fmt: skip
        waiter = Waiter(
            Request(frame, kept, now_ms), session, queue, result.next_offset, group=kept.consumer_group,
            messages_max=self._count(header), tag_codes=own,
            deadline_ms=now_ms + suspend_ms,
        )  # fmt: skip
        self.hold.park(waiter, now_ms)
        return PARKED

    def _retry(self, waiter: Waiter, last: bool) -> Reply | None:
        queue = waiter.queue
        offsets = self._metadata.offsets
        pending = offsets.pending_reset(waiter.group, queue.topic, queue.queue_id)
        same = self._store.find_queue(queue.topic, queue.queue_id) is queue
        if pending is not None or not same or not self._still_allowed(waiter):
            # Whatever happened meanwhile, the consumer's next pull meets it with all checks.
            return self._look_again(waiter)
        try:
            result = self._read(queue, waiter.offset, waiter.messages_max, self._wanted(waiter))
        except (RequestError, StoreDamaged, OSError):
            return self._look_again(waiter)  # the next pull meets it, where it is told and answered
        if result.status is ReadStatus.FOUND:
            return self._found(result, waiter.group, queue.topic, waiter.session)
        if result.status is ReadStatus.NO_MATCH:
            waiter.offset = result.next_offset
            # More came at once than one look passes: what is wanted may lie behind, and nothing else would wake it.
            last = last or result.next_offset < result.max_offset
        elif result.status not in (ReadStatus.AT_END, ReadStatus.QUEUE_EMPTY):
            return _not_found(result, waiter.offset)
        if not last:
            return None
        self._counter.count_get(waiter.group, queue.topic, 0, 0)
        return self._look_again(waiter)

    def _still_allowed(self, waiter: Waiter) -> bool:
        group, topic = self._metadata.groups.get(waiter.group), self._metadata.topics.get(waiter.queue.topic)
        if group is None or topic is None or not self.permission & Permission.READ:
            return False
        return group.consume_enabled and topic.readable

    def _wanted(self, waiter: Waiter) -> frozenset[int] | None:
        """What a pull that waits wants by now: its group may have subscribed anew meanwhile, and what has come after
        that must not be passed over. Raises: as `find_tag_codes`."""
        if waiter.tag_codes is not None:
            return frozenset(waiter.tag_codes)
        return self._find_tag_codes(cast("PullMessageHeader", waiter.request.header))

    def _find_tag_codes(self, header: PullMessageHeader) -> frozenset[int] | None:
        """As `find_tag_codes`. But clients say what they subscribe each 30 s, and not when they pull over a new
        connection: until a new leader has heard everybody, a group that has consumed the topic before gets all
        messages, of which its clients take what they want."""
        try:
            return find_tag_codes(header, self._registry, self._metadata)
        except RequestError as error:
            unheard = error.code in (ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST)
            if not unheard or self._clock.monotonic_ms() >= self._heard_at_ms or not names_tags(header):
                raise
            if not self._metadata.offsets.queues(header.consumer_group, header.topic):
                raise
            return None

    def _look_again(self, waiter: Waiter) -> Reply:
        queue = waiter.queue
        # Whoever lets a pull go cannot be told of what a look into the queue's files may raise.
        ext = pull_ends(waiter.offset, queue.known_min_offset, queue.max_offset)
        header = waiter.request.header
        advanced = isinstance(header, PullMessageHeader) and waiter.offset != header.queue_offset
        if advanced:
            return Reply(ResponseCode.PULL_RETRY_IMMEDIATELY, ext, remark=ReadStatus.NO_MATCH.value)
        return Reply(ResponseCode.PULL_NOT_FOUND, ext, remark=ReadStatus.AT_END.value)


def _may_wait(result: ReadResult, header: PullMessageHeader) -> bool:
    if not header.sys_flag & PullFlag.SUSPEND:
        return False
    return result.status is ReadStatus.AT_END or (result.status is ReadStatus.QUEUE_EMPTY and not header.queue_offset)


def _not_found(result: ReadResult, offset: int) -> Reply:
    """Every status but FOUND. A consumer that asks an empty queue for a later message is sent back to its start."""
    if result.status is ReadStatus.QUEUE_EMPTY:
        code = ResponseCode.PULL_OFFSET_MOVED if offset else ResponseCode.PULL_NOT_FOUND
    else:
        code = _CODES[result.status]
    ext = pull_ends(result.next_offset, result.min_offset, result.max_offset)
    return Reply(code, ext, remark=result.status.value)


def unread(size: int) -> Reply:
    """A pull's messages are here, and no room for them: its client has not read those before them. Many pulls may be
    answered with nothing read in between, and too much that is not read would end the connection. Stock consumers pull
    again in 20 ms, from where they were."""
    return Reply(ResponseCode.FLOW_CONTROL, remark=f"{size} bytes of messages wait behind unread answers; pull again")


def pull_ends(next_offset: int, min_offset: int, max_offset: int) -> dict[str, str]:
    """The four fields without which the Java client fails on any answer to a pull."""
    return {
        "suggestWhichBrokerId": "0", "nextBeginOffset": str(next_offset), "minOffset": str(min_offset),
        "maxOffset": str(max_offset),
    }  # fmt: skip
