"""Connections that a guardian passes on: byte for byte, bounded, and with an end."""

import hashlib
import os
import random
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from system.guardians import Guardian, Peer, eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

NEVER = ("ready_after=3600",)
MUCH = 32 << 20


@contextmanager
def passing(
    path: Path, *options: str, serve: Callable[[socket.socket], None] | None = None, child: tuple[str, ...] = NEVER
) -> Iterator[tuple[Peer, Guardian]]:
    """A guardian whose child does not serve, and one peer."""
    with Peer(serve=serve) as peer, Guardian(path, "--peer", peer.address, *options, child=child) as guardian:
        yield peer, guardian


def let_serve(go: Path, guardian: Guardian) -> float:
    """Have the child serve, which waits for this file; the last moment at which the guardian had not said so."""
    silent = time.monotonic()
    go.touch()

    def said() -> bool:
        nonlocal silent
        now = time.monotonic()
        if "the child serves" in guardian.log:
            return True
        silent = now
        return False

    eventually(said, "the child does not serve")
    return silent


def serve_echo(connection: socket.socket) -> None:
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def read_all(connection: socket.socket, digest: "hashlib._Hash") -> int:
    count = 0
    while data := connection.recv(65536):
        digest.update(data)
        count += len(data)
    return count


def test_bytes_come_back_as_they_went_in_both_directions_with_both_ends(tmp_path: Path) -> None:
    data = random.Random(5).randbytes(MUCH)
    with passing(tmp_path, serve=serve_echo) as (_, guardian), guardian.connect() as client:
        heard = hashlib.sha256()
        counts: list[int] = []
        reader = threading.Thread(target=lambda: counts.append(read_all(client, heard)))
        reader.start()
        draw = random.Random(6)
        at = 0
        while at < MUCH:
            at += client.send(data[at : at + draw.choice((1, 100, 5_000, 1_000_000))])
        client.shutdown(socket.SHUT_WR)  # the peer ends its own side when it has read to here
        reader.join(120)
        assert counts == [MUCH]
        assert heard.digest() == hashlib.sha256(data).digest()
        eventually(lambda: guardian.descriptors() <= 16, "the relay stays")


def test_a_slow_client_costs_the_guardian_no_memory_and_others_no_time(tmp_path: Path) -> None:
    data = random.Random(7).randbytes(MUCH)

    def pour(connection: socket.socket) -> None:
        if connection.recv(1) == b"p":
            connection.sendall(data)
        else:
            connection.sendall(b"quick")
        connection.shutdown(socket.SHUT_WR)

    with passing(tmp_path, serve=pour) as (_, guardian), guardian.connect(30) as slow:
        assert guardian.ask(b"q") == b"quick"
        before = guardian.memory("Anonymous")
        slow.sendall(b"p")
        began = time.monotonic()
        while time.monotonic() - began < 1:
            assert guardian.ask(b"q") == b"quick"
        assert guardian.memory("Anonymous") <= before + 512
        heard = hashlib.sha256()
        assert read_all(slow, heard) == MUCH
        assert heard.digest() == hashlib.sha256(data).digest()


def test_a_peer_that_does_not_read_stops_its_client_and_no_other(tmp_path: Path) -> None:
    def stuck(connection: socket.socket) -> None:
        if connection.recv(1) == b"q":
            connection.sendall(b"quick")
            return
        released.wait(30)
        assert read_all(connection, heard) > 0
        connection.sendall(heard.hexdigest().encode())

    released, heard = threading.Event(), hashlib.sha256()
    with passing(tmp_path, serve=stuck) as (_, guardian), guardian.connect(30) as client:
        client.sendall(b"p")
        client.settimeout(0)
        sent = hashlib.sha256()
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < 0.5:  # until everything between the two is full
            piece = os.urandom(65536)
            try:
                count = client.send(piece)
            except BlockingIOError:
                continue
            sent.update(piece[:count])
            quiet_since = time.monotonic()
        assert guardian.ask(b"q") == b"quick"
        released.set()
        client.settimeout(30)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == sent.hexdigest().encode()


def test_only_so_many_are_passed_on_and_the_next_waits_its_turn(tmp_path: Path) -> None:
    options = ("--connections-max", "3")
    with passing(tmp_path, *options) as (peer, guardian), ExitStack() as crowd:
        clients = [crowd.enter_context(guardian.connect()) for _ in range(5)]
        for client in clients:
            client.sendall(b"x")
        for client in clients[:3]:
            assert client.recv(10) == b"peer x"
        used = guardian.processor_seconds()
        for client in clients[3:]:
            client.settimeout(0.5)
            with pytest.raises(TimeoutError):
                client.recv(10)
            client.settimeout(30)
        assert guardian.processor_seconds() - used <= 0.2, "those that wait keep it busy"
        assert len(peer.headers) == 3
        clients[0].close()
        assert clients[3].recv(10) == b"peer x"
        clients[1].close()
        assert clients[4].recv(10) == b"peer x"


def test_when_the_child_is_back_connections_end_by_themselves_and_none_is_taken(tmp_path: Path) -> None:
    options = ("--linger-seconds", "2")
    with (
        passing(tmp_path, *options, child=(f"ready_when={tmp_path}/go",)) as (peer, guardian),
        guardian.connect() as stays,
        guardian.connect() as leaves,
    ):
        for client in (stays, leaves):
            client.sendall(b"x")
            assert client.recv(10) == b"peer x"
        back = let_serve(tmp_path / "go", guardian)
        assert guardian.ask().startswith(b"child ")
        leaves.sendall(b"y")
        assert leaves.recv(10) == b"peer y"
        leaves.close()
        assert len(peer.headers) == 2
        # The other is used to the end: it is not cut before twice the time, though nothing keeps it longer.
        count = 0
        while True:
            try:
                stays.sendall(b"z")
                answer = stays.recv(10)
            except ConnectionError:
                break
            if not answer:
                break
            count += 1
            time.sleep(0.1)
        assert time.monotonic() - back >= 3.8
        assert count > 20


def test_a_quiet_connection_is_ended_when_its_time_is_over(tmp_path: Path) -> None:
    options = ("--linger-seconds", "1")
    child = (f"ready_when={tmp_path}/go",)
    with passing(tmp_path, *options, child=child) as (_, guardian), guardian.connect() as client:
        client.sendall(b"x")
        assert client.recv(10) == b"peer x"
        back = let_serve(tmp_path / "go", guardian)
        with pytest.raises(ConnectionResetError):
            client.recv(10)
        assert time.monotonic() - back >= 0.8


def test_a_lost_peer_ends_its_connections_and_the_next_go_elsewhere(tmp_path: Path) -> None:
    """Peers are dialled in turn, but whoever has greeted first is taken: how many each gets is not said."""
    with Peer() as first, Peer() as second, ExitStack() as crowd:
        options = ("--peer", first.address, "--peer", second.address)
        with Guardian(tmp_path, *options, child=NEVER) as guardian:
            clients: list[socket.socket] = []
            while min(len(first.headers), len(second.headers)) < 2:
                assert len(clients) < 100, "one of two peers is given nobody"
                clients.append(crowd.enter_context(guardian.connect()))
                clients[-1].sendall(b"x")
                assert clients[-1].recv(10) == b"peer x"
            lost = len(first.headers)
            first.close()
            ended = 0
            for client in clients:
                try:
                    client.sendall(b"y")
                    ended += client.recv(10) != b"peer y"
                except ConnectionError:
                    ended += 1
            assert ended == lost
            assert [guardian.ask() for _ in range(10)] == [b"peer hello"] * 10
            guardian.wait_for(f"peer does not serve: {first.address}")


def test_a_peer_that_dies_resets_its_clients_and_so_does_a_guardian(tmp_path: Path) -> None:
    """With FIN the Java client may wait three seconds for what was on its way."""
    ready, go = threading.Event(), threading.Event()

    def dies(connection: socket.socket) -> None:
        connection.recv(10)
        ready.set()
        go.wait(30)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # as a broker's is set
        connection.close()

    with passing(tmp_path, serve=dies) as (_, guardian), guardian.connect() as first, guardian.connect() as second:
        first.sendall(b"x")
        assert ready.wait(30)
        second.sendall(b"x")
        go.set()
        with pytest.raises(ConnectionResetError):
            first.recv(10)
    again = tmp_path / "again"
    again.mkdir()
    with passing(again, serve=serve_echo) as (_, guardian), guardian.connect() as client:
        client.sendall(b"x")
        assert client.recv(10) == b"x"
        guardian.process.kill()
        with pytest.raises(ConnectionResetError):
            client.recv(10)


def test_clients_that_hang_up_or_say_nothing_take_no_place_for_ever(tmp_path: Path) -> None:
    options = ("--connections-max", "4")
    with passing(tmp_path, *options) as (_, guardian):
        for number in range(40):
            client = guardian.connect()
            if number % 2:
                # As a killed client: what was sent is lost, the connection is reset.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                client.sendall(b"x")
            client.close()
        assert guardian.ask() == b"peer hello"
        eventually(lambda: guardian.descriptors() <= 16, "relays stay")


def test_a_paused_peer_is_given_nobody(tmp_path: Path) -> None:
    """Its port takes connections, because the kernel does; it greets nobody."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as paused, Peer() as peer:
        address = f"127.0.0.1:{paused.getsockname()[1]}"
        options = ("--peer", address, "--peer", peer.address)
        with Guardian(tmp_path, *options, child=NEVER) as guardian:
            for _ in range(20):
                assert guardian.ask() == b"peer hello"
            guardian.wait_for(f"peer does not serve: {address}: no greeting in time")


def test_what_was_passed_on_outlives_the_next_deaths(tmp_path: Path) -> None:
    child = (f"ready_when={tmp_path}/go",)
    with passing(tmp_path, child=child) as (_, guardian), guardian.connect() as client:
        for life in range(1, 4):
            client.sendall(b"x")
            assert client.recv(10) == b"peer x"
            (tmp_path / "go").touch()
            guardian.wait_for("the child serves", life)
            os.kill(guardian.child, signal.SIGKILL)
