"""A listening socket while no child accepts on it. Client and peer are real sockets, and the test is both."""

import errno
import selectors
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import NoReturn, cast

import pytest

from logherd_guardian.clock import clock_ms
from logherd_guardian.door import Allowance, Door
from logherd_guardian.machine import ENDING_MS
from logherd_guardian.proxy import GREETING, proxy_header
from logherd_guardian.relay import BUFFER_BYTES, RESET, Relay
from logherd_guardian.resolver import Resolver
from logherd_guardian.shell import dispatch
from logherd_guardian.spare import Spare, dialled
from unit.guardian.names import Names

SPARES = 4
LINGER_MS = 60_000
HALF_ENDED_MS = 30_000
QUIET_MS = 5_000
MOMENT_MS = 20
GREETING_MS = 300
REST_MS = 100
PLACES = 8


class Listener(socket.socket):
    """Accepts nobody while a test says why."""

    number = 0

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        if self.number:
            raise OSError(self.number, "no more")
        return super().accept()


class Place:
    """A door with one peer, and what the peer has been dialled for."""

    def __init__(self, *hosts: str, earlier: tuple[str, ...] = ()) -> None:
        self.selector = selectors.DefaultSelector()
        self.peer = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.dialled: list[socket.socket] = []
        self.clients: list[socket.socket] = []
        self.allowance = Allowance(PLACES, LINGER_MS)
        self.listener = listener = Listener()
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        listener.settimeout(0)
        self.address = address = f"127.0.0.1:{self.peer.getsockname()[1]}"
        self.door = Door(
            listener, "names", (*earlier, address), selector=self.selector,
            resolver=cast("Resolver", Names(*hosts or ("127.0.0.1",))), allowance=self.allowance,
            buffer=memoryview(bytearray(BUFFER_BYTES)),
        )  # fmt: skip

    def greet(self) -> None:
        """Take connections, with as many proven ones to the peer as the door wants."""
        self.door.take(clock_ms(), on=True)
        self.peer.settimeout(0.02)
        for _ in range(200):
            if sum(spare.greeted for spare in self.door._spares) == SPARES:
                break
            with suppress(TimeoutError):
                self.dialled.append(self.peer.accept()[0])
                self.dialled[-1].sendall(GREETING)
            dispatch(self.selector, 20)
        else:
            raise AssertionError("it never had them")
        self.peer.settimeout(None)

    def passed_on(self) -> socket.socket:
        """A client that has been given to the peer."""
        self.greet()
        left = self.allowance.left
        client = self.connect()
        self.accept()
        assert self.allowance.left == left - 1
        return client

    def given(self) -> socket.socket:
        """The peer's end of the one connection that is passed on."""
        (relay,) = self.door._relays
        ours = relay._sides[1].getsockname()
        return next(each for each in self.dialled if each.getpeername() == ours)

    @property
    def is_watched(self) -> bool:
        return self.listener in self.selector.get_map()

    @property
    def moved_at(self) -> int:
        """When something went through the one connection that is passed on."""
        (relay,) = self.door._relays
        return relay.moved_at

    def connect(self) -> socket.socket:
        self.clients.append(socket.create_connection(self.door.listener.getsockname(), timeout=5))
        return self.clients[-1]

    def accept(self) -> None:
        self.door._accept(selectors.EVENT_READ)

    def close(self) -> None:
        self.door.close()
        for each in (self.peer, *self.dialled, *self.clients, self.selector):
            each.close()


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    yield made
    made.close()


def test_a_client_for_whom_every_proven_peer_has_just_gone_is_reset(place: Place) -> None:
    """With FIN the Java client may wait three seconds for what it has sent by then."""
    place.greet()
    client = place.connect()
    for each in place.dialled:
        each.close()
    place.accept()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    assert place.allowance.left == PLACES


def test_a_quiet_client_whose_time_is_over_is_reset_because_its_request_may_wait_at_the_peer(place: Place) -> None:
    """A pull that waits for messages, a send that is held while nobody leads: nothing moves meanwhile."""
    client = place.passed_on()
    client.sendall(b"x")
    dispatch(place.selector, 5_000)
    began = clock_ms()
    place.door.take(began, on=False)
    place.door.tick(began + LINGER_MS - 1)
    assert place.allowance.left == PLACES - 1
    place.door.tick(began + LINGER_MS)
    assert place.allowance.left == PLACES
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_a_client_has_its_place_until_it_has_the_last_answers_of_a_peer_that_was_lost(place: Place) -> None:
    client = place.passed_on()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 5_000)
    (relay,) = place.door._relays
    near_client, _ = relay._sides
    near_client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)
    assert near_client.send(bytes(100_000)) == 100_000
    for each in place.dialled:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        each.close()
    dispatch(place.selector, 5_000)
    place.door.tick(clock_ms())
    assert place.allowance.left == PLACES - 1
    client.settimeout(None)
    assert len(client.recv(100_000, socket.MSG_WAITALL)) == 100_000
    place.door.tick(clock_ms())
    assert place.allowance.left == PLACES
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_a_connection_that_has_half_ended_takes_no_place_for_ever(place: Place) -> None:
    client = place.passed_on()
    client.shutdown(socket.SHUT_WR)
    dispatch(place.selector, 5_000)
    moved_at = place.moved_at
    place.door.tick(moved_at + HALF_ENDED_MS - 1)
    assert place.allowance.left == PLACES - 1
    place.door.tick(moved_at + HALF_ENDED_MS)
    assert place.allowance.left == PLACES
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_whoever_is_passed_on_during_an_outage_is_not_ended_in_it(place: Place) -> None:
    place.passed_on()
    place.door.tick(clock_ms() + 10 * LINGER_MS)
    assert place.allowance.left == PLACES - 1


def test_a_send_that_a_peer_holds_is_not_cut_off_when_the_time_is_over(place: Place) -> None:
    """While nobody leads, for 2.5 s: nothing moves meanwhile."""
    client = place.passed_on()
    client.sendall(b"send")
    dispatch(place.selector, 5_000)
    asked_at = place.moved_at
    place.door.take(asked_at - LINGER_MS, on=False)
    place.door.tick(asked_at + QUIET_MS - 1)
    assert place.allowance.left == PLACES - 1
    place.door.tick(asked_at + QUIET_MS)
    assert place.allowance.left == PLACES


def test_one_who_keeps_talking_stays_for_twice_the_time_and_then_until_its_answer_has_come(place: Place) -> None:
    client, peer = place.passed_on(), place.given()
    client.sendall(b"x")
    dispatch(place.selector, 5_000)
    asked_at = place.moved_at
    place.door.take(asked_at - 2 * LINGER_MS, on=False)
    place.door.tick(asked_at + MOMENT_MS)
    assert place.allowance.left == PLACES - 1
    peer.sendall(b"answer")
    dispatch(place.selector, 5_000)
    answered_at = place.moved_at
    for late_ms, stays in ((-1, True), (0, False)):
        place.door.take(answered_at + MOMENT_MS - 2 * LINGER_MS - late_ms, on=False)
        place.door.tick(answered_at + MOMENT_MS)
        assert place.allowance.left == (PLACES - 1 if stays else PLACES)
    assert client.recv(10) == b"answer"
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_one_who_is_never_at_rest_is_ended_at_last(place: Place) -> None:
    client = place.passed_on()
    for late_ms, stays in ((ENDING_MS - 1, True), (ENDING_MS, False)):
        client.sendall(b"x")
        dispatch(place.selector, 5_000)
        moved_at = place.moved_at
        place.door.take(moved_at - 2 * LINGER_MS - late_ms, on=False)
        place.door.tick(moved_at)
        assert place.allowance.left == (PLACES - 1 if stays else PLACES)


def test_a_door_that_parts_refuses_who_comes_and_lets_a_request_on_its_way_be_answered(place: Place) -> None:
    client, peer = place.passed_on(), place.given()
    client.sendall(b"x")
    dispatch(place.selector, 5_000)
    address = place.listener.getsockname()
    place.door.take(place.moved_at, on=False)
    place.door.part()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=5)
    place.door.tick(place.moved_at + ENDING_MS - 1)
    assert place.door.is_busy
    peer.sendall(b"answer")
    dispatch(place.selector, 5_000)
    place.door.tick(place.moved_at + MOMENT_MS)
    assert not place.door.is_busy
    assert client.recv(10) == b"answer"
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_a_proof_is_as_old_as_a_second_at_most(place: Place) -> None:
    place.greet()
    proven = list(place.door._spares)
    place.door.tick(max(spare.since for spare in proven) + 1_000)
    assert not set(proven) & set(place.door._spares)
    assert not place.is_watched
    for each in place.dialled:
        assert each.recv(1) == b""


def test_a_peer_that_says_more_than_its_greeting_is_lost(place: Place) -> None:
    place.greet()
    for each in place.dialled:
        each.sendall(b"?")
    while any(spare.greeted for spare in place.door._spares):
        dispatch(place.selector, 5_000)
    assert not place.is_watched


def test_a_socket_that_cannot_be_accepted_from_is_left_alone_for_a_moment(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    """As without free descriptors: whoever asks at once again would do nothing else."""
    place.greet()
    place.connect()
    place.listener.number = errno.EMFILE
    place.accept()
    assert not place.is_watched
    assert capfd.readouterr().err.endswith("cannot accept: no more\n")
    assert place.door._rest_until <= clock_ms() + REST_MS
    place.accept()
    assert capfd.readouterr().err == "", "it is said already"
    place.listener.number = 0
    place.door._arrange(place.door._rest_until - 1)
    assert not place.is_watched
    place.door._arrange(place.door._rest_until)
    assert place.is_watched
    place.accept()
    assert place.allowance.left == PLACES - 1
    place.listener.number = errno.EMFILE
    place.accept()
    assert capfd.readouterr().err.endswith("cannot accept: no more\n"), "again"


def test_a_client_that_the_system_cannot_watch_is_reset_and_takes_no_place(
    place: Place, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    place.greet()
    client = place.connect()
    with monkeypatch.context() as full:
        full.setattr(Relay, "_watch", refuse)
        place.accept()
    assert place.allowance.left == PLACES
    assert told(capfd) == ["cannot accept: No space left on device"]
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_nobody_is_taken_without_room(place: Place) -> None:
    place.allowance.left = 1
    place.passed_on()
    assert not place.is_watched
    place.connect()
    place.accept()
    assert len(place.door._relays) == 1


def test_a_door_that_is_left_to_the_child_keeps_no_proven_connection(place: Place) -> None:
    place.greet()
    place.door.take(clock_ms(), on=False)
    assert not place.is_watched
    for each in place.dialled:
        assert each.recv(1) == b""
    place.door.tick(clock_ms())
    assert len(place.selector.get_map()) == 0


def test_nothing_is_asked_of_a_side_from_which_nothing_is_awaited(place: Place) -> None:
    """The end of a connection stays readable for ever: who looks again and again does nothing else."""
    client = place.passed_on()
    place.door.take(clock_ms(), on=False)
    before = len(place.selector.get_map())
    client.shutdown(socket.SHUT_WR)
    dispatch(place.selector, 5_000)
    assert len(place.selector.get_map()) == before - 1


def test_no_more_are_dialled_than_are_kept_at_hand(place: Place) -> None:
    """A peer lets only so many wait that have not said whose they are."""
    place.greet()
    place.door._arrange(clock_ms())
    assert len(place.door._spares) == SPARES


def test_only_a_dial_that_is_not_greeted_in_time_is_given_up(place: Place) -> None:
    place.door.take(clock_ms(), on=True)
    dials = list(place.door._spares)
    assert len(dials) == 2, "one that hangs leaves room for others"
    place.door.tick(min(spare.since for spare in dials) + GREETING_MS - 1)
    assert set(dials) <= set(place.door._spares)
    place.door.tick(max(spare.since for spare in dials) + GREETING_MS)
    assert not set(dials) & set(place.door._spares)
    place.dialled = [place.peer.accept()[0] for _ in dials]
    assert [each.recv(1) for each in place.dialled] == [b""] * len(dials)


def test_a_peer_that_has_greeted_is_not_given_up_so_soon(place: Place) -> None:
    place.greet()
    newest = max(place.door._spares, key=lambda spare: spare.since)
    place.door.tick(newest.since + GREETING_MS)
    assert newest in place.door._spares


@pytest.mark.parametrize("nowhere", ["127.0.0.2", "255.255.255.255"], ids=["refused", "no way to it"])
def test_a_peer_is_met_at_the_address_of_its_name_that_leads_somewhere(nowhere: str) -> None:
    made = Place(nowhere, "127.0.0.1")
    try:
        made.door.take(clock_ms(), on=True)
        ends = clock_ms() + 5_000
        while made.door._resolver.find("peer:7", 0) != ("127.0.0.1", 7) or not made.door._spares:
            assert clock_ms() < ends
            dispatch(made.selector, 20)
            made.door.tick(clock_ms())
        made.dialled = [made.peer.accept()[0]]
    finally:
        made.close()


def test_it_is_busy_while_it_takes_or_passes_on(place: Place) -> None:
    assert not place.door.is_busy
    place.door.take(clock_ms(), on=True)
    assert place.door.is_busy
    place.passed_on()
    place.door.take(clock_ms(), on=False)
    assert place.door.is_busy
    place.door.tick(clock_ms() + 2 * LINGER_MS)
    assert not place.door.is_busy


def test_an_address_to_which_there_is_no_way_is_told_as_the_system_tells_it() -> None:
    with pytest.raises(OSError, match="Network is unreachable"):
        dialled(("255.255.255.255", 7))


def test_h15_a_client_is_given_to_a_peer_that_has_greeted_which_is_told_whose_it_is(place: Place) -> None:
    place.door.take(clock_ms(), on=True)
    place.dialled = [place.peer.accept()[0] for _ in place.door._spares]
    peer = place.dialled[-1]
    peer.sendall(GREETING)
    dispatch(place.selector, 5_000)
    client = place.connect()
    place.accept()
    assert peer.recv(1_000) == proxy_header(client.getsockname(), place.listener.getsockname(), "names")
    client.sendall(b"ask")
    dispatch(place.selector, 5_000)
    assert peer.recv(1_000) == b"ask"
    peer.sendall(b"answer")
    dispatch(place.selector, 5_000)
    assert client.recv(1_000) == b"answer"
    (relay,) = place.door._relays
    for side in relay._sides:
        assert side.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000, "one that is dead takes a place"


def test_a_client_for_whom_no_proven_peer_is_at_hand_waits_for_one(place: Place) -> None:
    place.greet()
    clients = [place.connect() for _ in range(SPARES + 1)]
    place.accept()
    assert place.allowance.left == PLACES - SPARES
    clients[-1].settimeout(0)
    with pytest.raises(BlockingIOError):
        clients[-1].recv(1)
    place.greet()
    place.accept()
    assert place.allowance.left == PLACES - SPARES - 1


def told(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What was said since the last call, each at a moment of the last minute."""
    lines = []
    for line in capfd.readouterr().err.splitlines():
        at, _, text = line.partition(" logherd-guardian: ")
        assert 0 <= (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds() < 60
        lines.append(text)
    return lines


@pytest.mark.parametrize("is_late", [False, True])
def test_a_peer_that_has_just_died_costs_no_client(
    place: Place, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, is_late: bool
) -> None:
    place.greet()
    for each in place.dialled[:2]:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        each.close()
    if is_late:  # it is seen only when the client is given to it
        monkeypatch.setattr(Spare, "is_quiet", True)
    place.connect()
    place.accept()
    assert place.allowance.left == PLACES - 1
    assert told(capfd) == [f"peer does not serve: {place.address}: lost"]


def test_it_is_said_once_that_a_peer_does_not_serve_and_once_that_it_does(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    place.greet()
    assert capfd.readouterr().err == ""
    place.door.take(clock_ms(), on=False)
    place.door.take(clock_ms(), on=True)
    dials = list(place.door._spares)
    place.door.tick(max(spare.since for spare in dials) + GREETING_MS)
    assert told(capfd) == [f"peer does not serve: {place.address}: no greeting in time"]
    place.dialled += [place.peer.accept()[0] for _ in dials]
    place.greet()
    assert told(capfd) == [f"peer serves: {place.address}"]


@pytest.mark.parametrize("host", [None, "255.255.255.255"], ids=["without an address", "no way to it"])
def test_a_peer_that_cannot_be_dialled_is_named_and_the_next_one_dialled_at_once(
    host: str | None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Place(earlier=("elsewhere:7",))
    try:
        find = made.door._resolver.find

        def found(address: str, now: int) -> tuple[str, int] | None:
            if address != "elsewhere:7":
                return find(address, now)
            return None if host is None else (host, 7)

        monkeypatch.setattr(made.door._resolver, "find", found)
        made.door.take(clock_ms(), on=True)
        assert {spare.peer for spare in made.door._spares} == {made.address}
        why = "its name has no address yet" if host is None else "Network is unreachable"
        assert told(capfd) == [f"peer does not serve: elsewhere:7: {why}"]
    finally:
        made.close()


def test_a_client_that_left_before_it_was_accepted_stops_nobody(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    place.greet()
    place.listener.number = errno.ECONNABORTED
    place.accept()
    assert place.is_watched
    assert capfd.readouterr().err == ""


def test_a_peer_that_has_another_address_by_now_is_dialled_there_at_once(place: Place) -> None:
    """Of a pod that is gone the network often says nothing. Who has greeted lives, whatever its name says."""
    names = cast("Names", place.door._resolver)
    with socket.create_server(("127.0.0.2", place.peer.getsockname()[1])):
        place.door.take(clock_ms(), on=True)
        assert {spare.address[0] for spare in place.door._spares} == {"127.0.0.1"}
        names.hosts[:] = ["127.0.0.2"]
        place.door.tick(clock_ms())
        assert {spare.address[0] for spare in place.door._spares} == {"127.0.0.2"}
        names.hosts[:] = ["127.0.0.1"]
        place.door.tick(clock_ms())
        place.greet()
        names.hosts[:] = ["127.0.0.2"]
        place.door.tick(clock_ms())
        assert {spare.address[0] for spare in place.door._spares if spare.greeted} == {"127.0.0.1"}
