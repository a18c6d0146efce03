"""A child that was forked before its guardian began: it hears what it is lent, or that there will be no guardian."""

import os
import socket
from collections.abc import Iterator

import pytest

from logherd_guardian.child import LeasePage, incarnation, inherited_sockets, receive_lent
from logherd_guardian.page import PAGE_BYTES
from logherd_guardian.waiting import Waiting


@pytest.fixture
def ends() -> Iterator[tuple[Waiting, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.set_inheritable(True)  # it came through `exec`
    descriptor = ours.detach()
    waiting = Waiting(os.getpid(), descriptor)
    assert not os.get_inheritable(descriptor)
    with theirs:
        yield waiting, theirs
    waiting.close()


@pytest.fixture
def page() -> Iterator[int]:
    made = os.memfd_create("page")
    os.ftruncate(made, PAGE_BYTES)
    yield made
    os.close(made)


def test_it_has_what_a_started_child_finds_in_its_environment(ends: tuple[Waiting, socket.socket], page: int) -> None:
    waiting, theirs = ends
    long_name = "names-" * 50
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        assert waiting.begin("ab" * 16, {"remoting": first.fileno(), long_name: second.fileno()}, page)
        lent = receive_lent(theirs)
        assert theirs.recv(1) == b"", "that was all, and the guardian keeps nothing of it"
        assert lent is not None
        assert incarnation(lent) == "ab" * 16
        texts = (*lent["LOGHERD_LISTEN_FDS"].split(","), lent["LOGHERD_PAGE_FD"])
        assert not any(os.get_inheritable(int(text.rpartition("=")[2])) for text in texts)
        found = inherited_sockets(lent)
        assert {name: each.getsockname() for name, each in found.items()} == {
            "remoting": first.getsockname(),
            long_name: second.getsockname(),
        }
        for each in found.values():
            each.close()
    said = LeasePage.inherited(lent)
    assert said is not None
    said.ready()
    assert any(os.pread(page, PAGE_BYTES, 0))
    os.close(int(lent["LOGHERD_PAGE_FD"]))


def test_a_guardian_that_ends_first_lends_nothing(ends: tuple[Waiting, socket.socket]) -> None:
    waiting, theirs = ends
    waiting.close()
    assert receive_lent(theirs) is None


def test_a_child_that_has_died_is_noticed(ends: tuple[Waiting, socket.socket], page: int) -> None:
    waiting, theirs = ends
    theirs.close()
    assert not waiting.begin("ab" * 16, {}, page)
