"""R1-R5: leases, epochs, and what must be durable before an answer leaves."""

import pytest

from logherd.controller.commands import Release
from logherd.controller.reports import Granted, Report, RoleView
from logherd.controller.values import BrokerId, Registration
from logherd.group.inputs import Appended, Drain, Flushed, Health, Heard, Noticed, Received, Tick
from logherd.group.messages import Presence, Summons
from logherd.group.output import Closed, Fenced, Following, Promise, Serving, Strange
from logherd.group.seat import Process, replica_of
from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch, Position
from logherd.raft.memory import MemoryLog
from logherd.raft.record import Kind
from logherd.replication.epochs import ORIGIN
from logherd.replication.messages import (
    AppendAck,
    ClusterId,
    Envelope,
    Heartbeat,
    HeartbeatAck,
    ReplicaId,
    Stale,
)
from unit.group.stage import Node, Stage


def followers_of(stage: Stage) -> list[Node]:
    leader = stage.run_until_served()
    return [node for node in stage.nodes.values() if node is not leader]


def heartbeat(to: Node, sender: str, epoch: int) -> Received:
    """A leader's heartbeat, as if it came over the network."""
    standing = to.core.ground.standing
    body = Heartbeat(1, to.core.ground.commit)
    return Received(Envelope(standing.cluster, ReplicaId(sender), standing.identity, Epoch(epoch), body))


def test_a_process_starts_fenced() -> None:
    stage = Stage()
    assert [node.serves for node in stage.nodes.values()] == [None, None, None]


@pytest.mark.parametrize("epoch", [(1 << 20) + 2, (1 << 63) - 1])
def test_an_epoch_to_which_no_group_has_come_is_not_kept(epoch: int) -> None:
    """The controllers register nobody who says that it has seen it."""
    stage = Stage()
    leader = stage.run_until_served()
    for node in stage.nodes.values():
        known = node.core.ground.epoch
        node.feed(heartbeat(node, "9.0000000000000063", known + epoch - 1))
        assert node.core.ground.epoch == known
        assert node.heard(Strange)[-1] == Strange(
            ReplicaId("9.0000000000000063"), f"says epoch {known + epoch - 1}, and here it is {known}"
        )
    assert stage.leader is leader


def test_r1_service_ends_with_the_first_input_behind_the_lease_also_if_that_is_only_an_append() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    epoch = leader.core.epoch
    leader.write(epoch, b"record")
    stage.now += 4_000
    output = leader.feed(Appended())
    assert output.events[0] == Fenced(epoch, "the lease is over")
    assert leader.core.serving(stage.now) is None


def test_nothing_is_answered_in_an_epoch_that_is_not_durable() -> None:
    stage = Stage()
    follower = followers_of(stage)[0]
    stage.run(100)
    follower.slow = True
    output = follower.feed(heartbeat(follower, "9.0000000000000063", 7))
    assert output.keep == Promise(Epoch(7))
    assert output.flush is not None
    assert [type(envelope.body) for envelope in output.held] == [HeartbeatAck]
    assert HeartbeatAck not in [type(envelope.body) for envelope in output.messages]
    later = follower.feed(heartbeat(follower, "9.0000000000000063", 7))
    assert [type(envelope.body) for envelope in later.held] == [HeartbeatAck]
    follower.flush()
    assert follower.kept_epoch == Epoch(7)
    after = follower.feed(heartbeat(follower, "9.0000000000000063", 7))
    assert not after.held
    assert HeartbeatAck in [type(envelope.body) for envelope in after.messages]


def test_records_are_acknowledged_only_when_they_are_flushed() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    stage.run(500)
    slow = followers_of(stage)[0]
    slow.slow = True
    end = leader.append()
    stage.run(50)
    assert slow.log.end == end
    assert leader.committed < end
    acknowledged = [m.body.durable for o in slow.outputs for m in o.messages if isinstance(m.body, AppendAck)]
    assert max(acknowledged) < end
    slow.flush()
    stage.run(2)
    assert leader.committed == end


def test_a_leaders_own_flush_counts() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    stage.run(500)
    leader.slow = True
    end = leader.append()
    stage.run(50)
    assert all(node.log.end == end for node in stage.nodes.values())
    assert leader.committed < end
    leader.flush()
    assert leader.committed == end


def test_a_learner_shows_only_what_it_has_flushed_itself() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    learner, end = stage.slow_learner(leader)
    assert learner.core.ground.commit == leader.committed == end
    assert learner.committed < end
    learner.flush()
    assert learner.committed == end


def test_what_is_flushed_and_not_committed_is_not_shown_with_what_is() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    stage.run(500)
    one, other = followers_of(stage)
    first = leader.append()
    stage.run(1)
    other.slow = True
    later = leader.append()
    stage.run(400)
    assert leader.committed == one.committed == first
    assert leader.log.end == one.log.end == later
    other.flush()
    stage.run(400)
    assert leader.committed == one.committed == later


def test_an_epoch_once_seen_outlives_the_process() -> None:
    stage = Stage()
    follower = followers_of(stage)[0]
    follower.feed(heartbeat(follower, "9.0000000000000063", 7))
    again = stage.restart(follower)
    stage.run(50)
    answer = again.feed(heartbeat(again, "1.0000000000000001", 6))
    assert [type(envelope.body) for envelope in answer.messages] == [Stale]
    assert {envelope.epoch for envelope in answer.messages} == {Epoch(7)}


def test_an_earlier_leader_is_refused_and_learns_why() -> None:
    stage = Stage()
    first = stage.run_until_served()
    stage.isolate(first)
    while stage.leader in (None, first):
        stage.run(1)
    stage.cut.clear()
    assert first.core.leading is not None
    stage.run(300)
    assert first.core.leading is None
    assert first.core.ground.epoch == Epoch(2)
    stage.heal()
    stage.run(1_000)
    assert first.log.epochs.last_epoch == Epoch(2)


def test_service_ends_with_the_lease_and_nothing_is_committed_after_it() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    stage.run(500)
    stage.desk.deaf |= {1, 2, 3}
    while leader.serves is not None:
        stage.run(1)
    end = leader.append()
    stage.run(200)
    assert leader.heard(Fenced) == [Fenced(Epoch(1), "the lease is over")]
    assert leader.committed < end
    stage.desk.deaf.clear()
    stage.run(1_000)
    if leader.core.leading is not None:
        assert leader.committed == end


def test_a_lease_that_is_renewed_in_time_resumes_service_in_the_same_epoch() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    view = stage.desk.office.renew(leader.core._liaison._report(), stage.now, heard=stage.now)
    assert isinstance(view, Granted)
    stage.desk.deaf |= {1, 2, 3}
    while leader.serves is not None:
        stage.run(1)
    end = leader.append()
    stage.run(30)
    leader.feed(Heard(view, stage.now))
    leader.feed(Tick())
    assert leader.serves == Epoch(1)
    assert leader.committed == end
    assert [type(event) for event in leader.heard(Serving, Fenced)] == [Serving, Fenced, Serving]


def test_a_lease_of_another_process_or_of_an_earlier_epoch_is_not_taken() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    grant = stage.desk.office.renew(leader.core._liaison._report(), stage.now, heard=stage.now)
    assert isinstance(grant, Granted)
    follower = followers_of(stage)[0]
    follower.feed(Heard(grant, stage.now))
    assert follower.core.leading is None
    leader.feed(heartbeat(leader, "9.0000000000000063", 7))
    assert leader.heard(Fenced)
    leader.feed(Heard(grant, stage.now))
    assert leader.core.leading is None
    assert leader.core.serving(stage.now) is None


def test_messages_for_others_are_dropped_by_name() -> None:
    stage = Stage()
    follower = followers_of(stage)[0]
    standing = follower.core.ground.standing
    body = Heartbeat(1, follower.core.ground.commit)
    for envelope in (
        Envelope(standing.cluster, ReplicaId("1.x"), ReplicaId("2.ffffffffffffffff"), Epoch(9), body),
        Envelope(ClusterId("another"), ReplicaId("1.x"), standing.identity, Epoch(9), body),
    ):
        output = follower.feed(Received(envelope))
        assert [type(event) for event in output.events] == [Strange]
        assert not output.messages
    assert follower.core.ground.epoch == Epoch(1)


def test_who_presents_itself_under_this_brokers_id_is_not_served() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    standing = leader.core.ground.standing
    twin = replica_of(Process(standing.me.broker_id, type(standing.me.registration)(99)))
    output = leader.feed(Received(Envelope(standing.cluster, twin, standing.identity, Epoch(1), Presence(ORIGIN))))
    assert [type(event) for event in output.events] == [Strange]


def test_a_follower_tells_whom_it_follows_and_where_that_is() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    stage.run(1_000)
    for node in followers_of(stage):
        assert node.heard(Following)[-1] == Following(Epoch(1), leader.core.ground.me.broker_id, f"b{leader.id}:10911")


def test_a_hint_of_news_is_followed_at_once_and_not_more_often_than_it_may_be() -> None:
    stage = Stage()
    follower = followers_of(stage)[0]
    now = stage.now + 50
    asked = [len(follower.core.step(Noticed(), now + wait).asks) for wait in (0, 1, 5, 10)]
    assert asked == [1, 0, 0, 1]


def test_a_leader_that_the_controllers_have_not_answered_for_two_beats_asks_often_while_its_lease_still_runs() -> None:
    """As when the leading controller has died behind a guardian that keeps its port: a question there costs a second,
    and the next one may come before the others have elected."""
    stage = Stage()
    leader = stage.run_until_served()
    stage.run(1_000)

    def asks(after: int, until: int) -> list[int]:
        return [
            now
            for now in range(after, until, 10)
            if any(isinstance(ask, Report) for ask in leader.core.step(Tick(), stage.now + now).asks)
        ]

    assert len(asks(0, 1_000)) <= 3
    assert len(asks(1_000, 2_000)) >= 9
    assert leader.core.ground.holder.until is not None
    assert leader.core.ground.holder.until > stage.now + 2_000


def test_a_flush_that_was_never_asked_for_is_an_error_of_the_shell() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    with pytest.raises(InvariantError, match="a flush ends after its write"):
        leader.core.step(Flushed(10_000), stage.now)


def test_a_summons_of_a_later_epoch_is_answered_at_once() -> None:
    stage = Stage()
    follower = followers_of(stage)[0]
    standing = follower.core.ground.standing
    leader = ReplicaId("9.0000000000000063")
    output = follower.feed(Received(Envelope(standing.cluster, leader, standing.identity, Epoch(5), Summons())))
    assert [(envelope.to, type(envelope.body)) for envelope in output.messages] == [(leader, Presence)]
    assert follower.core.ground.epoch == Epoch(5)


def test_service_is_over_at_the_end_of_the_lease_though_nothing_has_happened_since() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    until = leader.core.ground.holder.until
    assert until is not None
    assert leader.core.serving(until - 1) == Epoch(1)
    assert leader.core.serving(until) is None
    assert leader.core.closed(until) is Closed.NOT_SERVING


def test_a_replica_is_in_the_epoch_of_its_last_record_at_least() -> None:
    stage = Stage()
    log = MemoryLog()
    log.append(Kind.DATA, Epoch(5), b"record")
    assert Node(stage, 1, log).core.ground.epoch == Epoch(5)


def granted(epoch: int, registration: Registration, *, master: int = 1) -> Granted:
    view = RoleView(
        epoch=Epoch(epoch), master=BrokerId(master), master_address="b1:10911", master_registration=registration,
        version=9, members=(BrokerId(1),), processes=(registration,), learners=(), min_in_sync=1,
    )  # fmt: skip
    return Granted(view=view, holder_ms=1_000, hand_over=None)


@pytest.mark.parametrize("granted_to", ["this process", "an earlier process", "another broker"])
def test_only_a_lease_of_this_very_process_is_taken(granted_to: str) -> None:
    stage = Stage()
    follower = next(node for node in followers_of(stage) if node.id != 1)
    mine = stage.registration(follower)
    registration = Registration(mine - 1) if granted_to == "an earlier process" else mine
    master = 1 if granted_to == "another broker" else follower.id
    follower.feed(Heard(granted(7, registration, master=master), stage.now))
    assert (follower.core.leading is not None) == (granted_to == "this process")
    assert follower.core.ground.epoch == Epoch(7)


def test_a_lease_in_an_epoch_before_one_that_the_others_know_is_not_taken() -> None:
    stage = Stage()
    follower = followers_of(stage)[0]
    follower.feed(heartbeat(follower, "9.0000000000000063", 7))
    follower.feed(Heard(granted(6, stage.registration(follower), master=follower.id), stage.now))
    assert follower.core.leading is None
    assert follower.core.ground.epoch == Epoch(7)


def test_a_commit_position_never_falls_and_never_passes_the_end() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    ground = leader.core.ground
    end = ground.commit
    for position in (end, Position(0)):
        assert not ground.commit_to(position)
        assert ground.commit == end
    with pytest.raises(InvariantError):
        ground.commit_to(Position(ground.log.end + 1))


def test_what_an_earlier_leader_left_is_committed_only_with_the_barrier() -> None:
    stage = Stage()
    first = stage.run_until_served()
    stage.run(500)
    others = followers_of(stage)
    stage.cut |= {(node.id, first.id) for node in others}
    left = first.append()
    stage.run(5)
    assert [node.log.end for node in others] == [left, left]
    stage.kill(first)
    while not any(node.core.leading for node in others):
        stage.run(1)
    leader, slow = sorted(others, key=lambda node: node.core.leading is None)
    leading = leader.core.leading
    assert leading is not None
    slow.slow = True

    def flushed() -> Position:
        state = leading.follower_state(BrokerId(slow.id))
        return state[1] if state is not None else Position(0)

    while flushed() < left:
        stage.run(1)
        if slow.log.end == left:
            slow.flush()
    assert leader.log.end > left
    assert leader.core.ground.commit < left
    slow.slow = False
    slow.flush()
    stage.run(400)
    assert leader.core.ground.commit == leader.log.end


@pytest.mark.parametrize("why", [Drain(), Health(healthy=False)], ids=["it is about to stop", "its store is broken"])
def test_who_cannot_lead_gives_a_lease_back_and_does_not_take_it_when_it_comes_again(why: Drain | Health) -> None:
    stage = Stage()
    follower = followers_of(stage)[0]
    follower.feed(why)
    grant = granted(7, stage.registration(follower), master=follower.id)
    follower.feed(Heard(grant, stage.now))
    assert follower.core.leading is None
    assert [ask.epoch for ask in follower.asks if isinstance(ask, Release)] == [Epoch(7)]
    assert follower.core.ground.holder.resigned == Epoch(7)
    follower.feed(Health())
    follower.feed(Heard(grant, stage.now))
    assert follower.core.leading is None
