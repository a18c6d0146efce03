"""What a follower takes from whoever leads, what it never gives up, and when it presents itself."""

import pytest

from logherd.controller.reports import Report
from logherd.controller.values import BrokerId, Registration
from logherd.group.attendance import Follower
from logherd.group.inputs import Drain, Health, Linked, Received, Unlinked
from logherd.group.messages import Presence
from logherd.group.options import GroupOptions
from logherd.group.output import Drained, Following, MustRebuild, Output
from logherd.group.seat import Process, replica_of
from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch, Position
from logherd.raft.memory import MemoryLog
from logherd.raft.record import Kind
from logherd.replication.epochs import ORIGIN, Point
from logherd.replication.log import Image, Span
from logherd.replication.messages import (
    Append,
    AppendAck,
    CopyAck,
    CopyChunk,
    Envelope,
    Heartbeat,
    HeartbeatAck,
    ReadAsk,
    ReplicaId,
)
from logherd.replication.sender import ShipOptions
from unit.group.stage import Node, Stage

STRANGER = ReplicaId("9.0000000000000063")
LATER = Epoch(7)
"""An epoch that nobody here has led."""


def begun(options: GroupOptions | None = None) -> tuple[Stage, Node, Node]:
    """A leader, and one who has everything that is committed: several records, all of them of the first epoch."""
    stage = Stage(options=options)
    leader = stage.run_until_served()
    stage.run(500)
    for _ in range(3):
        leader.append()
        stage.run(50)
    stage.run(400)
    follower = next(node for node in stage.nodes.values() if node is not leader)
    assert follower.committed == follower.log.end == leader.log.end
    return stage, leader, follower


def tell(node: Node, body: object, sender: ReplicaId, epoch: Epoch) -> Output:
    """A message, as if it came over the network."""
    standing = node.core.ground.standing
    return node.feed(Received(Envelope(standing.cluster, sender, standing.identity, epoch, body)))


def said(node: Node, kind: type) -> list[object]:
    """All messages of this kind that it has sent, oldest first."""
    return [envelope.body for output in node.outputs for envelope in output.messages if isinstance(envelope.body, kind)]


def rewritten(log: MemoryLog) -> MemoryLog:
    """The same records, of which all but the first are of a later epoch."""
    other = MemoryLog()
    for number, record in enumerate(log.records(Position(0), log.end)):
        other.append(Kind.DATA, Epoch(record.epoch + (number > 0)), record.body)
    assert other.end == log.end
    return other


# ---- what is committed here is never given up ---------------------------------------------------------------------


def test_records_that_are_committed_here_may_be_sent_again() -> None:
    _, leader, follower = begun()
    again = Append(1_000, leader.log.read(Position(0), 1 << 20), leader.committed)
    out = tell(follower, again, leader.core.identity, leader.core.epoch)
    assert not follower.heard(MustRebuild)
    assert [envelope.body for envelope in out.messages] == [AppendAck(1_000, follower.log.end, follower.log.end)]


@pytest.mark.parametrize(
    "what", ["records", "records after its commit", "a question at it", "a question below it", "an image"]
)
def test_who_has_other_records_where_this_log_is_committed_is_not_followed(what: str) -> None:
    stage, _, follower = begun()
    other, commit, end = rewritten(follower.log), follower.core.commit, follower.log.end
    other.append(Kind.DATA, Epoch(2), b"more")
    at = Point(Epoch(2), commit)
    below = Point(Epoch(2), Position(commit - 1))
    body = {
        "records": Append(1, other.read(Position(0), 1 << 20), Position(0)),
        "records after its commit": Append(1, other.read(commit, 1 << 20), Position(0)),
        "a question at it": Append(1, Span(at, at.position, (), b""), Position(0)),
        "a question below it": Append(1, Span(below, below.position, (), b""), Position(0)),
        "an image": CopyChunk(1, Image("other", at, 0, 0, 0, b""), 0, b""),
    }[what]
    tell(follower, body, STRANGER, LATER)
    assert [type(event) for event in follower.heard(MustRebuild)] == [MustRebuild]
    follower.outputs.clear()
    for each in (body, Heartbeat(1, commit)):
        tell(follower, each, STRANGER, LATER)
    stage.isolate(follower)
    follower.feed(Linked(STRANGER))
    stage.run(2_000)
    assert not said(follower, Presence)
    assert not said(follower, AppendAck)
    assert (follower.log.end, len(follower.heard(MustRebuild))) == (end, 1)


def test_an_image_of_what_was_committed_in_an_earlier_epoch_contradicts_nothing() -> None:
    stage, leader, follower = begun()
    early = follower.log.epochs.point_at(follower.committed)
    stage.kill(leader)
    stage.run_until_served()
    stage.run(500)
    ground = follower.core.ground
    assert ground.log.epochs.epoch_at(ground.commit) > early.epoch
    out = tell(follower, CopyChunk(1, Image("early", early, 0, 0, 0, b""), 0, b""), STRANGER, LATER)
    assert not follower.heard(MustRebuild)
    assert AppendAck in [type(envelope.body) for envelope in (*out.messages, *out.held)]


def test_an_image_that_ends_in_an_epoch_before_what_is_committed_lacks_it() -> None:
    _, _, follower = begun()
    beyond = Point(Epoch(0), Position(follower.log.end + 100))
    out = tell(follower, CopyChunk(1, Image("old", beyond, 0, 0, 0, b""), 0, b""), STRANGER, LATER)
    assert follower.heard(MustRebuild)
    assert CopyAck not in [type(envelope.body) for envelope in (*out.messages, *out.held)]


def test_nothing_is_told_as_committed_before_the_image_that_a_log_begins_with_is_flushed() -> None:
    """What is durable already lies below the log's new base: the shell could read none of it."""
    stage, leader, follower = begun()
    stage.isolate(follower)
    me, epoch, committed = leader.core.identity, leader.core.epoch, follower.committed
    for slow in (False, True):
        follower.slow, end = slow, leader.log.end
        leader.append()
        tell(follower, Append(1_000, leader.log.read(end, 1 << 20), committed), me, epoch)
    ground = follower.core.ground
    base = leader.log.epochs.point_at(leader.log.end)
    assert committed == ground.commit < ground.durable.position < base.position == follower.log.end
    out = tell(follower, CopyChunk(1_000, Image("later", base, 0, 0, 0, b""), 0, b""), me, epoch)
    assert (follower.log.epochs.base, ground.commit, out.commit) == (base, base.position, None)
    follower.asks.clear()
    stage.run(2_000)
    reports = [ask for ask in follower.asks if isinstance(ask, Report)]
    assert {report.committed for report in reports} == {ORIGIN}
    assert follower.committed == committed
    follower.flush()
    assert follower.committed == base.position


# ---- whom it follows ----------------------------------------------------------------------------------------------


def test_two_who_lead_one_epoch_stop_the_process() -> None:
    _, leader, follower = begun()
    with pytest.raises(InvariantError, match="one leader in an epoch"):
        tell(follower, Heartbeat(1, Position(0)), STRANGER, leader.core.epoch)


def test_who_is_heard_leading_is_named_before_the_controllers_name_it() -> None:
    _, _, follower = begun()
    tell(follower, Heartbeat(1, Position(0)), STRANGER, LATER)
    assert follower.heard(Following)[-1] == Following(LATER, BrokerId(9), "")


def test_a_follower_whose_disk_does_not_answer_says_so() -> None:
    stage, leader, follower = begun()
    follower.slow = True
    leader.append()
    stage.run(stage.options.stall_ms + 500)
    answers = said(follower, HeartbeatAck)
    assert isinstance(answers[-1], HeartbeatAck)
    assert answers[-1].busy


@pytest.mark.parametrize("lag_ms", [1_500, 60_000])
def test_a_sleep_of_the_process_is_not_held_against_its_disk(lag_ms: int) -> None:
    """However long followers may lag."""
    ship = ShipOptions(small_bytes=0)
    stage, leader, follower = begun(
        GroupOptions(ship=ship, lag_ms=lag_ms, alone_ms=4 * lag_ms, alone_ms_max=4 * lag_ms)
    )
    follower.slow = True
    leader.append()
    stage.run(100)
    follower.alive = False
    stage.run(stage.options.stall_ms)
    follower.alive = True
    stage.run(200)
    for busy in (False, True):
        answer = said(follower, HeartbeatAck)[-1]
        assert isinstance(answer, HeartbeatAck)
        assert answer.busy == busy
        stage.run(stage.options.stall_ms)


# ---- when it presents itself --------------------------------------------------------------------------------------


def test_a_new_connection_of_the_leader_is_answered_with_where_this_replica_is() -> None:
    _, leader, follower = begun()
    out = follower.feed(Linked(STRANGER))
    assert not out.messages
    out = follower.feed(Linked(leader.core.identity))
    assert [type(envelope.body) for envelope in out.messages] == [Presence]


def test_only_the_leaders_broken_connection_makes_a_follower_ask_at_once() -> None:
    _, leader, follower = begun()
    assert follower.core.following is not None
    for peer, forsaken in ((STRANGER, False), (leader.core.identity, True)):
        out = follower.feed(Unlinked(peer))
        assert follower.core.following.forsaken is forsaken
        assert ReadAsk not in [type(envelope.body) for envelope in out.messages]


@pytest.mark.parametrize("order", [Drain(), Health(healthy=False)], ids=["stops", "broken"])
def test_whoever_is_not_to_be_waited_for_says_so_at_once_and_again_and_again(order: Drain | Health) -> None:
    """What is said once counts for a while only."""
    stage, _, follower = begun()
    follower.outputs.clear()
    follower.feed(order)
    stage.run(20)
    assert [presence.leaving for presence in said(follower, Presence)] == [True]  # type: ignore[attr-defined]
    follower.outputs.clear()
    stage.run(stage.options.lag_ms)
    assert len(said(follower, Presence)) >= 2


def test_whose_store_works_again_takes_its_word_back_at_once() -> None:
    stage, _, follower = begun()
    follower.feed(Health(healthy=False))
    stage.run(100)
    follower.outputs.clear()
    follower.feed(Health())
    stage.run(20)
    assert [presence.leaving for presence in said(follower, Presence)] == [False]  # type: ignore[attr-defined]


def test_a_member_of_the_set_stops_only_once_the_set_does_without_it() -> None:
    stage, _, follower = begun()
    stage.isolate(follower, from_controllers=False)
    follower.feed(Drain())
    stage.run(1_000)
    assert follower.id in stage.desk.group.sync.members
    assert not follower.heard(Drained)
    stage.heal()
    stage.run(3_000)
    assert follower.id not in stage.desk.group.sync.members
    assert len(follower.heard(Drained)) == 1


def test_who_is_not_in_the_set_stops_at_once() -> None:
    stage, _, follower = begun()
    stage.nodes[4] = learner = Node(stage, 4, MemoryLog(), learner=True)
    learner.feed(Drain())
    assert learner.heard(Drained)  # it has never heard of a set
    follower.feed(Health(healthy=False))
    stage.run(3_000)
    assert follower.id not in stage.desk.group.sync.members
    follower.feed(Drain())
    assert follower.heard(Drained)


# ---- who is in step -----------------------------------------------------------------------------------------------


def test_who_never_has_the_very_newest_record_is_in_step_as_of_when_it_reached_what_was_here() -> None:
    """Under load the log always ends beyond what has been flushed."""
    process = Process(BrokerId(2), Registration(1))
    follower = Follower(process, replica_of(process))
    for flushed, end, now, since in (
        (0, 10, 100, None),
        (5, 20, 110, None),
        (12, 30, 120, 100),
        (29, 40, 130, 100),
        (30, 50, 140, 120),
        (50, 50, 150, 150),
        (50, 60, 160, 150),
        (60, 70, 170, 160),
    ):
        follower.pace.keep(Position(flushed), Position(end), now)
        assert follower.in_step_at == since, (flushed, end, now)
