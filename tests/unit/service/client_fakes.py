"""A client connection that records what the broker sends over it, and a clock that the test moves."""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from logherd.model.host import encode_host
from logherd.service.ports import Reply, Request
from logherd.wire.frame import Frame


@dataclass
class Call:
    code: int
    header: msgspec.Struct | None
    body: bytes
    timeout_ms: int
    on_answer: Callable[[Frame | None], None]


@dataclass(eq=False)
class FakeSession:
    id: int = 1
    remote_ip: str = "127.0.0.1"
    remote_port: int = 40001
    closed: bool = False
    room: bool = True
    notified: list[tuple[int, msgspec.Struct | None]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)

    @property
    def remote_host(self) -> bytes:
        return encode_host(self.remote_ip, self.remote_port)

    def has_room(self, size: int) -> bool:
        return self.room

    def notify(self, code: int, header: msgspec.Struct | None, body: bytes = b"") -> None:
        self.notified.append((code, header))

    def call(
        self, code: int, header: msgspec.Struct | None, body: bytes, *, timeout_ms: int,
        on_answer: Callable[[Frame | None], None],
    ) -> None:  # fmt: skip
        self.calls.append(Call(code, header, body, timeout_ms, on_answer))

    def reply(self, request: Request, reply: Reply) -> None:
        self.replies.append(reply)


@dataclass
class FakeClock:
    wall: int = 1_700_000_000_000
    monotonic: int = 50_000

    def now_ms(self) -> int:
        return self.wall

    def monotonic_ms(self) -> int:
        return self.monotonic

    def advance(self, milliseconds: int) -> None:
        self.wall += milliseconds
        self.monotonic += milliseconds
