"""Static mode: roles from a table, promotion by hand."""

import pytest

from logherd.controller.values import BrokerId, Registration
from logherd.group.inputs import Assigned, Drain, HandOver, Health, Registered, Tick
from logherd.group.output import (
    Behind,
    Closed,
    Cut,
    Drained,
    Fenced,
    Following,
    Leading,
    MustRebuild,
    Strange,
)
from logherd.group.table import (
    Promotion,
    PromotionRefusedError,
    Table,
    first_epoch,
    found,
    next_epoch,
    next_table,
    promote,
    served,
    table_number,
)
from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN, Point
from unit.group.bases import drop_before
from unit.group.ring import Replica, StaticRing

B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
ASYNC = Table(number=1, leader=B1, address="b1:10911")
SYNC = Table(number=1, leader=B1, synchronous=(B2, B3), copies=3)
ONE_OF_TWO = Table(number=1, leader=B1, synchronous=(B2, B3), copies=2)


def end_of(node: Replica) -> Point:
    return node.log.epochs.point_at(node.log.end)


def promoted(
    ring: StaticRing,
    node: Replica,
    *,
    loss: bool = False,
    holds: Point | None = None,
    synchronous: tuple[BrokerId, ...] = (),
) -> Table:
    order = Promotion(
        after=ring.table.number, leader=BrokerId(node.id), synchronous=synchronous, copies=len(synchronous) + 1,
        holds=holds or end_of(node), loss=loss,
    )  # fmt: skip
    return next_table(ring.table, order)


def test_the_configured_leader_serves_and_the_others_follow() -> None:
    ring = StaticRing(ASYNC)
    leader = ring.until_served()
    assert leader.id == 1
    end = leader.append()
    ring.run(400)
    assert [node.log.end for node in ring.nodes.values()] == [end] * 3
    assert [node.committed for node in ring.nodes.values()] == [end] * 3
    assert ring.nodes[2].heard(Following)[-1] == Following(leader.core.epoch, B1, "b1:10911")


def test_asynchronous_is_committed_once_it_is_flushed_here() -> None:
    ring = StaticRing(ASYNC)
    leader = ring.until_served()
    ring.isolate(leader)
    leader.slow = True
    end = leader.append()
    assert leader.committed < end
    leader.flush()
    assert leader.committed == end
    ring.run(10_000)
    assert leader.serves is not None


def test_synchronous_is_committed_once_all_named_followers_have_flushed_it() -> None:
    ring = StaticRing(SYNC)
    leader = ring.until_served()
    ring.run(500)
    ring.nodes[2].slow = True
    end = leader.append()
    ring.run(50)
    assert leader.committed < end
    ring.nodes[2].flush()
    ring.run(50)
    assert leader.committed == end


def test_one_of_two_synchronous_followers_is_enough_if_the_table_says_so() -> None:
    ring = StaticRing(ONE_OF_TWO)
    leader = ring.until_served()
    ring.kill(ring.nodes[2])
    end = leader.append()
    ring.run(50)
    assert leader.committed == end
    ring.kill(ring.nodes[3])
    end = leader.append()
    ring.run(50)
    assert leader.committed < end


def test_a_follower_that_is_behind_is_named_and_writes_are_refused() -> None:
    ring = StaticRing(SYNC)
    leader = ring.until_served()
    ring.run(500)
    ring.kill(ring.nodes[3])
    ring.run(2_000)
    assert leader.heard(Behind)[-1] == Behind(leader.core.epoch, (B3,))
    assert leader.core.closed(ring.now) is Closed.TOO_FEW
    ring.restart(ring.nodes[3])
    ring.run(2_000)
    assert leader.heard(Behind)[-1] == Behind(leader.core.epoch, ())
    assert leader.core.closed(ring.now) is None


def test_a_leader_whose_followers_came_late_takes_writes_from_when_it_serves() -> None:
    ring = StaticRing(SYNC)
    late = [ring.nodes[2], ring.nodes[3]]
    for node in late:
        ring.kill(node)
    ring.run(3_000)
    leader = ring.nodes[1]
    assert leader.heard(Behind)[-1] == Behind(leader.core.epoch, (B2, B3))
    assert leader.serves is None
    for node in late:
        ring.restart(node)
    assert ring.until_served() is leader
    assert ring.now % 20, "between two looks at the time"
    assert leader.core.closed(ring.now) is None
    assert leader.heard(Behind)[-1] == Behind(leader.core.epoch, ())


def test_a_synchronous_leader_that_hears_of_no_follower_stops_serving() -> None:
    ring = StaticRing(SYNC)
    leader = ring.until_served()
    ring.run(500)
    ring.isolate(leader)
    ring.run(ring.options.bound_ms)
    assert leader.serves is None
    assert isinstance(leader.heard(Fenced)[-1], Fenced)
    ring.heal()
    ring.run(500)
    assert leader.serves is not None


def test_a_promoted_follower_serves_only_when_the_old_leader_cannot_any_more() -> None:
    ring = StaticRing(SYNC)
    old = ring.until_served()
    ring.run(500)
    old.append()
    ring.run(50)
    ring.isolate(old)
    ring.assign(promoted(ring, ring.nodes[2], synchronous=(B3,)), ring.nodes[2], ring.nodes[3])
    until = ring.now + 6_000
    while ring.nodes[2].serves is None:
        assert len(ring.serving) <= 1
        assert ring.now < until
        ring.run(1)
    assert old.serves is None
    end = ring.nodes[2].append()
    ring.run(50)
    assert ring.nodes[2].committed == end


def test_nothing_is_committed_by_a_leader_whose_synchronous_follower_was_promoted() -> None:
    ring = StaticRing(SYNC)
    old = ring.until_served()
    ring.run(500)
    before = old.committed
    ring.isolate(old)
    ring.assign(promoted(ring, ring.nodes[2]), ring.nodes[2], ring.nodes[3])
    ring.heal()
    old.append()
    ring.run(10)
    assert old.committed == before


def test_an_old_leader_comes_back_follows_the_table_and_cuts() -> None:
    ring = StaticRing(SYNC)
    old = ring.until_served()
    ring.run(500)
    ring.isolate(old)
    old.append(b"never committed")
    ring.assign(promoted(ring, ring.nodes[2], synchronous=(B3,)), ring.nodes[2], ring.nodes[3])
    new = ring.until_served(by=2)
    end = new.append(b"after")
    ring.heal()
    old.feed(Assigned(ring.table))
    ring.run(6_000)
    assert old.heard(Cut)
    assert (old.log.end, old.log.epochs, old.committed) == (end, new.log.epochs, end)


def test_what_an_asynchronous_leader_alone_had_is_given_up_only_by_a_promotion_that_says_so() -> None:
    ring = StaticRing(ASYNC)
    old = ring.until_served()
    ring.run(500)
    ring.isolate(old)
    old.append(b"answered")
    ring.kill(old)
    ring.assign(promoted(ring, ring.nodes[2]), ring.nodes[2], ring.nodes[3])
    new = ring.until_served(by=2)
    ring.heal()
    ring.restart(old)
    ring.run(6_000)
    assert not old.heard(MustRebuild, Cut)
    assert "nobody has accepted that loss" in old.heard(Strange)[-1].reason  # type: ignore[attr-defined]
    assert len(new.heard(Strange)) == 1
    for starts in range(2, 4):
        ring.kill(old)
        ring.restart(old)
        ring.run(3_000)
        assert len(new.heard(Strange)) == starts, "once of each process"
    leading = new.core.leading
    assert len(leading._contradicted) == 1, "of a broker the latest process is remembered"
    assert new.serves is not None
    ring.assign(promoted(ring, ring.nodes[3], loss=True))
    assert ring.until_served(by=3)
    ring.run(6_000)
    assert old.heard(MustRebuild)


def test_a_promotion_names_the_table_that_it_replaces() -> None:
    order = Promotion(after=1, leader=B2, holds=ORIGIN, loss=True)
    second = promote(found(ASYNC), order)
    assert second.table.number == 2
    with pytest.raises(PromotionRefusedError, match="table 2 is in force"):
        promote(second, order)


def test_who_may_lack_something_is_promoted_only_with_loss() -> None:
    order = Promotion(after=1, leader=B2, synchronous=(B1,), copies=2, holds=ORIGIN, loss=False)
    assert promote(found(SYNC), order).eligible == (B1, B2)
    for table in (ASYNC, ONE_OF_TWO):
        with pytest.raises(PromotionRefusedError, match="may lack"):
            promote(served(found(table)), order)


def test_who_was_not_in_a_table_that_may_have_served_is_no_longer_eligible() -> None:
    second = promote(found(SYNC), Promotion(after=1, leader=B2, holds=ORIGIN, loss=False))
    assert second.eligible == (B2,)
    third = Promotion(after=2, leader=B2, synchronous=(B3,), copies=2, holds=ORIGIN, loss=False)
    assert promote(second, third).eligible == (B2,)
    assert served(promote(second, third)).eligible == (B2, B3)


def test_one_of_several_that_a_promotion_names_is_not_eligible_before_its_leader_has_said_who_has_most() -> None:
    """B3 had everything under the first table. That B2 serves, and commits with B1 alone, it may never hear."""
    both = found(Table(number=1, leader=B1, synchronous=(B2, B3), copies=3))
    second = promote(both, Promotion(after=1, leader=B2, synchronous=(B1, B3), copies=2, holds=ORIGIN, loss=False))
    assert second.eligible == (B2,)
    with pytest.raises(PromotionRefusedError, match="may lack"):
        promote(second, Promotion(after=2, leader=B3, holds=ORIGIN, loss=False))


def test_an_accepted_loss_is_remembered_by_later_tables() -> None:
    lossy = promote(found(ASYNC), Promotion(after=1, leader=B2, holds=ORIGIN, loss=True))
    assert lossy.table.forgiven == 2
    assert next_table(lossy.table, Promotion(after=2, leader=B3, holds=ORIGIN, loss=False)).forgiven == 2


def test_who_does_not_hold_what_the_operator_saw_does_not_lead() -> None:
    ring = StaticRing(ASYNC)
    old = ring.until_served()
    ring.run(500)
    ring.isolate(old)
    beyond = Point(end_of(ring.nodes[2]).epoch, old.append())
    ring.kill(old)
    ring.assign(promoted(ring, ring.nodes[2], holds=beyond), ring.nodes[2])
    ring.run(6_000)
    assert not ring.nodes[2].heard(Leading)
    assert any("lacks" in each.reason for each in ring.nodes[2].heard(Strange))  # type: ignore[attr-defined]


def test_who_waits_to_be_told_again_refuses_former_leaders_and_does_not_lead() -> None:
    ring = StaticRing(ASYNC)
    old = ring.until_served()
    table = Table(number=2, leader=B2, forgiven=2)
    node = ring.nodes[2]
    node.feed(Assigned(table, waits=True))
    old.append()
    ring.run(8_000)
    assert not node.heard(Leading)
    assert node.log.end < old.log.end
    node.feed(Assigned(table))
    ring.assign(table)
    assert ring.until_served(by=2) is node


def test_who_surely_lacks_what_the_operator_saw_does_not_lead_also_below_what_it_has_kept() -> None:
    """There is no place left to compare, but epochs never fall along a log."""
    ring = StaticRing(ASYNC)
    old = ring.until_served()
    places = [old.append() for _ in range(10)]
    ring.run(500)
    ring.kill(old)
    node = ring.nodes[2]
    kept = end_of(node)
    assert drop_before(node.log, kept.position) == kept
    ring.assign(promoted(ring, node, holds=Point(next_epoch(1, kept.epoch, "other"), places[3])), node)
    ring.run(6_000)
    assert not node.heard(Leading)
    assert any("lacks" in each.reason for each in node.heard(Strange))  # type: ignore[attr-defined]
    ring.assign(promoted(ring, node, holds=Point(kept.epoch, places[3])), node)
    assert ring.until_served() is node


def test_a_leader_whose_disk_was_replaced_leads_nobody() -> None:
    ring = StaticRing(SYNC)
    old = ring.until_served()
    old.append()
    ring.run(500)
    ring.kill(old)
    old.lose_disk()
    ring.restart(old)
    ring.run(8_000)
    assert old.serves is None
    assert not ring.nodes[2].heard(Cut, MustRebuild)
    assert ring.nodes[2].log.end > old.log.end


def test_an_asynchronous_leader_that_was_told_what_it_lacks_before_it_led_does_not_lead() -> None:
    """Nobody is awaited who would keep it from acknowledging until it heard that."""
    ring = StaticRing(ASYNC)
    old = ring.until_served()
    old.append()
    ring.run(500)
    ring.kill(old)
    old.lose_disk()
    old.begin = lambda: old.feed(Registered(Registration(old.life)))  # type: ignore[method-assign]
    ring.restart(old)
    ring.run(100)
    old.events.clear()
    old.feed(Assigned(ASYNC))
    ring.run(8_000)
    assert not old.heard(Leading)
    assert old.core.closed(ring.now) is Closed.LACKING
    assert old.heard(Strange)
    ring.assign(promoted(ring, old, loss=True))
    assert ring.until_served(by=1) is old, "what was committed under the former table is given up"


def test_what_was_committed_under_a_former_table_keeps_nobody_from_leading() -> None:
    """An operator has accepted that loss, or the promotion saw more."""
    ring = StaticRing(ASYNC)
    old, new = ring.until_served(), ring.nodes[2]
    ring.isolate(new, *(each for each in ring.nodes.values() if each is not new))
    old.append()
    ring.run(500)
    ring.heal()
    ring.kill(old)
    ring.assign(promoted(ring, new, loss=True))
    ring.restart(old)
    assert ring.until_served(by=2) is new


def test_two_tables_of_one_number_are_told_apart() -> None:
    """H7: a mistake in the configuration of two brokers; neither ever takes the other's records."""
    ring = StaticRing(ASYNC)
    first = ring.until_served()
    second = ring.nodes[2]
    ring.kill(second)
    second.lose_disk()
    second.events = []
    ring.table = Table(number=1, leader=B2)
    ring.restart(second)
    ring.run(6_000)
    assert {node.id for node in ring.serving} == {1, 2}
    assert first.core.epoch != second.core.epoch
    assert table_number(first.core.epoch) == table_number(second.core.epoch) == 1
    ring.table = promoted(ring, first)
    ring.assign(ring.table)
    ring.run(6_000)
    assert [node.id for node in ring.serving] == [1]
    assert not second.heard(MustRebuild, Cut)  # It has answered for its own: nobody has given that up yet.
    ring.assign(promoted(ring, first, loss=True))
    ring.until_served(by=1)
    ring.run(3_000)
    assert second.heard(MustRebuild)


def test_who_has_nothing_takes_another_table_of_the_same_number() -> None:
    """Its settings were changed after the group had begun: it has nothing by which it could hold on to them."""
    ring = StaticRing(ASYNC)
    theirs, ours = ring.table, Table(number=1, leader=B2)
    late, full = ring.nodes[3], ring.until_served()
    ring.kill(late)
    late.lose_disk()
    ring.table = ours
    ring.restart(late)
    assert late.core.table == ours
    late.feed(Assigned(theirs))
    assert late.core.table == theirs
    full.append()
    ring.run(2_000)
    assert late.log.end == full.log.end > 0
    for node in (late, full):
        node.events.clear()
        node.feed(Assigned(ours))
        assert node.core.table == theirs
        assert node.heard(Strange)


def test_who_leads_keeps_its_table_before_its_barrier_is_in_the_log_too() -> None:
    ring = StaticRing(ASYNC)
    core = ring.nodes[1].core
    core.step(Tick(), ring.now)
    assert core.leads is not None
    assert ring.nodes[1].log.end == 0
    output = core.step(Assigned(Table(number=1, leader=B2)), ring.now)
    assert [type(event) for event in output.events] == [Strange]
    assert core.table == ASYNC


def test_a_leader_that_starts_again_is_another_epoch_of_its_table() -> None:
    ring = StaticRing(ASYNC)
    leader = ring.until_served()
    before = leader.core.epoch
    ring.restart(leader)
    ring.until_served()
    assert leader.core.epoch > before
    assert table_number(leader.core.epoch) == 1
    ring.run(500)
    assert {node.log.end for node in ring.nodes.values()} == {leader.log.end}


def test_an_epoch_of_a_table_is_above_all_that_were_seen_in_it() -> None:
    first = next_epoch(3, Epoch(0), "a")
    assert first_epoch(3) < first < next_epoch(3, first, "b") < first_epoch(4)
    assert next_epoch(3, first_epoch(3), "a") != next_epoch(3, first_epoch(3), "b")
    assert next_epoch((1 << 20) - 1, first, "a") < 1 << 63


def test_whoever_has_seen_a_table_refuses_earlier_leaders_after_a_crash_too() -> None:
    ring = StaticRing(ASYNC)
    old = ring.until_served()
    follower = ring.nodes[2]
    ring.isolate(old)
    ring.assign(promoted(ring, ring.nodes[3]), follower)
    ring.table = ASYNC
    ring.cut.clear()
    ring.restart(follower)
    assert follower.core.epoch == first_epoch(2)
    end = old.append()
    ring.run(1_000)
    assert follower.log.end < end
    assert old.serves is None


def test_a_store_that_does_not_work_ends_the_leadership_until_it_does() -> None:
    ring = StaticRing(ASYNC)
    leader = ring.until_served()
    leader.feed(Health(healthy=False))
    assert leader.serves is None
    ring.run(200)
    assert leader.serves is None
    leader.feed(Health())
    assert ring.until_served() is leader


def test_an_orderly_stop_ends_when_everything_is_answered() -> None:
    ring = StaticRing(SYNC)
    leader = ring.until_served()
    ring.run(500)
    ring.nodes[2].slow = True
    end = leader.append()
    leader.feed(Drain())
    assert leader.core.closed(ring.now) is Closed.STOPPING
    ring.run(100)
    assert not leader.heard(Drained)
    ring.nodes[2].flush()
    ring.run(100)
    assert leader.heard(Drained)
    assert leader.committed == end


def test_an_input_of_another_mode_is_a_mistake_of_the_caller() -> None:
    ring = StaticRing(ASYNC)
    with pytest.raises(InvariantError, match="another mode"):
        ring.nodes[1].feed(HandOver())


@pytest.mark.parametrize(
    "fields",
    [
        {"number": 0},
        {"leader": B1, "synchronous": (B1,)},
        {"synchronous": (B2,), "copies": 3},
        {"synchronous": (B2,), "copies": 1},
        {"synchronous": (B2, B2), "copies": 3},
        {"forgiven": 2},
    ],
)
def test_a_table_that_cannot_be_followed_is_none(fields: dict[str, object]) -> None:
    with pytest.raises(InvariantError):
        Table(**{"number": 1, "leader": B1, **fields})  # type: ignore[arg-type]


def test_the_named_leader_waits_for_room_for_its_barrier() -> None:
    ring = StaticRing(ASYNC)
    named = ring.nodes[1]
    named.feed(Health(barrier=False))
    ring.run(3_000)
    assert not named.heard(Leading)
    named.feed(Health())
    assert ring.until_served() is named


def test_a_named_leader_whose_barrier_found_no_room_begins_again() -> None:
    ring = StaticRing(ASYNC)
    named = ring.nodes[1]
    named.cramped = True
    ring.run(100)
    assert named.heard(Leading)
    named.feed(Health(barrier=False))
    ring.run(100)
    assert named.core.leads is None
    named.cramped = False
    named.feed(Health())
    assert ring.until_served() is named
