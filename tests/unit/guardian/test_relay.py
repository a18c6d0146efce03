"""One client's connection passed on: what comes through it, and how it ends. All sockets are real."""

import errno
import fcntl
import selectors
import socket
import termios
from collections.abc import Callable, Iterator
from struct import Struct
from typing import NoReturn

import pytest

from logherd_guardian.clock import clock_ms
from logherd_guardian.relay import Relay
from logherd_guardian.shell import dispatch

BUFFER_BYTES = 100
ROUNDS = 4
RESET = Struct("ii")


def connection() -> tuple[socket.socket, socket.socket]:
    """The two ends of one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        far = socket.create_connection(listener.getsockname(), timeout=5)
        near, _ = listener.accept()
    near.settimeout(0)
    return far, near


class Passed:
    """A relay and those who talk over it."""

    def __init__(self, buffer_bytes: int = BUFFER_BYTES) -> None:
        self.selector = selectors.DefaultSelector()
        self.client, self.near_client = connection()
        self.peer, self.near_peer = connection()
        self.ended: list[Relay] = []
        buffer = memoryview(bytearray(buffer_bytes))
        self.relay = Relay(self.selector, self.near_client, self.near_peer, buffer, self.ended.append)

    def until(self, holds: Callable[[], object]) -> None:
        """Let the relay work until it holds; an idle turn takes 20 ms."""
        for _ in range(1_000):
            if holds():
                return
            dispatch(self.selector, 20)
        raise AssertionError("it never held")

    def lose_peer(self) -> None:
        """It resets its connection, as one that stops or dies."""
        self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET.pack(1, 0))
        self.peer.close()

    def close(self) -> None:
        if self.near_client.fileno() >= 0:
            self.relay.close()
        for each in (self.client, self.peer, self.selector):
            each.close()


@pytest.fixture
def passed(request: pytest.FixtureRequest) -> Iterator[Passed]:
    made = Passed(getattr(request, "param", BUFFER_BYTES))
    yield made
    made.close()


def refuse(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


def readable(end: socket.socket) -> bool:
    with selectors.DefaultSelector() as looked:
        looked.register(end, selectors.EVENT_READ)
        return bool(looked.select(0))


def test_both_are_heard_and_their_ends_too(passed: Passed) -> None:
    passed.client.sendall(b"ask")
    passed.until(lambda: readable(passed.peer))
    assert passed.peer.recv(10) == b"ask"
    passed.client.shutdown(socket.SHUT_WR)
    passed.until(lambda: passed.relay.half_ended)
    assert passed.peer.recv(10) == b""
    passed.peer.sendall(b"answer")
    passed.until(lambda: readable(passed.client))
    assert passed.client.recv(10) == b"answer"
    passed.peer.shutdown(socket.SHUT_WR)
    passed.until(lambda: passed.ended)
    assert passed.client.recv(10) == b"", "an end, and no reset"
    assert passed.ended == [passed.relay]
    assert len(passed.selector.get_map()) == 0


def test_an_end_loses_nothing_that_waits_in_the_kernel(passed: Passed) -> None:
    """A reset would: it takes the place of what was not sent yet."""
    data = bytes(100_000)
    passed.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 5_000)
    passed.near_client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * len(data))
    passed.client.shutdown(socket.SHUT_WR)
    passed.peer.sendall(data)
    passed.peer.shutdown(socket.SHUT_WR)
    passed.until(lambda: passed.ended)
    heard = 0
    while piece := passed.client.recv(len(data)):
        heard += len(piece)
    assert heard == len(data)


@pytest.mark.parametrize("lost", ["client", "peer"])
def test_the_reset_of_one_is_the_reset_of_the_other(passed: Passed, lost: str) -> None:
    one, other = (passed.client, passed.peer) if lost == "client" else (passed.peer, passed.client)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET.pack(1, 0))
    one.close()
    passed.until(lambda: passed.ended)
    with pytest.raises(ConnectionResetError):
        other.recv(10)
    assert len(passed.selector.get_map()) == 0


def test_what_a_peer_answered_before_it_was_lost_arrives_although_the_client_goes_on_speaking(passed: Passed) -> None:
    answers = bytes(range(250)) * 8
    passed.peer.sendall(answers)
    passed.lose_peer()
    passed.client.sendall(b"more")
    passed.until(lambda: passed.relay.tick(clock_ms()) or passed.ended)
    assert passed.client.recv(2 * len(answers), socket.MSG_WAITALL) == answers
    with pytest.raises(ConnectionResetError):
        passed.client.recv(10)
    assert len(passed.selector.get_map()) == 0


def lose_with_answers_unsent(passed: Passed, size: int) -> None:
    passed.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 5_000)
    passed.near_client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * size)
    passed.peer.sendall(bytes(size))
    passed.until(lambda: fcntl.ioctl(passed.peer, termios.TIOCOUTQ, bytes(4)) == bytes(4))  # else a reset discards them
    passed.lose_peer()
    passed.until(lambda: not passed.selector.get_map())


@pytest.mark.parametrize("passed", [64 << 10], indirect=True)
def test_a_client_that_reads_slowly_gets_the_last_answers_of_a_lost_peer_before_the_reset(passed: Passed) -> None:
    lose_with_answers_unsent(passed, 100_000)
    passed.relay.tick(clock_ms())
    assert passed.ended == []
    heard = 0
    passed.client.settimeout(0)

    def has_ended() -> bool:
        nonlocal heard
        if not passed.ended:
            passed.relay.tick(0)
        while readable(passed.client):
            try:
                heard += len(passed.client.recv(1_000))
            except ConnectionResetError:
                return True
        return False

    passed.until(has_ended)
    assert heard == 100_000
    assert passed.ended == [passed.relay]


@pytest.mark.parametrize("passed", [64 << 10], indirect=True)
def test_a_client_that_does_not_read_the_last_answers_is_reset_after_a_second(passed: Passed) -> None:
    began = clock_ms()
    lose_with_answers_unsent(passed, 100_000)
    passed.relay.tick(began + 999)
    assert passed.ended == []
    passed.relay.tick(clock_ms() + 1_000)
    assert passed.ended == [passed.relay]


def test_a_connection_that_takes_no_more_is_lost_like_one_that_was_reset(passed: Passed) -> None:
    passed.near_peer.shutdown(socket.SHUT_WR)
    passed.client.sendall(b"x")
    passed.until(lambda: passed.ended)
    with pytest.raises(ConnectionResetError):
        passed.client.recv(10)


def test_who_is_let_go_is_reset_and_nobody_is_told_that_it_ended_by_itself(passed: Passed) -> None:
    passed.relay.close()
    for each in (passed.client, passed.peer):
        with pytest.raises(ConnectionResetError):
            each.recv(10)
    assert passed.ended == []
    assert len(passed.selector.get_map()) == 0


def test_both_would_be_reset_if_this_process_died(passed: Passed) -> None:
    """Nothing is called then: the kernel closes its sockets."""
    for near in (passed.near_client, passed.near_peer):
        assert near.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET.size) == RESET.pack(1, 0)


@pytest.mark.parametrize("passed", [64 << 10], indirect=True)
def test_one_that_does_not_read_stops_the_other_from_being_read_and_misses_nothing(passed: Passed) -> None:
    """Nobody is asked for what cannot be done now: that would be work without end."""
    data = bytes(range(251)) * 40_000
    for each in (passed.client, passed.near_client, passed.near_peer, passed.peer):
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):  # they grow to more than all of it otherwise
            each.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES << 10)
    sent = 0

    def is_full() -> bool:
        nonlocal sent
        try:
            sent += passed.client.send(data[sent:])
        except BlockingIOError:
            events = [key.events for key in passed.selector.get_map().values()]
            return events == [selectors.EVENT_READ | selectors.EVENT_WRITE] and not passed.selector.select(0)
        return False

    passed.client.settimeout(0)
    passed.until(is_full)
    passed.client.shutdown(socket.SHUT_WR)
    heard = bytearray()
    passed.peer.settimeout(0)

    def has_ended() -> bool:
        while readable(passed.peer):
            piece = passed.peer.recv(1 << 20)
            if not piece:
                return True
            heard.extend(piece)
        return False

    passed.until(has_ended)
    assert bytes(heard) == data[:sent]
    assert not passed.selector.select(0)


def test_others_have_their_turn_after_a_few_buffers(passed: Passed) -> None:
    passed.client.sendall(bytes(10 * BUFFER_BYTES))
    passed.until(lambda: readable(passed.peer))
    assert len(passed.peer.recv(10 * BUFFER_BYTES)) == ROUNDS * BUFFER_BYTES
    passed.until(lambda: readable(passed.peer))


def test_it_is_at_rest_when_the_peer_has_answered_and_neither_has_sent_more(passed: Passed) -> None:
    assert passed.relay.is_at_rest
    passed.client.sendall(b"ask")
    assert not passed.relay.is_at_rest, "not even read"
    passed.until(lambda: readable(passed.peer))
    assert not passed.relay.is_at_rest
    passed.peer.sendall(b"answer")
    passed.until(lambda: readable(passed.client))
    passed.until(lambda: passed.relay.is_at_rest)
    passed.peer.shutdown(socket.SHUT_WR)
    passed.until(lambda: passed.relay.half_ended)
    assert not passed.relay.is_at_rest


@pytest.mark.parametrize("passed", [64 << 10], indirect=True)
def test_it_is_not_at_rest_while_a_client_has_no_room_for_an_answer(passed: Passed) -> None:
    passed.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 5_000)
    passed.near_client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)
    passed.peer.sendall(bytes(100_000))
    passed.until(lambda: not passed.selector.select(0) and readable(passed.client))
    assert not passed.relay.is_at_rest
    passed.client.settimeout(None)
    assert len(passed.client.recv(100_000, socket.MSG_WAITALL)) == 100_000
    passed.until(lambda: passed.relay.is_at_rest)


def test_one_that_the_system_can_watch_no_more_is_reset_and_ends_nobody_else(
    passed: Passed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without memory, or when this user watches as many descriptors as it may."""
    monkeypatch.setattr(passed.relay, "_watch", refuse)
    passed.client.sendall(b"x")
    passed.until(lambda: passed.ended)
    with pytest.raises(ConnectionResetError):
        passed.client.recv(10)


def test_it_tells_when_the_last_bytes_went_through(passed: Passed) -> None:
    passed.relay.moved_at = 0
    passed.client.sendall(b"x")
    passed.until(lambda: readable(passed.peer))
    assert passed.relay.moved_at > 0
