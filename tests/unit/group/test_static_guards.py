"""Static mode: what a replica does not do, whoever says what in which order."""

from dataclasses import replace

import pytest

from logherd.controller.values import BrokerId, Registration
from logherd.group.inputs import Assigned, Drain, Health, Received, Registered, Tick
from logherd.group.messages import Presence
from logherd.group.output import (
    Behind,
    Closed,
    Drained,
    Draining,
    Fenced,
    Following,
    Leading,
    MustRebuild,
    Promise,
    Strange,
)
from logherd.group.table import Promotion, Table, first_epoch, found, next_table, promote
from logherd.model.names import Epoch, Position
from logherd.raft.memory import MemoryLog
from logherd.replication.epochs import ORIGIN, Point
from logherd.replication.messages import (
    AppendAck,
    ClusterId,
    Envelope,
    Heartbeat,
    HeartbeatAck,
    ReadAsk,
    ReadGrant,
    ReplicaId,
    Stale,
)
from unit.group.ring import Replica, StaticReplica, StaticRing

B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
ASYNC = Table(number=1, leader=B1, address="b1:10911")
SYNC = Table(number=1, leader=B1, synchronous=(B2, B3), copies=3)


def end_of(node: Replica) -> Point:
    return node.log.epochs.point_at(node.log.end)


def promoted(ring: StaticRing, node: Replica, *, holds: Point | None = None, loss: bool = False) -> Table:
    order = Promotion(after=ring.table.number, leader=BrokerId(node.id), holds=holds or end_of(node), loss=loss)
    return next_table(ring.table, order)


def strange(node: Replica) -> list[str]:
    return [event.reason for event in node.heard(Strange) if isinstance(event, Strange)]


class Unnamed(StaticReplica):
    """A process that has no number yet."""

    def begin(self) -> None:
        self.feed(Tick())
        self.feed(Assigned(self.ring.table))


def test_a_restart_does_not_shorten_what_the_former_leader_may_rely_on() -> None:
    """It knows the table that names it, and may have answered the leader of the one before a moment ago."""
    ring = StaticRing(SYNC)
    old = ring.until_served()
    ring.run(500)
    named = ring.nodes[2]
    table = promoted(ring, named)
    ring.isolate(named)
    ring.assign(table, named)
    assert named.kept.epoch == first_epoch(table.number)
    ring.restart(named)
    began = ring.now
    while named.serves is None:
        ring.run(1)
        assert ring.leader in (old, named, None)
    assert ring.now - began >= ring.options.bound_ms


def test_a_leader_that_meets_what_it_has_lost_serves_no_more() -> None:
    """It could begin alone, because it waits for no copy."""
    ring = StaticRing(ASYNC)
    old = ring.until_served()
    old.append()
    ring.run(500)
    ring.kill(old)
    old.lose_disk()
    ring.isolate(old)
    ring.restart(old)
    ring.until_served(by=old.id)
    ring.heal()
    ring.run(1_000)
    assert old.heard(Fenced)
    assert old.serves is None
    ring.run(8_000)
    assert old.serves is None
    assert old.core.closed(ring.now) is Closed.LACKING, "and it says so as long as its table is in force"
    follower = ring.nodes[2]
    assert follower.core.closed(ring.now) is Closed.NOT_SERVING
    ring.assign(promoted(ring, follower))
    ring.until_served(by=follower.id)
    assert old.core.closed(ring.now) is Closed.NOT_SERVING


def test_nobody_leads_without_a_number_of_its_own() -> None:
    ring = StaticRing(ASYNC)
    ring.run(500)
    ring.nodes = {1: Unnamed(ring, 1, ring.nodes[1].log)}
    ring.nodes[1].start()
    ring.run(10_000)
    assert not ring.nodes[1].heard(Leading)
    ring.nodes[1].feed(Registered(Registration(7)))
    ring.until_served()


def test_who_is_about_to_stop_begins_no_leadership() -> None:
    ring = StaticRing(ASYNC)
    ring.until_served()
    ring.run(500)
    named = ring.nodes[2]
    named.feed(Drain())
    assert named.heard(Drained)
    ring.assign(promoted(ring, named))
    ring.run(10_000)
    assert not named.heard(Leading)


def test_who_hears_a_leader_that_its_table_does_not_name_tells_that_once() -> None:
    """Two were promoted by mistake: until somebody looks each asks the others several times a second to follow it."""
    ring = StaticRing(ASYNC)
    ring.until_served()
    ring.run(500)
    ring.kill(ring.nodes[1])
    for node in (ring.nodes[2], ring.nodes[3]):
        ring.assign(promoted(ring, node), node)
        ring.table = ASYNC
    ring.run(60_000)
    for node in (ring.nodes[2], ring.nodes[3]):
        assert len([reason for reason in strange(node) if "but table 2 names" in reason]) == 1


def test_who_lacks_what_its_table_says_tells_that_once() -> None:
    ring = StaticRing(ASYNC)
    ring.until_served()
    ring.run(500)
    named = ring.nodes[2]
    ring.assign(promoted(ring, named, holds=Point(Epoch(end_of(named).epoch + 1), Position(named.log.end + 100))))
    ring.run(10_000)
    assert len([reason for reason in strange(named) if "lacks" in reason]) == 1


@pytest.mark.parametrize("what", ["cluster", "process", "name"])
def test_a_message_that_is_for_somebody_else_is_named_and_changes_nothing(what: str) -> None:
    ring = StaticRing(ASYNC)
    leader = ring.until_served()
    ring.run(500)
    node = ring.nodes[2]
    cluster = ClusterId("another") if what == "cluster" else node.core.cluster
    to = ReplicaId("2.0000000000000009") if what == "process" else node.core.identity
    sender = ReplicaId("b1") if what == "name" else leader.core.identity
    before, epoch = len(strange(node)), node.core.epoch
    out = node.feed(Received(Envelope(cluster, sender, to, Epoch(epoch + 1), Heartbeat(1, Position(0)))))
    reason = {"cluster": f"of {cluster}", "process": "for another process", "name": "is no process of a broker"}[what]
    assert strange(node)[before:] == [reason]
    assert node.core.epoch == epoch
    assert HeartbeatAck not in [type(envelope.body) for envelope in (*out.messages, *out.held)]


def test_a_table_of_the_past_and_one_that_is_told_again_change_nothing() -> None:
    ring = StaticRing(ASYNC)
    ring.until_served()
    ring.run(500)
    first, named = ring.table, ring.nodes[2]
    ring.assign(promoted(ring, named))
    leader = ring.until_served(by=2)
    epoch, events = leader.core.leads, len(leader.events)
    for table in (ring.table, first):
        leader.feed(Assigned(table))
        ring.run(100)
    assert leader.core.leads == epoch
    assert len(leader.events) == events


def test_only_a_store_that_does_not_work_ends_a_leadership() -> None:
    ring = StaticRing(ASYNC)
    leader = ring.until_served()
    epoch = leader.core.leads
    leader.feed(Health(space=False, room=False, barrier=False))
    leader.feed(Health())
    assert (leader.serves, leader.heard(Fenced)) == (epoch, [])


def test_another_number_ends_the_leadership_of_the_former_one() -> None:
    ring = StaticRing(ASYNC)
    leader = ring.until_served()
    epoch, number = leader.core.leads, Registration(leader.life)
    leader.feed(Registered(number))
    assert leader.serves == epoch
    leader.feed(Registered(Registration(number + 1)))
    assert leader.core.leads is None
    assert leader.heard(Fenced) == [Fenced(epoch, "this process is registered anew")]  # type: ignore[arg-type]
    ring.until_served()
    assert leader.core.leads is not None
    assert leader.core.leads > epoch  # type: ignore[operator]


def test_answers_of_an_earlier_leadership_count_for_nothing() -> None:
    ring = StaticRing(SYNC)
    leader = ring.until_served()
    earlier = leader.core.epoch
    leader.feed(Health(healthy=False))
    leader.feed(Health())
    ring.until_served()
    ring.run(500)
    assert leader.core.epoch > earlier
    ring.isolate(leader)
    end = leader.append()
    for epoch, counts in ((earlier, False), (leader.core.epoch, True)):
        for follower in (ring.nodes[2], ring.nodes[3]):
            ask, answer = ReadAsk(1), AppendAck(1, end, end)
            identity, cluster = leader.core.identity, leader.core.cluster
            leader.feed(Received(Envelope(cluster, follower.core.identity, identity, epoch, answer)))
            out = leader.feed(Received(Envelope(cluster, follower.core.identity, identity, epoch, ask)))
            assert (ReadGrant in [type(envelope.body) for envelope in out.messages]) is counts
        assert (leader.committed == end) is counts


def test_only_the_leader_that_is_followed_gives_leave_to_read() -> None:
    ring = StaticRing(ASYNC)
    leader = ring.until_served()
    ring.run(500)
    node, grant = ring.nodes[2], ReadGrant(ring.now, Position(0))
    epoch = node.core.epoch
    ring.run(40)
    for sender, told in ((ring.nodes[3].core.identity, False), (leader.core.identity, True)):
        node.feed(Received(Envelope(node.core.cluster, sender, node.core.identity, epoch, grant)))
        assert (node.core.readable(ring.now) is not None) is told


def test_a_leader_that_hears_of_another_one_in_its_own_epoch_says_so_and_goes_on() -> None:
    ring = StaticRing(ASYNC)
    leader = ring.until_served()
    sender = ReplicaId("1.0000000000000009")
    epoch = leader.core.epoch
    beat = Heartbeat(1, Position(0))
    leader.feed(Received(Envelope(leader.core.cluster, sender, leader.core.identity, epoch, beat)))
    assert strange(leader) == [f"leads epoch {epoch}, as does this process"]
    assert leader.serves == epoch


def test_who_is_named_and_must_wait_sends_nobody_to_itself() -> None:
    ring = StaticRing(SYNC)
    ring.until_served()
    ring.run(500)
    named = ring.nodes[2]
    ring.assign(promoted(ring, named))
    assert named.core.leads is None
    assert named.heard(Following)[-1] == Following(first_epoch(2), None, "")


def test_a_table_that_is_over_names_nobody_and_its_successor_is_followed_unseen() -> None:
    ring = StaticRing(ASYNC)
    ring.until_served()
    ring.run(500)
    untold = ring.nodes[3]
    ring.assign(promoted(ring, ring.nodes[2]), ring.nodes[1], ring.nodes[2])
    leader = ring.until_served(by=2)
    end = leader.append()
    ring.run(4_000)
    assert untold.heard(Following)[-1] == Following(leader.core.epoch, None, "")
    assert untold.log.end == end


def test_what_was_committed_since_a_loss_was_accepted_is_not_given_up_with_it() -> None:
    ring = StaticRing(ASYNC)
    ring.until_served()
    ring.run(500)
    ring.assign(promoted(ring, ring.nodes[2], loss=True))
    second = ring.until_served(by=2)
    ring.run(500)
    ring.isolate(ring.nodes[1])
    end = second.append()
    ring.run(500)
    lacking, holder = ring.nodes[1], ring.nodes[3]
    assert holder.committed == end
    ring.kill(second)
    ring.heal()
    ring.assign(promoted(ring, lacking))
    assert ring.table.forgiven == 2
    assert ring.until_served(by=1) is lacking
    ring.run(5_000)
    assert not holder.heard(MustRebuild)
    assert holder.log.end == end
    assert len([reason for reason in strange(holder) if "nobody has accepted that loss" in reason]) == 1


def test_after_an_accepted_loss_only_who_leads_then_is_known_to_have_everything() -> None:
    order = Promotion(after=1, leader=B2, synchronous=(B3,), copies=2, holds=ORIGIN, loss=True)
    assert promote(found(SYNC), order).eligible == (B2,)


def test_a_leader_that_is_about_to_stop_says_once_that_it_takes_no_more() -> None:
    ring = StaticRing(ASYNC)
    leader = ring.until_served()
    for _ in range(2):
        leader.feed(Drain())
    assert leader.heard(Draining) == [Draining(leader.core.epoch, None)]


def test_a_synchronous_follower_that_is_about_to_stop_is_named_at_once() -> None:
    ring = StaticRing(SYNC)
    leader = ring.until_served()
    ring.run(500)
    ring.nodes[3].feed(Drain())
    ring.run(100)
    assert leader.heard(Behind)[-1] == Behind(leader.core.epoch, (B3,))


def test_a_leader_that_has_met_no_follower_commits_nothing() -> None:
    ring = StaticRing(SYNC)
    alone = StaticReplica(ring, 1, MemoryLog())
    ring.nodes = {1: alone}
    alone.start()
    ring.run(5_000)
    assert alone.core.leads is not None
    assert (alone.committed, alone.serves) == (0, None)


@pytest.mark.parametrize("table", [ASYNC, SYNC])
@pytest.mark.parametrize("body", [Presence(ORIGIN), Heartbeat(1, Position(0)), Stale()])
@pytest.mark.parametrize("epoch", [first_epoch(2) - 1, (1 << 63) - 1, first_epoch((1 << 20) - 1)])
@pytest.mark.parametrize("number", [1, 2])
def test_an_epoch_to_which_no_group_has_come_is_not_kept(table: Table, body: object, epoch: int, number: int) -> None:
    """Kept, it would end the leader at each start, or keep everybody from leading."""
    ring = StaticRing(table)
    leader = ring.until_served()
    ring.run(500)
    hurt, said, epochs = ring.nodes[number], ring.nodes[3].core.identity, leader.core.epoch
    hurt.feed(Received(Envelope(hurt.core.cluster, said, hurt.core.identity, Epoch(epoch), body)))
    assert strange(hurt) == [f"says epoch {epoch}, and here it is {epochs}"]
    assert hurt.kept.epoch == epochs
    ring.restart(hurt)
    assert ring.until_served(by=1) is leader
    end = leader.append()
    ring.run(1_000)
    assert [node.committed for node in ring.nodes.values()] == [end] * 3


@pytest.mark.parametrize("behind", [1, 1 << 16])
def test_whoever_was_away_for_many_promotions_is_told_of_all(behind: int) -> None:
    ring = StaticRing(ASYNC)
    ring.until_served()
    ring.run(500)
    away = ring.nodes[3]
    table = replace(ring.table, number=1 + behind)
    ring.assign(table, ring.nodes[1], ring.nodes[2])
    leader = ring.until_served(by=1)
    ring.run(500)
    end = leader.append()
    ring.run(500)
    assert away.core.epoch == leader.core.epoch
    assert away.log.end == end


def test_a_leader_whose_table_has_no_epoch_left_says_so_and_another_table_has_one() -> None:
    ring = StaticRing(ASYNC)
    leader = ring.until_served()
    ring.run(500)
    ring.kill(leader)
    leader.kept = Promise(Epoch(first_epoch(2) - 1))
    ring.restart(leader)
    ring.run(10_000)
    assert strange(leader)[-1] == "table 1 has no epoch left: promote again"
    assert leader.core.closed(ring.now) is Closed.LACKING
    ring.assign(promoted(ring, leader))
    assert ring.until_served(by=1) is leader


def test_what_the_leader_itself_has_not_flushed_is_committed_nowhere() -> None:
    ring = StaticRing(SYNC)
    leader = ring.until_served()
    ring.run(500)
    leader.slow = True
    end = leader.append()
    ring.run(500)
    assert ring.nodes[2].log.end == end
    assert [node.core.commit < end for node in ring.nodes.values()] == [True] * 3
    leader.flush()
    ring.run(500)
    assert [node.core.commit for node in ring.nodes.values()] == [end] * 3


def test_r1_a_leader_relies_on_a_follower_for_three_quarters_of_what_that_one_waits_out() -> None:
    ring = StaticRing(SYNC)
    ring.until_served()
    ring.run(500)
    leader = ring.nodes[1].core.leading
    assert leader is not None
    since = min(leader._heard_at(each) for each in (B2, B3))
    leased = [ms for ms in range(ring.options.bound_ms + 1) if leader.leased(since + ms)]
    assert leased == [*range(2_250)]
    assert ring.options.bound_ms == 3_000


def test_who_hears_while_it_leads_that_it_lacks_what_was_committed_under_its_table_leads_no_more() -> None:
    ring = StaticRing(ASYNC)
    leader = ring.until_served()
    ring.run(500)
    epoch, core = leader.core.epoch, leader.core
    lacking = Point(epoch, Position(leader.log.end + 1))
    sender = ring.nodes[2].core.identity
    leader.feed(Received(Envelope(core.cluster, sender, core.identity, epoch, Presence(lacking))))
    fenced = leader.heard(Fenced)[-1]
    assert isinstance(fenced, Fenced)
    assert fenced.cause.endswith("which was committed under this table and is not here")
    ring.run(2 * ring.options.bound_ms)
    assert (leader.serves, core.closed(ring.now)) == (None, Closed.LACKING)


def test_r2_who_is_bound_to_a_leader_does_not_answer_that_of_a_later_table_before_its_time() -> None:
    """The next leader is bound to nobody, for it was away; but whoever follows it is."""
    ring = StaticRing(replace(SYNC, copies=2))
    old = ring.until_served()
    ring.run(500)
    following, bound = ring.nodes[2], ring.nodes[3]
    ring.isolate(following)
    ring.run(ring.options.bound_ms + 100)
    assert old.serves is not None
    ring.heal()
    ring.isolate(old)
    table = Table(number=2, leader=B2, synchronous=(B3,), copies=2, holds=end_of(following))
    ring.assign(table, following, bound)
    both = 0
    for _ in range(2 * ring.options.bound_ms):
        ring.run(1)
        both += old.serves is not None and following.serves is not None
    assert both == 0
    assert (old.serves, following.serves is not None) == (None, True)
