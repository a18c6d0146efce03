"""The child's side: what it is lent, and what it says on the page."""

import os
import socket
from collections.abc import Iterator

import pytest

from logherd_guardian.child import Identity, LeasePage, clock_ms, incarnation, inherited_sockets
from logherd_guardian.page import PAGE_BYTES, Page, decode_page

WHO = Identity(cluster="c", group="g", broker_id=1, store_id="s")
MINE = {"LOGHERD_GUARDIAN_PID": str(os.getppid())}
OF_ANOTHER = {"LOGHERD_GUARDIAN_PID": "1000000000"}


@pytest.fixture
def descriptor() -> Iterator[int]:
    made = os.memfd_create("page")
    os.ftruncate(made, PAGE_BYTES)
    yield made
    os.close(made)


def read(descriptor: int) -> Page:
    found = decode_page(os.pread(descriptor, PAGE_BYTES, 0))
    assert found is not None
    return found


def test_without_a_guardian_there_is_nothing() -> None:
    assert inherited_sockets({}) == {}
    assert incarnation({}) is None
    assert LeasePage.inherited({}) is None


def test_what_another_process_was_lent_is_not_taken() -> None:
    lent = {"LOGHERD_LISTEN_FDS": "remoting=0", "LOGHERD_INCARNATION": "ab" * 16, "LOGHERD_PAGE_FD": "0"}
    assert inherited_sockets(OF_ANOTHER | lent) == {}
    assert incarnation(OF_ANOTHER | lent) is None
    assert LeasePage.inherited(OF_ANOTHER | lent) is None


def test_sockets_come_by_name_and_go_to_no_subprocess() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        copies = [os.dup(each.fileno()) for each in (first, second)]
        os.set_inheritable(copies[0], True)  # noqa: FBT003
        found = inherited_sockets(MINE | {"LOGHERD_LISTEN_FDS": f"remoting={copies[0]},names={copies[1]}"})
        assert {name: each.getsockname() for name, each in found.items()} == {
            "remoting": first.getsockname(),
            "names": second.getsockname(),
        }
        assert not os.get_inheritable(copies[0])
        for each in found.values():
            each.close()


def test_the_incarnation_is_what_was_drawn() -> None:
    assert incarnation(MINE | {"LOGHERD_INCARNATION": "ab" * 16}) == "ab" * 16


def test_its_own_environment_is_asked_unless_another_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (MINE | {"LOGHERD_INCARNATION": "ab" * 16}).items():
        monkeypatch.setenv(name, value)
    assert incarnation() == "ab" * 16
    assert incarnation({}) is None


def test_each_call_changes_what_it_says_and_nothing_else(descriptor: int) -> None:
    os.set_inheritable(descriptor, True)  # noqa: FBT003
    page = LeasePage.inherited(MINE | {"LOGHERD_PAGE_FD": str(descriptor)})
    assert page is not None
    assert not os.get_inheritable(descriptor)
    page.identify(WHO)
    first = read(descriptor)
    assert (first.ready, first.registered, first.epoch, first.lease_end_ms) == (False, False, 0, 0)
    assert read(descriptor) == Page(sequence=1, identity=WHO)
    page.registered()
    page.ready()
    assert read(descriptor) == Page(sequence=3, identity=WHO, registered=True, ready=True)
    page.lease(7, 5_000)
    assert read(descriptor) == Page(
        sequence=4, identity=WHO, registered=True, ready=True, epoch=7, lease_end_ms=5_000
    )  # fmt: skip
    page.release()
    page.ready(accepting=False)
    assert read(descriptor) == Page(sequence=6, identity=WHO, registered=True, epoch=7)


def test_a_write_never_touches_what_is_current(descriptor: int) -> None:
    page = LeasePage(descriptor)
    for epoch in range(1, 6):
        before = os.pread(descriptor, PAGE_BYTES, 0)
        page.lease(epoch, epoch)
        after = os.pread(descriptor, PAGE_BYTES, 0)
        halves = [(before[at : at + 2048], after[at : at + 2048]) for at in (0, 2048)]
        assert [old == new for old, new in halves].count(True) == 1
        kept = next(new for old, new in halves if old == new)
        assert epoch == 1 or decode_page(kept.ljust(PAGE_BYTES, b"\0")) == Page(
            sequence=epoch - 1, epoch=epoch - 1, lease_end_ms=epoch - 1
        )


def test_an_identity_for_which_there_is_no_room_leaves_the_page_as_it_was(descriptor: int) -> None:
    page = LeasePage(descriptor)
    page.identify(WHO)
    with pytest.raises(ValueError, match="bytes, allowed are"):
        page.identify(Identity(cluster="c" * 2048, group="g", broker_id=1, store_id="s"))
    page.ready()
    assert read(descriptor) == Page(sequence=2, identity=WHO, ready=True)


def test_a_page_is_gone_on_with(descriptor: int) -> None:
    LeasePage(descriptor).identify(WHO)
    LeasePage(descriptor).ready()
    assert read(descriptor) == Page(sequence=2, identity=WHO, ready=True)


def test_the_clock_is_that_of_leases() -> None:
    import time

    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    assert before <= clock_ms() <= before + 10_000
