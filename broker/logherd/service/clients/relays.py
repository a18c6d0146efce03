"""Questions that only a client can answer: passed on to it, its answer passed back byte for byte.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/processor/AdminBrokerProcessor.java
Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/client/net/Broker2Client.java
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from logherd.model.host import parse_offset_message_id
from logherd.service.clients.registry import ClientRegistry, Connection
from logherd.service.errors import RequestError
from logherd.service.metadata import Metadata
from logherd.service.named_records import record_named
from logherd.service.ports import PARKED, Answer, Handler, Reply, Request, Session
from logherd.service.requests import body_reply, header_of
from logherd.wire.bodies import decode_body
from logherd.wire.bodies.clients import ClientPositions
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.errors import BodyError
from logherd.wire.frame import Frame
from logherd.wire.headers.admin import ConsumerStatusHeader
from logherd.wire.headers.clients import ClientStatusHeader, ConsumeDirectlyHeader, RunningInfoHeader

__all__ = ["Relays"]

TIMEOUT_MS: Final = 10_000
STATUS_TIMEOUT_MS: Final = 5_000
VERSION_LEAST: Final = 62
"""V3_1_8: older clients do not answer 307 and 309."""
STATUS_VERSION_LEAST: Final = 28


class Relays:
    """Requests 223, 307 and 309. All of them park the request until the client has answered or its time is up."""

    def __init__(
        self, registry: ClientRegistry, metadata: Metadata, *, broker_name: str,
        record_at: Callable[[int], memoryview | None],
    ) -> None:  # fmt: skip
        self._registry = registry
        self._metadata = metadata
        self._broker_name = broker_name
        self._record_at = record_at

    def handlers(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.consumer_status,
        }

    def running_info(self, request: Request, session: Session) -> Answer:
        """307."""
        header = header_of(request, RunningInfoHeader)
        return self._relay(request, session, header.consumer_group, header.client_id, header=header)

    def consume_directly(self, request: Request, session: Session) -> Answer:
        """309: the client gets the stored message and what the broker knows of its topic and group."""
        header = header_of(request, ConsumeDirectlyHeader)
        body = self._message(header.message_id or "")
        topic = self._metadata.topics.get(header.topic or "")
        group = self._metadata.groups.get(header.consumer_group)
        relayed = msgspec.structs.replace(
            header, broker_name=self._broker_name,
            topic_sys_flag=topic.system_flag if topic else header.topic_sys_flag,
            group_sys_flag=group.system_flag if group else header.group_sys_flag,
        )  # fmt: skip
        return self._relay(request, session, header.consumer_group, header.client_id or "", header=relayed, body=body)

    def consumer_status(self, request: Request, session: Session) -> Answer:
        """223: how far each client of a group has come with a topic, as the clients say themselves."""
        header = header_of(request, ConsumerStatusHeader)
        group = self._registry.consumer_group(header.group)
        members = [] if group is None else [
            member for member in group.connections() if header.client_address in (None, "", member.client_id)
        ]  # fmt: skip
        if not members:
            who = f"No consumer online of group {header.group}"
            raise RequestError(ResponseCode.CONSUMER_NOT_ONLINE, who + f" is {header.client_address or 'there'}")
        for member in members:
            if member.version < STATUS_VERSION_LEAST:
                raise RequestError(
                    ResponseCode.SYSTEM_ERROR, f"the client {member.client_id} is too old to tell its status"
                )
        gathering = _Gathering(request, session, len(members))
        asked = ClientStatusHeader(topic=header.topic, group=header.group)
        for member in members:
            member.session.call(
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, asked, b"", timeout_ms=STATUS_TIMEOUT_MS,
                on_answer=gathering.listener(member.client_id),
            )  # fmt: skip
        return PARKED

    def _message(self, message_id: str) -> bytes:
        try:
            _, _, position = parse_offset_message_id(message_id)
        except ValueError as error:
            raise RequestError(ResponseCode.INVALID_PARAMETER, f"msgId {message_id!r}: {error}") from error
        record = record_named(self._record_at, position)
        if record is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"there is no message {message_id}")
        return bytes(record)

    def _relay(
        self, request: Request, session: Session, group: str, client_id: str, *, header: msgspec.Struct,
        body: bytes = b"",
    ) -> Answer:  # fmt: skip
        member = self._member(group, client_id)

        def on_answer(answer: Frame | None) -> None:
            session.reply(request, _relayed(answer, member) if answer else _unanswered(member, group))

        member.session.call(request.code, header, body, timeout_ms=TIMEOUT_MS, on_answer=on_answer)
        return PARKED

    def _member(self, group: str, client_id: str) -> Connection:
        entry = self._registry.consumer_group(group)
        member = entry.connection(client_id) if entry else None
        if member is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
        if member.version < VERSION_LEAST:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{client_id}> Version <{member.version}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT",
            )
        return member


class _Gathering:
    """Collects one answer of each client and replies when the last is in. A client without an answer is left out."""

    def __init__(self, request: Request, session: Session, expected: int) -> None:
        self._request = request
        self._session = session
        self._open = expected
        self._answers: dict[str, Mapping[str, int]] = {}

    def listener(self, client_id: str) -> Callable[[Frame | None], None]:
        def on_answer(answer: Frame | None) -> None:
            self._take(client_id, answer)

        return on_answer

    def _take(self, client_id: str, answer: Frame | None) -> None:
        self._open -= 1
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            try:
                self._answers[client_id] = decode_body(ClientPositions, answer.body).offsets
            except BodyError:
                # One client that answers nonsense must not hide what the others say.
                self._answers.pop(client_id, None)
        if self._open == 0:
            self._session.reply(self._request, body_reply(ClientPositions(by_client=self._answers)))


def _relayed(answer: Frame, member: Connection) -> Reply:
    if answer.code == ResponseCode.FORWARDING_REFUSED:
        # The broker that has passed the question on would believe of this one, and of who leads, whatever it says.
        remark = f"consumer <{member.client_id}> answered {answer.code}, as only brokers do"
        return Reply(ResponseCode.SYSTEM_ERROR, remark=remark)
    return Reply(answer.code, header=answer.ext, body=answer.body, remark=answer.remark)


def _unanswered(member: Connection, group: str) -> Reply:
    if member.session.closed:
        return Reply(
            ResponseCode.SYSTEM_ERROR, remark=f"invoke consumer <{group}> <{member.client_id}>: its connection closed"
        )
    return Reply(
        ResponseCode.CONSUME_MSG_TIMEOUT,
        remark=f"consumer <{group}> <{member.client_id}> Timeout: no answer within {TIMEOUT_MS} ms",
    )
