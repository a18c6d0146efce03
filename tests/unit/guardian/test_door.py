"""A listening socket while no child accepts on it. Client and peer are real sockets, and the test is both."""

import selectors
import socket
from collections.abc import Iterator
from typing import cast

import pytest

from logherd_guardian.brood import Brood
from logherd_guardian.clock import clock_ms
from logherd_guardian.door import Allowance, Door
from logherd_guardian.proxy import GREETING
from logherd_guardian.relay import BUFFER_BYTES
from logherd_guardian.resolver import Resolver
from logherd_guardian.shell import dispatch

SPARES = 4
LINGER_MS = 60_000


class Place:
    """A door with one peer, and what the peer has been dialled for."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.peer = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.dialled: list[socket.socket] = []
        self.clients: list[socket.socket] = []
        self.allowance = Allowance(8, LINGER_MS)
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(0)
        address = f"127.0.0.1:{self.peer.getsockname()[1]}"
        resolver = Resolver(self.selector, cast("Brood", None))  # it is asked for no name
        self.door = Door(
            listener, "remoting", (address,), selector=self.selector, resolver=resolver, allowance=self.allowance,
            buffer=memoryview(bytearray(BUFFER_BYTES)),
        )  # fmt: skip

    def greet(self) -> None:
        """Take connections, with as many proven ones to the peer as the door wants."""
        self.door.take(clock_ms(), on=True)
        while sum(spare.greeted for spare in self.door._spares) < SPARES:
            if len(self.dialled) < len(self.door._spares):
                self.dialled.append(self.peer.accept()[0])
                self.dialled[-1].sendall(GREETING)
            dispatch(self.selector, 5_000)

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
    assert place.allowance.left == 8


def test_a_quiet_client_whose_time_is_over_is_reset_because_its_request_may_wait_at_the_peer(place: Place) -> None:
    """A pull that waits for messages, a send that is held while nobody leads: nothing moves meanwhile."""
    place.greet()
    client = place.connect()
    place.accept()
    client.sendall(b"x")
    dispatch(place.selector, 5_000)
    began = clock_ms()
    place.door.take(began, on=False)
    place.door.tick(began + LINGER_MS - 1)
    assert place.allowance.left == 7
    place.door.tick(began + LINGER_MS)
    assert place.allowance.left == 8
    with pytest.raises(ConnectionResetError):
        client.recv(1)
