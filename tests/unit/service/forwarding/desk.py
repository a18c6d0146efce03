"""A forwarder with one client, to ask it and to tell it what leaders say."""

from collections.abc import Sequence

from logherd.service.forwarding.effects import Answer, Effect, Follow, Transmit
from logherd.service.forwarding.forwarder import Forwarder, ForwarderLimits
from logherd.service.forwarding.roles import Following
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.forwarding import ForwardingRefusal
from unit.service.client_fakes import FakeSession

SEND, PULL, COMMIT, LOCK, READ = (
    int(RequestCode.SEND_MESSAGE), int(RequestCode.PULL_MESSAGE), int(RequestCode.UPDATE_CONSUMER_OFFSET),
    int(RequestCode.LOCK_BATCH_MQ), int(RequestCode.GET_MAX_OFFSET),
)  # fmt: skip
NOW = 10_000
A = Following("a:1", 5)
B = Following("b:1", 6)
LINK, NEXT = 1, 2
OK = Frame(0, 0, flag=Flag.RESPONSE)


def refusal(reason: str, *, epoch: int = 0, leader: str | None = None) -> Frame:
    header = ForwardingRefusal(reason=reason, epoch=epoch, leader=leader)
    return Frame(27010, 0, flag=Flag.RESPONSE, ext=encode_header(header))


class Desk:
    """A forwarder with one client, and the numbers of what the client asked."""

    def __init__(self, limits: ForwarderLimits | None = None) -> None:
        self.forwarder = Forwarder(limits)
        self.session = FakeSession()
        self.opaque = 0

    def ask(
        self, code: int = SEND, *, body: bytes = b"", now_ms: int = NOW, flag: int = 0,
        session: FakeSession | None = None, ext: dict[str, str] | None = None,
    ) -> list[Effect]:  # fmt: skip
        self.opaque += 1
        frame = Frame(code, self.opaque, flag=flag, ext=ext or {}, body=body)
        return self.forwarder.take(session or self.session, frame, now_ms=now_ms)

    def link(self, number: int = LINK, leader: Following = A, *, now_ms: int = NOW, ahead_ms: int = 0) -> list[Effect]:
        followed = self.forwarder.follow(leader, now_ms=now_ms)
        assert followed == [Follow(leader.address, leader.epoch)]
        return self.forwarder.linked(number, epoch=leader.epoch, ahead_ms=ahead_ms, now_ms=now_ms)

    def answer(self, number: int, answer: Frame = OK, *, link: int = LINK, now_ms: int = NOW) -> list[Effect]:
        return self.forwarder.answered(link, number, answer, now_ms=now_ms)

    def lose(self, number: int, *, written: bool, link: int = LINK, now_ms: int = NOW) -> list[Effect]:
        self.forwarder.lost(link)
        return self.forwarder.unanswered(link, number, written=written, why="gone", now_ms=now_ms)


def sent(effects: Sequence[Effect], link: int = LINK) -> list[int]:
    """The opaques of what goes to the leader; all effects must be such."""
    assert all(isinstance(effect, Transmit) and effect.link == link for effect in effects), effects
    return [effect.errand.frame.opaque for effect in effects if isinstance(effect, Transmit)]


def code_of(effects: Sequence[Effect]) -> int:
    (effect,) = effects
    assert isinstance(effect, Answer), effect
    return effect.reply.code
