"""R3, R11, R13, R14: restarts, other processes under one id, cuts, and what an operator has given up."""

import pytest
from msgspec.structs import replace

from logherd.controller.commands import PlanTransfer, Register
from logherd.controller.leases import LeaseTerms
from logherd.controller.machine import Machine
from logherd.controller.office import Office
from logherd.controller.reports import Report, Withheld
from logherd.controller.settings import OfficeOptions, epochs_above
from logherd.controller.values import BrokerId, Registration
from logherd.controller.verdicts import Refusal
from logherd.group.attendance import Attendance
from logherd.group.inputs import Heard, ReadWanted, Received, Unlinked
from logherd.group.messages import Contradicted, Presence
from logherd.group.output import Cut, Fenced, Installed, MustRebuild, Strange
from logherd.group.seat import Process, process_of, replica_of
from logherd.model.names import Epoch, Position
from logherd.raft.record import Kind
from logherd.replication.epochs import Point, Run
from logherd.replication.log import Image, Span
from logherd.replication.messages import Append, AppendAck, CopyChunk, Envelope, Heartbeat
from unit.group.bases import drop_before
from unit.group.stage import KEY, Node, Stage


def settled() -> tuple[Stage, Node, list[Node]]:
    stage = Stage()
    leader = stage.run_until_served()
    stage.run(1_000)
    return stage, leader, [node for node in stage.nodes.values() if node is not leader]


def test_a_restarted_leader_begins_another_epoch_with_another_barrier() -> None:
    stage, leader, _ = settled()
    leader.append()
    stage.run(10)
    stage.restart(leader)
    second = stage.run_until_served()
    assert second.core.serving(stage.now) == Epoch(2)
    assert [run.epoch for run in second.log.epochs.runs] == [1, 2]


def test_a_restarted_follower_is_another_replica_under_the_same_id() -> None:
    stage, leader, (one, _) = settled()
    before = one.core.ground.standing.identity
    again = stage.restart(one)
    stage.run(1_000)
    after = again.core.ground.standing.identity
    assert after != before
    assert process_of(after) == Process(BrokerId(one.id), stage.registration(again))
    state = leader.core.leading.follower_state(BrokerId(one.id)) if leader.core.leading else None
    assert state is not None
    assert state[0].replica == after
    end = leader.append()
    stage.run(5)
    assert leader.committed == end


def test_what_an_earlier_process_acknowledged_does_not_count() -> None:
    stage, leader, (one, _) = settled()
    earlier = one.core.ground.standing.identity
    stage.kill(one)
    # The controllers know another process; the earlier one's acknowledgement is still on its way.
    stage.desk.submit(
        Register(
            group=stage.desk.group.key, broker_id=BrokerId(one.id), store_id=f"s{one.id}", incarnation="later",
            address="x", end=one.core.ground.known_point(one.log.end), epoch_seen=Epoch(1),
        ),
        stage.now,
    )  # fmt: skip
    stage.run(600)
    end = leader.append()
    stage.run(20)
    standing = leader.core.ground.standing
    late = AppendAck(1, end, end)
    leader.feed(Received(Envelope(standing.cluster, earlier, standing.identity, Epoch(1), late)))
    assert leader.committed < end
    hello = Presence(leader.core.ground.known_point(Position(0)))
    output = leader.feed(Received(Envelope(standing.cluster, earlier, standing.identity, Epoch(1), hello)))
    assert [type(event) for event in output.events] == [Strange]


def test_a_member_whose_process_is_unknown_counts_for_nothing() -> None:
    stage, leader, (one, _) = settled()
    attendance: Attendance | None = leader.core.leading.attendance if leader.core.leading else None
    assert attendance is not None
    assert attendance.flushed_by(BrokerId(one.id), Registration(99)) == Position(0)
    assert attendance.flushed_by(BrokerId(77), Registration(0)) == Position(0)
    assert attendance.flushed_by(BrokerId(one.id), stage.registration(one)) == one.log.end


def test_a_deposed_leader_cuts_what_was_never_committed_and_never_more() -> None:
    stage, leader, _ = settled()
    kept = leader.append()
    stage.run(10)
    stage.isolate(leader)
    for _ in range(5):
        leader.append()
    while stage.leader in (None, leader):
        stage.run(1)
    stage.heal()
    stage.run(1_000)
    cuts = leader.heard(Fenced, Cut)
    assert [type(event) for event in cuts][-1] is Cut
    assert cuts[-1] == Cut(kept)
    assert any(isinstance(event, Fenced) for event in cuts)
    assert leader.log.end == max(node.log.end for node in stage.nodes.values())


def test_a_process_that_the_controllers_have_forgotten_registers_again_and_does_not_lead_on() -> None:
    stage, leader, _ = settled()
    answer = Heard(Withheld(None, Refusal.UNKNOWN_REPLICA), stage.now)
    leader.feed(answer)
    assert leader.core.serving(stage.now) is None
    assert leader.heard(Fenced)
    stage.run(10)
    assert stage.registration(leader) != 0
    late = Heard(Withheld(None, Refusal.UNKNOWN_REPLICA), stage.now - 5_000 if stage.now > 5_000 else 0)
    leader.feed(late)
    assert stage.registration(leader) != 0


def leader_report(leader: Node) -> Report:
    """What it told the controllers last."""
    return [ask for ask in leader.asks if isinstance(ask, Report)][-1]


def remember(stage: Stage, image: bytes, *, recoveries: int = 0) -> None:
    """The quorum is made of a controller that has this state, and no later one."""
    options = OfficeOptions(gather_ms=200, epochs_above=epochs_above(recoveries))
    stage.desk.machine = Machine.load(image)
    stage.desk.office = Office(stage.desk.machine, LeaseTerms(), options, stage.now)


def hand_over(stage: Stage, to: Node) -> None:
    """An operator's order."""
    stage.desk.submit(
        PlanTransfer(
            group=KEY, expected_epoch=stage.desk.group.epoch, broker_id=BrokerId(to.id),
            registration=stage.registration(to), request=f"to {to.id}",
        ),
        stage.now,
    )  # fmt: skip


def test_r20_a_group_is_led_again_when_the_controllers_have_forgotten_the_set_that_its_leader_goes_by() -> None:
    """They grant the lease with an older set; the leader cannot go by that, and must not hold the lease for ever."""
    stage, leader, (one, other) = settled()
    image = stage.desk.machine.save()
    stage.kill(one)
    stage.run(3_000)
    assert leader.core.leading is not None
    assert one.id not in leader.core.leading.insync.members
    end = leader.append()
    stage.run(20)
    assert (stage.leader, leader.committed) == (leader, end)
    remember(stage, image)
    stage.run(8_000)
    again = stage.leader
    assert again in (leader, other)
    assert again is not None
    assert (again.serves, again.committed >= end) == (Epoch(2), True)
    epoch, registrations = stage.desk.group.epoch, stage.desk.group.registrations
    stage.run(5_000)
    assert (stage.leader, stage.desk.group.epoch) == (again, epoch)
    assert stage.desk.group.registrations == registrations


def test_r20_an_epoch_of_which_nobody_knows_who_is_here_when_the_quorum_is_recovered_is_not_led_again() -> None:
    """Two logs of one epoch that differ would pass for one."""
    stage = Stage(5)
    leader = stage.run_until_served()
    stage.run(1_000)
    image = stage.desk.machine.save()
    away = [node for node in stage.nodes.values() if node is not leader][:2]
    here = [node for node in stage.nodes.values() if node not in away]
    for node in here:
        stage.desk.deaf.add(node.id)
        stage.cut |= {pair for other in away for pair in ((node.id, other.id), (other.id, node.id))}
    stage.run(6_000)
    lost = stage.leader
    assert lost in away
    assert lost is not None
    for _ in range(3):
        lost.append(b"of controllers that are given up")
    stage.run(1_000)
    assert (lost.serves, lost.committed) == (Epoch(2), lost.log.end)
    for node in (leader, *away):
        stage.kill(node)
    remember(stage, image, recoveries=1)
    stage.heal()
    stage.run(8_000)
    again = stage.leader
    assert again is not None
    for _ in range(5):
        again.append(b"of the recovered ones")
    stage.run(1_000)
    back = [stage.restart(node) for node in away]
    stage.run(8_000)
    assert [len(node.heard(MustRebuild)) for node in back] == [1, 1]
    assert stage.leader is again
    assert (again.serves or 0) > epochs_above(1)


def test_r20_numbers_that_the_controllers_have_forgotten_and_give_anew_are_believed() -> None:
    """A process that had a higher one under the decisions that were lost is not taken for a former one for ever."""
    stage, leader, (one, other) = settled()
    image = stage.desk.machine.save()
    one = stage.restart(one)
    stage.run(100)
    other = stage.restart(other)
    stage.run(1_000)
    assert [stage.registration(each) for each in (one, other)] == [4, 5]
    stage.isolate(one, from_controllers=False)
    stage.run(3_000)
    stage.heal()
    stage.run(1_000)
    remember(stage, image)
    stage.desk.deaf.add(one.id)
    stage.run(1_000)
    stage.heal()
    stage.run(10_000)
    assert sorted(stage.registration(each) for each in (one, other)) == [4, 5]
    assert stage.registration(other) == 4
    hand_over(stage, leader)
    stage.run(5_000)
    assert stage.leader is leader
    assert stage.desk.group.sync.members == (1, 2, 3)


def test_r20_who_was_away_until_others_led_again_believes_the_numbers_that_were_given_anew() -> None:
    """It hears of no earlier epoch than it knows: only that it is not registered shows that something was forgotten."""
    stage, leader, (one, other) = settled()
    image = stage.desk.machine.save()
    one = stage.restart(one)
    stage.run(100)
    other = stage.restart(other)
    stage.run(1_000)
    stage.isolate(one)
    stage.run(3_000)
    remember(stage, image)
    stage.run(8_000)
    again = stage.leader
    assert again in (leader, other)
    stage.heal()
    stage.run(3_000)
    assert [stage.registration(each) for each in (one, other)] == [5, 4]
    assert stage.desk.group.sync.members == (1, 2, 3)
    hand_over(stage, one)
    stage.run(5_000)
    assert stage.leader is one
    assert stage.desk.group.sync.members == (1, 2, 3)


def test_r20_a_leader_believes_numbers_that_were_given_anew_though_the_set_is_the_one_that_it_knows() -> None:
    stage, _, (one, other) = settled()
    image = stage.desk.machine.save()
    version = stage.desk.group.sync.version
    one = stage.restart(one)
    stage.run(100)
    other = stage.restart(other)
    stage.run(1_000)
    assert [stage.registration(each) for each in (one, other)] == [4, 5]
    assert stage.desk.group.sync.version == version
    stage.desk.deaf.add(one.id)
    remember(stage, image)
    stage.run(1_000)
    stage.heal()
    stage.run(10_000)
    assert [stage.registration(each) for each in (one, other)] == [5, 4]
    assert stage.leader is not None
    assert stage.desk.group.sync.members == (1, 2, 3)


def test_a_number_that_was_met_while_the_controllers_were_asked_is_not_taken_for_forgotten() -> None:
    """They were asked before the process had registered."""
    stage, leader, (one, _) = settled()
    known = leader.core.ground.standing.view
    assert known is not None
    sent = stage.now
    stage.run(1)
    processes = tuple(
        Registration(9) if member == one.id else process
        for member, process in zip(known.members, known.processes, strict=True)
    )
    leader.feed(Heard(Withheld(replace(known, processes=processes), None), stage.now))
    leader.feed(Heard(Withheld(known, None), sent))
    assert leader.core.leading is not None
    leader.feed(Heard(Withheld(known, None), stage.now))
    assert leader.core.leading is not None
    stage.run(1)
    leader.feed(Heard(Withheld(known, None), stage.now))
    assert leader.core.leading is None


def test_r20_a_leader_believes_numbers_that_were_given_anew_also_of_who_is_not_in_sync() -> None:
    """It would take the real process for a former one, which never gets in sync again."""
    stage, leader, (one, other) = settled()
    stage.isolate(other, from_controllers=False)
    stage.run(3_000)
    answer = stage.desk.office.renew(leader_report(leader), stage.now, heard=stage.now)
    assert answer.view is not None
    assert answer.view.members == tuple(sorted((leader.id, one.id)))
    assert answer.view.others == ((other.id, stage.registration(other)),)
    leader.feed(Heard(answer, stage.now))
    assert leader.core.leading is not None
    earlier = Registration(stage.registration(other) - 1)
    leader.feed(Heard(replace(answer, view=replace(answer.view, others=((other.id, earlier),))), stage.now))
    assert leader.core.leading is None
    assert stage.registration(leader) == 0
    stage.heal()
    stage.run(5_000)
    assert stage.desk.group.sync.members == (1, 2, 3)


def test_r20_whoever_has_promised_an_epoch_that_the_controllers_have_forgotten_tells_them_of_it() -> None:
    """Nothing of it is in any log here, and who led in it is away: it must not be led by anybody else."""
    stage, _, (one, _) = settled()
    standing, body = one.core.ground.standing, Heartbeat(1, one.core.ground.commit)
    one.feed(
        Received(
            Envelope(
                standing.cluster, replica_of(Process(BrokerId(9), Registration(9))), standing.identity, Epoch(7), body
            )
        )
    )
    assert one.core.ground.epoch == Epoch(7)
    stage.run(1_000)
    assert stage.desk.group.epoch >= 7
    leader = stage.run_until_served()
    assert leader.serves is not None
    assert leader.serves > 7


def test_an_older_view_that_was_under_way_when_a_later_one_came_is_not_taken_for_forgetting() -> None:
    stage, leader, _ = settled()
    known = leader.core.ground.standing.view
    assert known is not None
    later = replace(known, version=known.version + 1)
    sent = stage.now
    stage.run(1)
    leader.feed(Heard(Withheld(later, None), stage.now))
    for when in (sent, stage.now):
        leader.feed(Heard(Withheld(known, None), when))
    assert leader.core.leading is not None
    stage.run(1)
    leader.feed(Heard(Withheld(known, None), stage.now))
    assert leader.core.leading is None


def test_who_knows_more_to_be_committed_than_the_leader_must_be_rebuilt() -> None:
    """An operator elected a replica that lacks it. Nothing committed is cut, and nothing is acknowledged."""
    stage, leader, (one, _) = settled()
    log = one.log
    for _ in range(10):
        log.append(Kind.DATA, Epoch(1), b"committed elsewhere")
    again = stage.restart(one)
    again.committed = log.end
    again.start()
    stage.run(1_000)
    assert again.heard(MustRebuild)
    assert not again.heard(Cut)
    assert log.end == again.committed
    assert one.id not in stage.desk.group.sync.members or leader.committed < log.end
    stage.run(2_000)
    assert one.id not in stage.desk.group.sync.members


def test_who_knows_more_to_be_committed_than_the_leader_must_be_rebuilt_also_below_what_the_leader_has_kept() -> None:
    """There is no place left to compare, but epochs never fall along a log."""
    stage, leader, (one, other) = settled()
    log = one.log
    stage.kill(one)
    log.append(Kind.DATA, Epoch(5), b"committed in a later epoch than any of the leader's")
    ends = [leader.append() for _ in range(10)]
    stage.run(3_000)
    assert leader.committed == ends[-1]
    for node in (leader, other):  # whoever leads when the lease is over
        drop_before(node.log, ends[-1])
    again = stage.restart(one)
    again.committed = log.end
    assert again.committed < ends[-1]
    again.start()
    stage.run(100)
    stage.isolate(again)  # else it leads: its log is of a later leadership than the controllers know
    stage.run(8_000)  # the lease of the epoch before is waited out
    stage.heal()
    stage.run(2_000)
    assert again.heard(MustRebuild)
    assert not again.heard(Cut)
    assert not again.heard(Installed)
    assert log.end == again.committed


def test_a_span_that_contradicts_what_is_committed_here_is_refused() -> None:
    stage, leader, (one, _) = settled()
    end = leader.append()
    stage.run(300)
    assert one.committed == end
    standing = one.core.ground.standing
    body = Contradicted(one.core.ground.known_point(end))
    identity = leader.core.ground.standing.identity
    output = one.feed(Received(Envelope(standing.cluster, identity, standing.identity, Epoch(1), body)))
    assert [type(event) for event in output.events] == [MustRebuild]
    assert one.log.end == end


def test_who_must_be_rebuilt_takes_nothing_answers_nothing_and_lets_nobody_read() -> None:
    stage, leader, (one, _) = settled()
    end = leader.append()
    stage.run(300)
    one.feed(ReadWanted())
    stage.run(5)
    assert one.core.readable(stage.now) == end
    standing, sender = one.core.ground.standing, leader.core.ground.standing.identity

    def said(body: object) -> list[object]:
        """What it answers to its leader."""
        out = one.feed(Received(Envelope(standing.cluster, sender, standing.identity, Epoch(1), body)))
        return [*out.messages, *out.held]

    assert said(Heartbeat(99, end))
    said(Contradicted(one.core.ground.known_point(end)))
    assert one.core.readable(stage.now) is None
    later = leader.write(Epoch(1), b"later")
    assert said(Append(99, leader.log.read(end, 1 << 20), later)) == []
    assert said(Heartbeat(100, later)) == []
    one.feed(ReadWanted())
    stage.run(600)
    assert (one.log.end, one.committed) == (end, end)
    assert one.core.readable(stage.now) is None
    assert len(one.heard(MustRebuild)) == 1


@pytest.mark.parametrize(("before", "inside"), [(2, 2), (1, 2)], ids=["where it begins", "where it ends"])
def test_a_span_that_contradicts_what_is_committed_below_what_is_kept_here_is_refused(before: int, inside: int) -> None:
    stage, leader, (one, _) = settled()
    places = [leader.append() for _ in range(4)]
    stage.run(300)
    assert one.committed == places[-1]
    drop_before(one.log, places[-1])
    standing, sender = one.core.ground.standing, leader.core.ground.standing.identity

    def shipped(generation: int, before: int, inside: int) -> Received:
        span = Span(Point(Epoch(before), places[0]), places[1], (Run(Epoch(inside), places[0]),), b"x")
        request = Append(generation, span, places[1])
        return Received(Envelope(standing.cluster, sender, standing.identity, Epoch(3), request))

    harmless = one.feed(shipped(1, 1, 1))
    assert [each.body for each in harmless.held] == [AppendAck(1, places[-1], places[-1])]
    output = one.feed(shipped(2, before, inside))
    assert [type(event) for event in output.events] == [MustRebuild]
    assert not [each for each in (*output.messages, *output.held) if isinstance(each.body, AppendAck)]


def test_r14_a_span_that_contradicts_what_is_committed_between_its_ends_is_refused() -> None:
    """It begins with the same record and goes on behind what is committed here, but not over the same records."""
    stage, leader, (one, _) = settled()
    places = [leader.append() for _ in range(4)]
    stage.run(300)
    end = one.committed
    assert end == places[-1] == one.log.end
    standing, sender = one.core.ground.standing, leader.core.ground.standing.identity
    runs = (Run(Epoch(1), places[0]), Run(Epoch(2), places[1]))
    span = Span(Point(Epoch(1), places[0]), Position(end + 100), runs, b"x" * (end + 100 - places[0]))
    output = one.feed(Received(Envelope(standing.cluster, sender, standing.identity, Epoch(3), Append(1, span, end))))
    assert [event for event in output.events if isinstance(event, MustRebuild)]
    assert not [each for each in (*output.messages, *output.held) if isinstance(each.body, AppendAck)]
    assert one.log.end == end


@pytest.mark.parametrize("beyond", [False, True], ids=["below what is committed", "beyond what is committed"])
def test_a_copy_of_a_log_that_surely_lacks_what_is_committed_here_is_refused(beyond: bool) -> None:
    """It would replace the whole log."""
    stage, leader, (one, _) = settled()
    before, end = one.committed, one.log.append(Kind.DATA, Epoch(5), b"committed in a later epoch")
    again = stage.restart(one)
    again.committed = end
    again.start()
    point = Point(Epoch(4), Position(end + 100)) if beyond else Point(Epoch(4), before)
    standing, sender = again.core.ground.standing, leader.core.ground.standing.identity
    copy = CopyChunk(1, Image("their base", point, 0, 0, 0, b""), 0, b"")
    output = again.feed(Received(Envelope(standing.cluster, sender, standing.identity, Epoch(6), copy)))
    assert [event for event in output.events if isinstance(event, MustRebuild)]
    assert not again.heard(Installed)
    assert again.log.end == end


def test_a_broken_connection_makes_a_follower_ask_at_once() -> None:
    stage, leader, (one, _) = settled()
    quiet = len(one.asks)
    stage.run(400)
    usual = len(one.asks) - quiet
    stage.kill(leader)
    one.feed(Unlinked(replica_of(leader.core.ground.me)))
    before = len(one.asks)
    stage.run(400)
    assert len(one.asks) - before >= usual + 3
