"""A client of another broker, as the leader's services see it."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from logherd.model.host import encode_host
from logherd.service.ports import Reply, Request
from logherd.wire.codes import ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.forwarding import ToClientHeader

__all__ = ["LinkSession", "RemoteSession"]

_ON_THE_WAY_MS = 500
"""What the leader waits longer for a client's answer than the broker that has the client."""


class LinkSession(Protocol):
    """The connection of the forwarding broker, as far as it is needed here."""

    @property
    def closed(self) -> bool: ...

    def has_room(self, size: int) -> bool: ...

    def notify(self, code: int, header: dict[str, str], body: bytes = b"") -> None: ...

    def call(
        self, code: int, header: dict[str, str], body: bytes, *, timeout_ms: int,
        on_answer: Callable[[Frame | None], None],
    ) -> None: ...  # fmt: skip

    def reply(self, request: Request, reply: Reply) -> None: ...


class RemoteSession:
    """A `Session` behind a forwarding connection: what is said to it goes back through the broker that has the client.

    It lives on one connection only. After that is lost the same client comes back as another session.
    """

    def __init__(self, session_id: int, link: LinkSession, number: int, *, ip: str, port: int) -> None:
        """`number` is the connection's at the forwarding broker, `session_id` is unique here. Raises ValueError if
        `ip` is no address."""
        self.id = session_id
        self.remote_ip = ip
        self.remote_port = port
        self.remote_host = encode_host(ip, port)
        self._link = link
        self._number = number
        self._left = False

    @property
    def closed(self) -> bool:
        """Whether nothing said from now on can arrive."""
        return self._left or self._link.closed

    def has_room(self, size: int) -> bool:
        """Whether it fits the link; the broker that has the client looks at how fast that reads."""
        return self._link.has_room(size)

    def leave(self) -> None:
        """The client is gone, or this broker does not lead any more."""
        self._left = True

    def notify(self, code: int, header: msgspec.Struct | None, body: bytes = b"") -> None:
        if not self.closed:
            self._link.notify(code, self._fields(header, 0), body)

    def call(
        self, code: int, header: msgspec.Struct | None, body: bytes, *, timeout_ms: int,
        on_answer: Callable[[Frame | None], None],
    ) -> None:  # fmt: skip
        """Also when the client is gone the link is asked, whose answer comes later, as a caller may expect."""

        def passed_on(answer: Frame | None) -> None:
            gone = answer is None or answer.code == ResponseCode.FORWARDING_REFUSED
            on_answer(None if gone else answer)

        fields = self._fields(header, timeout_ms)
        self._link.call(code, fields, body, timeout_ms=timeout_ms + _ON_THE_WAY_MS, on_answer=passed_on)

    def reply(self, request: Request, reply: Reply) -> None:
        self._link.reply(request, reply)

    def _fields(self, header: msgspec.Struct | None, timeout_ms: int) -> dict[str, str]:
        fields = {} if header is None else encode_header(header)
        fields.update(encode_header(ToClientHeader(session=self._number, timeout_ms=timeout_ms)))
        return fields
