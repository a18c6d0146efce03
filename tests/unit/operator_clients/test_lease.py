"""A lease is given back at the end, whatever became of the answers, and only by whoever holds it."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from k8s.api_server import ApiServer
from logherd_operator.clients.api import Api, Reply
from logherd_operator.clients.errors import Unreachable
from logherd_operator.clients.lease import Lease, LeasePlace, Pace
from logherd_operator.handlers.process import LeaseLost, hold

PATH = "/apis/coordination.k8s.io/v1/namespaces/shop/leases/logherd-operator"


class Line:
    """The way to the API server: a write may arrive without its answer, or after somebody else's."""

    def __init__(self) -> None:
        self.server = ApiServer(lambda: 0.0)
        self.silent = asyncio.Event()
        """Set by the next write that arrives while answers are held back."""
        self.holds_back = False
        self.loses = False
        self.broken = 0
        """So many requests do not get through."""
        self.asked: list[str] = []

    async def send(self, method: str, path: str, body: Mapping[str, Any] | None, content_type: str) -> Reply:
        self.asked.append(method)
        if self.broken:
            self.broken -= 1
            raise Unreachable("the connection was lost")
        reply = self.server.handle(method, path, body, content_type)
        if method == "GET":
            return reply
        if self.loses:
            raise Unreachable("the answer was lost")
        if self.holds_back:
            self.silent.set()
            await asyncio.Event().wait()
        return reply

    @property
    def holder(self) -> str:
        found = self.server.find(PATH)
        assert found is not None
        return str(found["spec"]["holderIdentity"])

    def taken_by(self, identity: str) -> None:
        """Somebody else's write."""
        found = self.server.find(PATH)
        assert found is not None
        self.server.put(PATH, {**found, "spec": {**found["spec"], "holderIdentity": identity}})


def candidate(line: Line) -> Lease:
    return Lease(Api(line), LeasePlace("shop", "logherd-operator", "op-0"), lambda: 100.0)


async def holding(line: Line) -> Lease:
    lease = candidate(line)
    assert await lease.seek()
    assert line.holder == "op-0"
    return lease


async def seek_until_cancelled(line: Line, lease: Lease) -> None:
    """As at a stop: the write has arrived, its answer has not."""
    line.holds_back = True
    seeking = asyncio.create_task(lease.seek())
    await line.silent.wait()
    seeking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await seeking
    line.holds_back = False


async def test_what_is_held_is_given_back_with_one_request() -> None:
    line = Line()
    lease = await holding(line)
    assert await lease.seek()
    line.asked.clear()
    await lease.release()
    assert (line.holder, line.asked, lease.held) == ("", ["PUT"], False)
    await lease.release()
    assert line.asked == ["PUT"]


async def test_it_is_given_back_when_a_renewal_was_cancelled_after_it_had_arrived() -> None:
    line = Line()
    lease = await holding(line)
    await seek_until_cancelled(line, lease)
    line.asked.clear()
    await lease.release()
    assert (line.holder, line.asked) == ("", ["PUT", "GET", "PUT"])


async def test_it_is_given_back_when_the_connection_was_lost_under_the_first_request() -> None:
    line = Line()
    lease = await holding(line)
    line.asked.clear()
    line.broken = 1
    await lease.release()
    assert (line.holder, line.asked) == ("", ["PUT", "GET", "PUT"])


async def test_it_is_given_back_when_a_renewal_was_in_conflict_with_the_one_before_whose_answer_was_lost() -> None:
    line = Line()
    lease = await holding(line)
    line.loses = True
    assert not await lease.seek()
    line.loses = False
    assert not await lease.seek()
    await lease.release()
    assert line.holder == ""


@pytest.mark.parametrize("known", [False, True], ids=["no lease before", "a free lease before"])
async def test_it_is_given_back_when_the_answer_to_the_very_first_write_was_lost(known: bool) -> None:
    line = Line()
    if known:
        await (await holding(line)).release()
    lease = candidate(line)
    await seek_until_cancelled(line, lease)
    assert (line.holder, lease.held) == ("op-0", False)
    await lease.release()
    assert line.holder == ""


async def test_what_somebody_else_took_meanwhile_is_not_touched() -> None:
    line = Line()
    lease = await holding(line)
    line.taken_by("op-1")
    before = line.server.find(PATH)
    await lease.release()
    assert line.server.find(PATH) == before


async def test_what_somebody_else_was_seen_to_hold_is_not_touched() -> None:
    line = Line()
    lease = await holding(line)
    line.taken_by("op-1")
    assert [await lease.seek(), await lease.seek()] == [False, False]
    assert not lease.held, "they act now"
    before = line.server.find(PATH)
    await lease.release()
    assert line.server.find(PATH) == before


@pytest.mark.parametrize("spec", [{}, {"spec": None}, {"spec": {}}], ids=["none", "null", "empty"])
async def test_a_lease_that_says_nothing_is_free(spec: dict[str, Any]) -> None:
    """As one that a person made by hand, or a tool that only labels it."""
    line = Line()
    body = {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "shop", "name": "logherd-operator"}, **spec,
    }  # fmt: skip
    line.server.handle("POST", PATH.rpartition("/")[0], body, "application/json")
    lease = candidate(line)
    assert await lease.seek()
    assert (line.holder, lease.held) == ("op-0", True)


async def test_a_lease_that_loses_what_it_says_while_it_is_held_is_taken_anew() -> None:
    line = Line()
    lease = await holding(line)
    found = line.server.find(PATH)
    assert found is not None
    line.server.put(PATH, {name: each for name, each in found.items() if name != "spec"})
    assert [await lease.seek(), await lease.seek()] == [False, True]
    assert line.holder == "op-0"


async def test_a_lease_that_somebody_deletes_while_it_is_held_is_made_again() -> None:
    line = Line()
    lease = await holding(line)
    line.server.drop(PATH)
    assert True in [await lease.seek(), await lease.seek()]
    assert line.holder == "op-0"


async def test_who_sees_that_another_holds_a_lease_that_was_made_anew_stops_acting() -> None:
    """Deleted by hand, it is made by whoever asks first, and nobody waits out what the last holder was granted."""
    line = Line()
    lease = await holding(line)
    line.server.drop(PATH)
    other = Lease(Api(line), LeasePlace("shop", "logherd-operator", "op-1"), lambda: 100.0)
    assert await other.seek()
    assert [await lease.seek(), await lease.seek()] == [False, False]
    assert (lease.held, other.held, line.holder) == (False, True, "op-1")


async def test_a_candidate_that_never_asked_for_it_asks_for_nothing_at_the_end() -> None:
    line = Line()
    await holding(line)
    line.taken_by("op-1")
    other = candidate(line)
    assert not await other.seek()
    line.asked.clear()
    await other.release()
    assert line.asked == []


@pytest.mark.parametrize("status", [403, 409, 503])
async def test_an_api_server_that_refuses_or_does_not_answer_ends_it_without_an_error(status: int) -> None:
    line = Line()
    lease = await holding(line)
    line.asked.clear()
    line.server.faults.refuse["leases"] = status
    await lease.release()
    assert (line.holder, lease.held) == ("op-0", False)
    assert len(line.asked) <= 3
    line.server.faults.down = True
    await lease.release()


async def test_a_lease_that_is_gone_is_not_made_again() -> None:
    line = Line()
    lease = await holding(line)
    line.server.drop(PATH)
    await lease.release()
    assert line.server.find(PATH) is None


async def test_who_renews_at_an_api_server_that_hangs_stops_acting_before_another_may_begin() -> None:
    """The request itself may take much longer."""
    line = Line()
    pace = Pace(duration=0.3, deadline=0.2, retry=0.02)
    lease = Lease(Api(line), LeasePlace("shop", "logherd-operator", "op-0"), time.monotonic, pace)
    assert await lease.seek()
    line.holds_back = True
    with pytest.raises(LeaseLost):
        await asyncio.wait_for(hold(lease), 10.0)
