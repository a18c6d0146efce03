"""Requests to handlers as they come from the wire: through the dispatcher, with headers and bodies encoded."""

from collections.abc import Mapping
from itertools import count

import msgspec

from logherd.service.dispatcher import Dispatcher
from logherd.service.ports import Handler, Reply, ReplyAfter
from logherd.service.routing import Role
from logherd.wire.bodies import encode_body
from logherd.wire.frame import VERSION, Flag, Frame
from logherd.wire.headers import encode_header
from unit.service.client_fakes import FakeClock, FakeSession


class Desk:
    """Asks the handlers of one role. `waits_for` is the log position that the last answer waited for, 0 if none."""

    def __init__(self, role: Role, clock: FakeClock, *handlers: Mapping[int, Handler]) -> None:
        typed: dict[int, Handler] = {}
        for table in handlers:
            typed.update({int(code): handler for code, handler in table.items()})
        self.dispatcher = Dispatcher(role, clock, typed=typed)
        self.waits_for = 0
        self._opaque = count(1)

    def ask(
        self, code: int, header: msgspec.Struct | dict[str, str] | None = None, body: object = b"", *,
        session: FakeSession | None = None, version: int = VERSION, oneway: bool = False,
    ) -> Reply:  # fmt: skip
        """The answer to one request. Fails the test if the handler parked it: use `park` for those."""
        reply = self.park(code, header, body, session=session, version=version, oneway=oneway)
        assert reply is not None
        return reply

    def park(
        self, code: int, header: msgspec.Struct | dict[str, str] | None = None, body: object = b"", *,
        session: FakeSession | None = None, version: int = VERSION, oneway: bool = False,
    ) -> Reply | None:  # fmt: skip
        ext = header if isinstance(header, dict) else {} if header is None else encode_header(header)
        data = body if isinstance(body, bytes) else encode_body(body)
        frame = Frame(
            int(code), next(self._opaque), flag=Flag.ONEWAY if oneway else 0, ext=ext, body=data, version=version,
            language="JAVA",
        )  # fmt: skip
        answer = self.dispatcher.handle(frame, session or FakeSession())
        if isinstance(answer, ReplyAfter):
            self.waits_for = answer.position
            assert isinstance(answer.reply, Reply)
            return answer.reply
        self.waits_for = 0
        assert answer is None or isinstance(answer, Reply)
        return answer


def decoded(reply: Reply) -> object:
    """The JSON body of an answer, as plain values; strict, as Go's and Java's strict readers want it."""
    assert isinstance(reply.body, bytes)
    assert reply.code == 0, reply.remark
    return msgspec.json.decode(reply.body)
