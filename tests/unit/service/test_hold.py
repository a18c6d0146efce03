"""Pulls that wait, without a store: each is answered once, in time, and nothing is kept of it."""

from typing import cast

import pytest

from logherd.service.ports import Reply, Request
from logherd.service.pull.hold import Hold, Waiter
from logherd.store import QueueLog
from unit.service.client_fakes import FakeSession

QUEUE, OTHER = cast("QueueLog", object()), cast("QueueLog", object())
ANSWER = Reply(19)


class World:
    """A hold, and what is read for those who wait: nothing, unless the test says so or it is the last time."""

    def __init__(self) -> None:
        self.hold = Hold(recheck_ms=5_000, parked_max=100, session_max=100)
        self.read: list[tuple[Waiter, bool]] = []
        self.found = False

    def park(self, session: FakeSession, *, deadline_ms: int = 15_000, queue: QueueLog = QUEUE) -> Waiter:
        request = cast("Request", None)
        waiter = Waiter(
            request, session, queue, 0, group="g", messages_max=1, tag_codes=None, deadline_ms=deadline_ms
        )  # fmt: skip
        self.hold.park(waiter, 0)
        return waiter

    def retry(self, waiter: Waiter, last: bool) -> Reply | None:
        assert not waiter.done
        self.read.append((waiter, last))
        return ANSWER if last or self.found else None

    def looks(self, *times_ms: int) -> list[bool]:
        """The clock goes on to these times; for each look at somebody, whether it was the last."""
        self.read.clear()
        for now_ms in times_ms:
            self.hold.tick(now_ms, self.retry)
        return [last for _, last in self.read]


@pytest.mark.parametrize("deadline_ms", [3_000, 5_000, 12_000])
def test_who_waits_is_looked_at_every_few_seconds_and_answered_at_the_deadline(deadline_ms: int) -> None:
    world, session = World(), FakeSession()
    world.park(session, deadline_ms=deadline_ms)
    looks = world.looks(*range(0, deadline_ms, 100))
    assert looks == [False] * ((deadline_ms - 1) // 5_000)
    assert session.replies == []
    assert world.looks(deadline_ms) == [True]
    assert session.replies == [ANSWER]
    assert world.looks(*range(deadline_ms, 60_000, 1_000)) == []


def test_who_was_woken_is_over_when_its_time_comes() -> None:
    world, session = World(), FakeSession()
    waiter = world.park(session)
    world.hold.wake([OTHER], world.retry)
    assert world.read == []
    world.hold.wake([QUEUE], world.retry)
    assert not waiter.done
    world.found = True
    world.hold.wake([QUEUE, QUEUE], world.retry)
    assert waiter.done
    assert world.looks(*range(0, 60_000, 1_000)) == []
    assert (session.replies, len(world.hold)) == ([ANSWER], 0)


def test_nobody_is_read_for_whose_connection_is_gone() -> None:
    world, session = World(), FakeSession()
    world.park(session)
    session.closed = True
    world.hold.wake([QUEUE], world.retry)
    assert (world.read, len(world.hold)) == ([], 0)
    world.hold.session_closed(session.id, lambda _: ANSWER)
    assert session.replies == []


def test_a_connection_that_is_gone_ends_its_own_pulls_only() -> None:
    world, gone, stays = World(), FakeSession(1), FakeSession(2)
    for queue in (QUEUE, OTHER):
        world.park(gone, queue=queue)
        world.park(stays, queue=queue)
    world.hold.session_closed(gone.id, lambda _: ANSWER)
    assert (len(gone.replies), stays.replies, len(world.hold)) == (2, [], 2)
    world.found = True
    world.hold.wake([QUEUE, OTHER], world.retry)
    assert (len(stays.replies), len(world.hold)) == (2, 0)
    world.park(gone)
    world.hold.release_all(lambda _: ANSWER)
    assert (len(gone.replies), len(world.hold)) == (3, 0)
    assert (world.hold._by_queue, world.hold._by_session, world.hold._waiters) == ({}, {}, {})
