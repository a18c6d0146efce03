"""Request-reply: 324 and 325 carry a reply from the consumer of a request, 326 pushes it on to the requester.

A reply is for one client that is waiting now: it is told at once and, as RocketMQ does, also kept in a topic where
people can look it up. Whether it arrived is what the answer says, so the copy is not waited for.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/processor/ReplyMessageProcessor.java
"""

from contextlib import suppress
from functools import partial

from logherd.kit.clock import Clock
from logherd.model.host import decode_host
from logherd.model.properties import Name, format_properties, parse_properties
from logherd.service.clients.registry import ClientRegistry
from logherd.service.errors import RequestError
from logherd.service.metadata.reserved import reply_topic
from logherd.service.ports import PARKED, Answer, Handler, Reply, Request, Session
from logherd.service.requests import header_of
from logherd.service.send.options import SendOptions
from logherd.service.send.properties import Stamper
from logherd.service.send.targets import Targets
from logherd.store import MessageStore, RecordTooLarge, StoreFull, StoreStopped
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers.send import PushReplyHeader, SendMessageHeader, SendMessageResponse

__all__ = ["ReplyHandler"]


class ReplyHandler:
    """Answers 324 and 325 once the requester has taken the reply or failed to."""

    def __init__(
        self, store: MessageStore, targets: Targets, registry: ClientRegistry, *,
        clock: Clock, stamper: Stamper, options: SendOptions,
    ) -> None:  # fmt: skip
        self._store = store
        self._targets = targets
        self._registry = registry
        self._clock = clock
        self._stamper = stamper
        self._options = options

    def handlers(self) -> dict[RequestCode, Handler]:
        return {RequestCode.SEND_REPLY_MESSAGE: self.reply, RequestCode.SEND_REPLY_MESSAGE_V2: self.reply}

    def reply(self, request: Request, session: Session) -> Answer:
        """Push a reply to the client that its property REPLY_TO_CLIENT names.

        Raises: RequestError 13 without that property or with too large a body, 1 if the client is not connected.
        """
        header = header_of(request, SendMessageHeader)
        properties = parse_properties(header.properties or "")
        client_id = properties.get(Name.REPLY_TO_CLIENT)
        if client_id is None:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL, f"property {Name.REPLY_TO_CLIENT} is missing: it names who waits"
            )
        if len(request.body) > self._options.body_bytes_max:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the body has {len(request.body)} bytes, at most {self._options.body_bytes_max} are sent",
            )
        if self._options.store_replies:
            self._keep(request, header, session)
        requester = self._registry.client_session(client_id)
        if requester is None or requester.closed:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"client {client_id[:127]!a} waits for no reply here: it is not connected"
            )
        now_ms = self._clock.now_ms()
        properties[Name.PUSH_REPLY_TIME] = str(now_ms)
        push = self._push_header(header, session, format_properties(properties), now_ms)
        requester.call(
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, push, request.body, timeout_ms=self._options.reply_timeout_ms,
            on_answer=partial(_answer, request, session, header.queue_id, client_id),
        )  # fmt: skip
        return PARKED

    def _keep(self, request: Request, header: SendMessageHeader, session: Session) -> None:
        if self._store.unwritten_bytes > self._options.unwritten_bytes_max:
            return  # nobody waits for the copy, so that nothing else would bound what a slow disk is behind with
        target = self._targets.ensure(reply_topic(self._options.cluster_name))
        encoded = self._stamper.stamp(header.properties or "")[0]
        # The copy is a service to people, not part of the promise: a full disk does not stop replies.
        with suppress(StoreFull, StoreStopped, RecordTooLarge):
            self._store.append(
                target.queue(-1), request.body, encoded, born_timestamp=header.born_timestamp,
                born_host=session.remote_host, store_timestamp=self._clock.now_ms(), flag=header.flag,
                sys_flag=header.sys_flag & 0x703, reconsume_times=header.reconsume_times or 0,
            )  # fmt: skip

    def _push_header(
        self, header: SendMessageHeader, session: Session, properties: str, now_ms: int
    ) -> PushReplyHeader:
        ip, port = decode_host(self._options.store_host)
        return PushReplyHeader(
            producer_group=header.producer_group, topic=header.topic, default_topic=header.default_topic,
            default_topic_queues=header.default_topic_queues, queue_id=header.queue_id, sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp, flag=header.flag, properties=properties,
            reconsume_times=header.reconsume_times, unit_mode=header.unit_mode,
            born_host=f"{session.remote_ip}:{session.remote_port}", store_host=f"{ip}:{port}", store_timestamp=now_ms,
        )  # fmt: skip


def _answer(request: Request, session: Session, queue_id: int, client_id: str, answer: Frame | None) -> None:
    if answer is not None and answer.code == ResponseCode.SUCCESS:
        header = SendMessageResponse(message_id="0", queue_id=queue_id, queue_offset=0)
        session.reply(request, Reply(header=header))
        return
    reason = "did not answer in time" if answer is None else f"answered {answer.code} {answer.remark or ''}".rstrip()
    session.reply(request, Reply(ResponseCode.SYSTEM_ERROR, remark=f"client {client_id[:127]!a} {reason}"))
