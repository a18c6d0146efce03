"""Sends: 10, 310 and 320.

The checks run in RocketMQ's order, so that a request with several faults gets the code that a stock broker gives. What
follows the checks appends; nothing is refused after the first append of a request except by the store itself.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/processor/SendMessageProcessor.java
"""

from collections.abc import Callable
from typing import NoReturn

from logherd.kit.clock import Clock
from logherd.model.properties import Name, format_properties, parse_properties
from logherd.model.topic import Permission
from logherd.service.dispatcher import RawHandler
from logherd.service.errors import RequestError
from logherd.service.ports import ReplyAfter, RunHandler, Session
from logherd.service.send.answers import SendAnswers
from logherd.service.send.batch import split_batch, unpack_batch
from logherd.service.send.counting import PutCounter
from logherd.service.send.flags import CHECKED_FLAGS, check_flags
from logherd.service.send.options import SendOptions
from logherd.service.send.properties import Stamper
from logherd.service.send.run import SendRuns
from logherd.service.send.targets import Target, Targets
from logherd.store import MessageStore, RecordTooLarge, StoreFull, StoreStopped
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header
from logherd.wire.headers.send import SendMessageHeader, SendMessageHeaderV2
from logherd.wire.send_frame import SendFrame

__all__ = ["SendHandler"]

_LONG_KEYS = int(RequestCode.SEND_MESSAGE)
_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)


class SendHandler:
    """Appends what producers send and answers with ready bytes once the log is committed beyond it.

    `permission` is the broker's own, as updateBrokerConfig sets it: as in RocketMQ it stops sends to ordered topics
    here, and to others through the routes. `is_orderly` says of a consumer group whether it holds locks on queues.
    """

    def __init__(
        self, store: MessageStore, targets: Targets, *,
        clock: Clock, counter: PutCounter, stamper: Stamper, options: SendOptions, is_orderly: Callable[[str], bool],
    ) -> None:  # fmt: skip
        self._store = store
        self._targets = targets
        self._now_ms = clock.now_ms
        self._count_put = counter.count_put
        self._options = options
        self._is_orderly = is_orderly
        self._stamper = stamper
        self._answers = SendAnswers(store_host=options.store_host, region=options.region, trace_on=options.trace_on)
        self.handle_run: RunHandler = SendRuns(
            store, targets, clock=clock, counter=counter, stamper=stamper, answers=self._answers, options=options
        ).handle
        self.permission: int = Permission.READ_WRITE

    def raw_handlers(self) -> dict[int, RawHandler]:
        codes = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
        return dict.fromkeys(codes, self.handle)

    def handle(self, frame: Frame, session: Session) -> ReplyAfter:
        """Store one message or one batch.

        Durable: when the log is committed up to the answer's position; the answer must not leave before.
        Raises: RequestError with the codes of the sheet (1, 2, 3, 13, 14, 16, 17, 26, 29); HeaderError.
        """
        code = frame.code
        header: SendMessageHeader
        if type(frame) is SendFrame:
            header = frame.header
        else:
            header = decode_header(SendMessageHeader if code == _LONG_KEYS else SendMessageHeaderV2, frame.ext)
        target = self._targets.get(header.topic) or self._resolve(header)
        if target.config.order and not self.permission & Permission.WRITE:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"brokerPermission is {self.permission}, sends to ordered topics need the bit {Permission.WRITE}",
            )
        if code == _BATCH or header.batch:
            return self._store_batch(frame, session, header, target)
        properties, dead_of = header.properties or "", ""
        if target.retry_group is not None:
            dead_of, properties = self._route_retry(header, target.retry_group, properties)
        # The queue that the sender of a dead letter chose is one of the retry topic's, which may be more.
        queue = None if dead_of else target.queues.get(header.queue_id) or target.queue(header.queue_id)
        body = frame.body
        sys_flag = header.sys_flag
        if sys_flag & CHECKED_FLAGS:
            sys_flag = check_flags(sys_flag)
        if len(body) > self._options.body_bytes_max:
            self._refuse_body(len(body))
        encoded, unique_key, plain = self._stamper.stamp(properties)
        store = self._store
        if store.unwritten_bytes > self._options.unwritten_bytes_max:
            self._refuse_busy()
        if queue is None:
            queue = self._targets.dead_letters(dead_of).queue(0)  # late: whoever is refused gets no topic made
        try:
            queue_offset, position, size = store.append_plain(
                queue, body, encoded, unique_key if plain else None, header.born_timestamp, session.remote_host,
                self._now_ms(), header.flag, sys_flag, header.reconsume_times or 0,
            )  # fmt: skip
        except (StoreFull, StoreStopped, RecordTooLarge) as error:
            raise _store_refused(error) from error
        self._count_put(queue.topic, 1, size)
        answer = self._answers.of_one(position, queue.queue_id, queue_offset, unique_key, frame.opaque)
        return ReplyAfter(position + size, answer)

    def _store_batch(self, frame: Frame, session: Session, header: SendMessageHeader, target: Target) -> ReplyAfter:
        queue = target.queue(header.queue_id)
        sys_flag = check_flags(header.sys_flag)
        if len(frame.body) > self._options.body_bytes_max:
            self._refuse_body(len(frame.body))
        if target.retry_group is not None:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL, f"topic {header.topic} is a retry topic, it takes no batches"
            )
        store = self._store
        if store.unwritten_bytes > self._options.unwritten_bytes_max:
            self._refuse_busy()
        body, sys_flag = unpack_batch(frame.body, sys_flag, self._options.body_bytes_max)
        # Work and memory are counted by what came: a few bytes can unpack to very many small messages.
        units, batch_key = split_batch(body, header.properties or "", self._stamper, count_max=len(frame.body))
        start = store.end_position
        try:
            first_offset, positions = store.append_all(
                queue, units, born_timestamp=header.born_timestamp, born_host=session.remote_host,
                store_timestamp=self._now_ms(), sys_flag=sys_flag, reconsume_times=header.reconsume_times or 0,
            )  # fmt: skip
        except (StoreFull, StoreStopped, RecordTooLarge) as error:
            raise _store_refused(error) from error
        identifiers = [self._answers.message_id(position) for position in positions]
        end = store.end_position
        self._count_put(queue.topic, len(units), end - start)
        answer = self._answers.frame(
            b",".join(identifiers), queue.queue_id, first_offset, unique_key=batch_key.encode(), opaque=frame.opaque
        )
        return ReplyAfter(end, answer)

    def _resolve(self, header: SendMessageHeader) -> Target:
        return self._targets.resolve(
            header.topic, default_topic=header.default_topic, default_queues=header.default_topic_queues,
            unit_mode=bool(header.unit_mode),
        )  # fmt: skip

    def _route_retry(self, header: SendMessageHeader, group: str, properties: str) -> tuple[str, str]:
        """A consumer sends a message back by itself: to its group's retry topic, or to the dead letters. The group of
        which it is a dead letter, "" if it is none, and the properties to store.

        One that consumes orderly keeps a message until it has had the most tries, and says how many it has had; others
        say which one is next.
        """
        config = self._targets.check_group(group, header.topic)
        times = header.reconsume_times or 0
        times_max = config.retries_max if header.max_reconsume_times is None else header.max_reconsume_times
        if times < times_max or (times == times_max and not self._is_orderly(group)):
            return "", properties
        parsed = parse_properties(properties)
        # A dead letter is not delayed, whatever the retry before it was.
        parsed.pop(Name.DELAY, None)
        return group, format_properties(parsed)

    def _refuse_body(self, size: int) -> NoReturn:
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the body has {size} bytes, at most {self._options.body_bytes_max} are stored (maxMessageSize)",
        )

    def _refuse_busy(self) -> NoReturn:
        raise RequestError(
            ResponseCode.SYSTEM_BUSY,
            f"[OVERLOAD] {self._store.unwritten_bytes} bytes wait for the disk, more than "
            f"{self._options.unwritten_bytes_max}; send again later",
        )


def _store_refused(error: StoreFull | StoreStopped | RecordTooLarge) -> RequestError:
    if isinstance(error, RecordTooLarge):
        return RequestError(ResponseCode.MESSAGE_ILLEGAL, str(error))
    return RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, f"the store takes no messages now: {error}")
