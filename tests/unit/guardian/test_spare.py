"""A connection to a peer before it has a client. The peer is the test, over real sockets."""

import selectors
import socket
from collections.abc import Callable, Iterator
from struct import Struct

import pytest

from logherd_guardian.proxy import GREETING
from logherd_guardian.shell import dispatch
from logherd_guardian.spare import Spare, dialled

RESET = Struct("ii").pack(1, 0)
LINGER = (socket.SOL_SOCKET, socket.SO_LINGER)
NO_CHILD = "no greeting of a child"


class Met:
    """A spare that is connected, its peer, and what was told of it: whether it was greeted, and why it is lost."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.told: list[tuple[bool, str | None]] = []
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.spare = Spare(self.selector, "peer", listener.getsockname()[:2], 7, self.changed)
            self.peer, _ = listener.accept()
        assert not self.selector.select(0), "the peer speaks first"

    def changed(self, spare: Spare, why: str | None) -> None:
        self.told.append((spare.greeted, why))
        assert len(self.selector.get_map()) == (1 if why is None else 0)

    def dispatch(self) -> None:
        """What has come is heard; then nothing is asked for that is there already: that would be work without end."""
        dispatch(self.selector, 5_000)
        assert not self.selector.get_map() or not self.selector.select(0)

    def say(self, data: bytes) -> None:
        self.peer.sendall(data)
        self.dispatch()

    def reset(self) -> None:
        self.peer.setsockopt(*LINGER, RESET)
        self.peer.close()


@pytest.fixture
def met() -> Iterator[Met]:
    made = Met()
    yield made
    if made.selector.get_map():
        made.spare.close()
    made.peer.close()
    made.selector.close()


def test_a_peer_has_greeted_when_its_last_byte_has_come(met: Met) -> None:
    for at in range(len(GREETING)):
        assert met.told == []
        met.say(GREETING[at : at + 1])
    assert met.told == [(True, None)]
    assert (met.spare.peer, met.spare.since) == ("peer", 7)


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (lambda met: met.peer.close(), "closed by the peer"),
        (Met.reset, "Connection reset by peer"),
        (lambda met: met.peer.sendall(b"?"), NO_CHILD),
    ],
    ids=["closed", "reset", "talk"],
)
@pytest.mark.parametrize("before", [b"", GREETING[:3], GREETING], ids=["at once", "while greeted", "once greeted"])
def test_why_a_peer_is_lost_is_told_when_it_is_closed(
    met: Met, before: bytes, end: Callable[[Met], None], why: str
) -> None:
    if before:
        met.say(before)
    greeted = before == GREETING
    assert met.told == [(True, None)] * greeted
    end(met)
    met.dispatch()
    assert met.told[greeted:] == [(greeted, why)]
    assert met.spare._socket.fileno() == -1


def test_who_says_more_than_the_greeting_has_not_greeted(met: Met) -> None:
    """A guardian would give it a client at once otherwise."""
    met.say(GREETING + b"?")
    assert met.told == [(False, NO_CHILD)]


def test_a_peer_that_refuses_is_told_so() -> None:
    told: list[str | None] = []
    with socket.socket() as deaf, selectors.DefaultSelector() as selector:
        deaf.bind(("127.0.0.1", 0))
        Spare(selector, "peer", deaf.getsockname(), 7, lambda _, why: told.append(why))
        dispatch(selector, 5_000)
    assert told == ["Connection refused"]


@pytest.mark.parametrize(
    ("end", "is_quiet"),
    [
        (lambda _: None, True),
        (lambda met: met.peer.sendall(b"?"), False),
        (lambda met: met.peer.close(), False),
        (Met.reset, False),
    ],
    ids=["still there", "talk", "closed", "reset"],
)
def test_whether_a_peer_has_left_is_seen_when_it_is_taken(
    met: Met, end: Callable[[Met], None], *, is_quiet: bool
) -> None:
    met.say(GREETING)
    end(met)
    with met.spare.take():
        assert not met.selector.get_map()
        assert met.spare.is_quiet is is_quiet


def test_a_dialled_connection_sends_at_once_and_notices_a_dead_end_in_half_a_minute() -> None:
    tcp = socket.IPPROTO_TCP
    with socket.create_server(("127.0.0.1", 0)) as listener, dialled(listener.getsockname()) as made:
        assert not made.getblocking()
        assert made.getsockopt(tcp, socket.TCP_NODELAY)
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        asks_ms = 1000 * (made.getsockopt(tcp, socket.TCP_KEEPIDLE) + made.getsockopt(tcp, socket.TCP_KEEPINTVL))
        assert 0 < asks_ms <= made.getsockopt(tcp, socket.TCP_USER_TIMEOUT) == 30_000


def test_an_address_of_version_6_is_dialled() -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no version 6 here")
    with listener, dialled(listener.getsockname()[:2]) as made:
        assert made.family == socket.AF_INET6
