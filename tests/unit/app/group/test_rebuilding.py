"""An operator's order to go on without a majority, as it is given through the admin port, and given again."""

import re
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from logherd.app.group.rebuilding import rebuild, votes_page
from logherd.group.seat import cluster_of
from logherd.service.replica_orders import Rebuild, Survivor, VotesPage
from unit.group.ring import KEY
from unit.group.test_rebuilding import five_of_which_two_survive
from unit.group.test_voting_over_stores import StoreReplica, StoreRing, stored


def mode_of(node: StoreReplica) -> Any:
    return SimpleNamespace(core=node.core, seat=node.seat, leader=None, rebuild=node.feed)


def page_of(node: StoreReplica) -> VotesPage:
    status, page = votes_page(mode_of(node))
    assert status == 200
    assert isinstance(page, VotesPage)
    return page


def order_for(ring: StoreRing, *survivors: StoreReplica) -> Rebuild:
    """As the command makes it, from what the survivors say."""
    pages = [page_of(node) for node in survivors]
    return Rebuild(
        reset=max(page.reset for page in pages) + 1, epoch=max(page.epoch for page in pages) + 1, loss=True,
        survivors=tuple(
            Survivor(identity=page.identity, epoch=page.last_epoch, position=page.last_position) for page in pages
        ),
        give_up=tuple(each for each in ring.nodes if each not in {page.broker_id for page in pages}),
    )  # fmt: skip


def status_of(node: StoreReplica, order: Rebuild) -> int:
    return rebuild(mode_of(node), order)[0]


@pytest.mark.parametrize("far", [{"reset": 1 << 32}, {"reset": 1 << 70}, {"epoch": 1 << 62}, {"epoch": 1 << 70}])
def test_a_number_that_no_message_can_carry_is_refused(far: dict[str, int]) -> None:
    """It would be durable, and whoever had promised it could never speak again."""
    document = {"reset": 1, "epoch": 1, "survivors": [], "giveUp": [1]}
    msgspec.convert(document, Rebuild)
    with pytest.raises(msgspec.ValidationError, match=next(iter(far))):
        msgspec.convert(document | far, Rebuild)


def test_an_order_that_reached_only_who_has_most_is_given_again() -> None:
    ring, longer, shorter = five_of_which_two_survive()
    assert status_of(longer, order_for(ring, longer, shorter)) == 200
    ring.run(3_000)
    assert ring.leader is None
    again = order_for(ring, longer, shorter)
    assert [status_of(node, again) for node in (longer, shorter)] == [200, 200]
    assert ring.until_served() is longer


def test_an_order_that_reached_only_who_has_less_is_given_again() -> None:
    ring, longer, shorter = five_of_which_two_survive()
    assert status_of(shorter, order_for(ring, longer, shorter)) == 200
    ring.run(3_000)
    again = order_for(ring, longer, shorter)
    assert [status_of(node, again) for node in (longer, shorter)] == [200, 200]
    assert ring.until_served() is longer


def test_an_order_whose_promise_alone_outlived_a_crash_is_not_said_to_be_carried_out() -> None:
    ring, longer, shorter = five_of_which_two_survive()
    order = order_for(ring, longer, shorter)
    longer.slow = True
    assert [status_of(node, order) for node in (longer, shorter)] == [200, 200]
    longer.crash_behind_the_promise()
    ring.restart(longer)
    assert longer.core.cluster == cluster_of(KEY, 1)
    assert status_of(longer, order) == 409
    ring.run(3_000)
    assert ring.leader is None
    again = order_for(ring, longer, shorter)
    assert [status_of(node, again) for node in (longer, shorter)] == [200, 200]
    assert ring.until_served() is longer


def test_the_same_order_is_answered_again_where_it_was_carried_out() -> None:
    ring, longer, shorter = five_of_which_two_survive()
    order = order_for(ring, longer, shorter)
    for _ in range(2):
        assert [status_of(node, order) for node in (longer, shorter)] == [200, 200]
    assert ring.until_served() is longer


def test_another_order_with_the_number_of_one_that_was_carried_out_is_not_said_to_be_so() -> None:
    ring, longer, shorter = five_of_which_two_survive()
    order = order_for(ring, longer, shorter)
    assert [status_of(node, order) for node in (longer, shorter)] == [200, 200]
    assert [status_of(node, replace(order, epoch=order.epoch + 9)) for node in (longer, shorter)] == [409, 409]


def test_a_survivor_that_missed_the_order_hears_the_same_words_later_and_belongs_to_the_group() -> None:
    """Of seven; the two that heard it, the one with most among them, serve meanwhile: they would refuse a new order."""
    ring = StoreRing(7)
    ring.until_served().append(b"before")
    ring.run(500)
    lost = list(ring.nodes.values())[:4]
    late, first, second = (stored(node) for node in ring.nodes.values() if node not in lost)
    for node in lost:
        ring.kill(node)
    ring.run(3_000)
    order = order_for(ring, first, second, late)
    assert [status_of(node, order) for node in (first, second)] == [200, 200]
    leader = ring.until_served()
    end = leader.append(b"meanwhile")
    ring.run(2_000)
    assert leader.committed == end
    assert late.log.end < end
    assert status_of(stored(leader), order_for(ring, first, second, late)) == 409
    assert status_of(late, order) == 200
    ring.run(2_000)
    assert late.committed == end
    ring.kill(next(node for node in (first, second) if node is not leader))
    assert leader.append(b"counts") == leader.log.end
    ring.run(200)
    assert leader.committed == late.log.end == leader.log.end


# ---- what is refused: nothing has changed then ----------------------------------------------------------------------


def refused(node: StoreReplica, order: Rebuild) -> str:
    before = page_of(node)
    status, answer = rebuild(mode_of(node), order)
    assert status == 409
    assert page_of(node) == before
    assert isinstance(answer, dict)
    return str(answer["error"])


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"give_up": ()}, "this gives up broker .*, and not .*: name them"),
        ({"loss": False}, "accept that"),
        ({"reset": 0}, "knows reset 0 and epoch .*: look again"),
        ({"epoch": 1}, "knows reset 0 and epoch .*: look again"),
        ({"survivors": (), "give_up": (1, 2, 3, 4, 5)}, "or the log has changed, since this was looked at"),
    ],
)
def test_an_order_that_does_not_fit_is_refused(wrong: dict[str, Any], why: str) -> None:
    ring, longer, shorter = five_of_which_two_survive()
    for node in (longer, shorter):
        assert re.search(why, refused(node, replace(order_for(ring, longer, shorter), **wrong)))


def test_a_survivor_that_is_named_twice_is_refused() -> None:
    """As of two addresses that lead to the same broker: whoever took such an order for good ended."""
    ring, longer, shorter = five_of_which_two_survive()
    order = order_for(ring, longer, shorter)
    twice = replace(order, survivors=(*order.survivors, order.survivors[0]))
    for node in (longer, shorter):
        assert f"{order.survivors[0].identity} is named twice" in refused(node, twice)


def test_a_survivor_that_belongs_to_another_group_is_refused() -> None:
    """Its vote would be waited for."""
    ring, longer, shorter = five_of_which_two_survive()
    order = order_for(ring, longer, shorter)
    stranger = Survivor(identity="9.00000000000000ff", epoch=1, position=9)
    for node in (longer, shorter):
        why = refused(node, replace(order, survivors=(*order.survivors, stranger)))
        assert why.startswith("9.00000000000000ff is no member here; members are 1.")


def test_an_order_made_for_another_end_of_the_log_is_refused() -> None:
    ring, longer, shorter = five_of_which_two_survive()
    order = order_for(ring, longer, shorter)
    first, *rest = order.survivors
    order = replace(order, survivors=(replace(first, position=first.position + 1), *rest))
    assert "the log has changed" in refused(longer, order)


def test_a_group_that_works_or_could_is_not_rebuilt() -> None:
    ring = StoreRing(5)
    ring.until_served()
    first, second, third, *_ = (stored(node) for node in ring.nodes.values() if node.core.leads is None)
    assert "a leader is heard" in refused(first, order_for(ring, first, second))
    for node in (first, second, third):
        ring.isolate(node)
    ring.run(3_000)
    assert "are a majority" in refused(first, order_for(ring, first, second, third))


def test_a_group_that_was_never_founded_is_not_rebuilt() -> None:
    mode: Any = SimpleNamespace(core=None)
    order = Rebuild(reset=1, epoch=1, survivors=(), give_up=(), loss=True)
    for status, answer in (rebuild(mode, order), votes_page(mode)):
        assert status == 409
        assert "not founded yet" in str(answer)
