"""R2, R10, R21: planned switches, orderly stops, broken stores."""

from collections.abc import Callable

import msgspec
import pytest

from logherd.controller.commands import PlanTransfer, Release
from logherd.controller.reports import Withheld
from logherd.controller.values import BrokerId, Registration
from logherd.group.inputs import Drain, Health, Heard, Tick
from logherd.group.output import Closed, Drained, Draining, Fenced, Leading, Output, Resumed
from unit.group.stage import KEY, Node, Stage


def settled() -> tuple[Stage, Node, list[Node]]:
    stage = Stage()
    leader = stage.run_until_served()
    stage.run(1_000)
    return stage, leader, [node for node in stage.nodes.values() if node is not leader]


def plan(stage: Stage, target: Node) -> None:
    command = PlanTransfer(
        group=KEY, expected_epoch=stage.desk.group.epoch, broker_id=BrokerId(target.id),
        registration=stage.registration(target), request="switch",
    )  # fmt: skip
    assert stage.desk.submit(command, stage.now).refusal is None


def report_exit(stage: Stage, node: Node) -> None:
    """What its guardian does."""
    seat = node.core.ground.seat
    exited = Release(
        group=KEY, broker_id=seat.broker_id, store_id=seat.store_id, incarnation=seat.incarnation, exited=True
    )
    assert stage.desk.submit(exited, stage.now).refusal is None


def test_a_planned_switch_takes_under_a_second_and_answers_every_write() -> None:
    stage, leader, (target, _) = settled()
    plan(stage, target)
    ends = []
    while leader.core.closed(stage.now) is None:
        ends.append(leader.append())
        stage.run(1)
    drained_at = stage.now
    assert leader.core.closed(stage.now) is Closed.DRAINING
    while not leader.heard(Fenced):
        assert leader.serves is not None
        stage.run(1)
    assert leader.committed == ends[-1]
    assert stage.run_until_served() is target
    assert stage.now - drained_at < 500
    assert leader.heard(Draining)


def test_a_switch_waits_until_the_target_has_everything() -> None:
    stage, leader, (target, _) = settled()
    target.slow = True
    leader.append()
    plan(stage, target)
    stage.run(900)
    assert leader.core.leading is not None
    target.flush()
    target.slow = False
    stage.run(40)
    assert leader.core.leading is None


def first_with(outputs: list[Output], has: Callable[[Output], bool]) -> int:
    return next(number for number, output in enumerate(outputs) if has(output))


@pytest.mark.parametrize("stops", [False, True], ids=["switch", "stop"])
def test_whoever_waits_for_the_last_write_hears_of_it_before_the_leadership_ends(stops: bool) -> None:
    """Were both told at once, writers would hear that the outcome of what is committed is not known."""
    stage, leader, (target, _) = settled()
    end = leader.append()
    leading = leader.core.leading
    assert leading is not None
    if stops:
        leader.feed(Drain())
    else:
        leading.handover.order(BrokerId(target.id))
    while not leader.heard(Fenced):
        stage.run(1)
    told = first_with(leader.outputs, lambda output: output.commit == end)
    ended = first_with(leader.outputs, lambda output: any(isinstance(event, Fenced) for event in output.events))
    assert told < ended


def test_a_switch_waits_for_a_new_process_of_the_target_that_an_answer_names_late() -> None:
    """The answer to a report was overtaken by that to a change of the set, which knew of no new process."""
    stage, leader, (target, _) = settled()
    stage.isolate(leader)
    leading, standing = leader.core.leading, leader.core.ground.standing
    assert leading is not None
    view = standing.view
    assert view is not None
    new = Registration(stage.registration(target) + 100)
    processes = tuple(
        new if member == target.id else process for member, process in zip(view.members, view.processes, strict=True)
    )
    late = msgspec.structs.replace(view, version=view.version - 1, processes=processes)
    leader.feed(Heard(Withheld(late, None), sent=0))
    assert (standing.view, standing.latest(BrokerId(target.id))) == (view, new)
    leading.handover.order(BrokerId(target.id))
    leader.feed(Tick())
    assert leader.core.leading is leading
    assert leading.leased(stage.now)


def test_a_switch_that_is_given_up_lets_writes_go_on() -> None:
    stage, leader, (target, _) = settled()
    target.slow = True
    leader.append()
    plan(stage, target)
    stage.run(1_000)
    assert leader.heard(Draining)
    stage.run(3_000)
    target.slow = False
    assert leader.heard(Resumed)
    assert leader.core.closed(stage.now) is None


def test_a_leader_to_whom_nothing_is_ordered_tells_nothing_of_a_switch() -> None:
    """Each renewal of its lease says so; were it told on, writes would be taken before the barrier is committed."""
    stage, leader, _ = settled()
    stage.run(3_000)
    assert leader.heard(Draining, Resumed) == []


def test_a_process_that_is_to_stop_takes_no_writes_again_when_a_switch_is_given_up() -> None:
    stage, leader, (target, _) = settled()
    target.slow = True
    leader.append()
    plan(stage, target)
    while not leader.heard(Draining):
        stage.run(1)
    for _ in range(2):
        leader.feed(Drain())
    leading = leader.core.leading
    assert leading is not None
    leading.handover.order(None)
    leader.feed(Tick())
    epoch = leading.epoch
    assert leader.heard(Draining, Resumed) == [Draining(epoch, BrokerId(target.id))] * 2
    assert leader.core.closed(stage.now) is not None


def test_a_leader_that_is_to_stop_hands_over_and_says_when() -> None:
    stage, leader, _ = settled()
    end = leader.append()
    leader.feed(Drain())
    assert leader.core.closed(stage.now) is Closed.DRAINING
    since = stage.now
    while not leader.heard(Drained):
        stage.run(1)
    assert leader.committed == end
    assert stage.run_until_served() is not leader
    assert stage.now - since < 500
    stage.kill(leader)
    stage.run(3_000)
    assert stage.leader is not None


def test_a_follower_that_is_to_stop_leaves_the_set_first() -> None:
    stage, leader, (leaving, _) = settled()
    leaving.feed(Drain())
    since = stage.now
    while not leaving.heard(Drained):
        stage.run(1)
    assert stage.now - since < 300
    assert leaving.id not in stage.desk.group.sync.members
    stage.kill(leaving)
    end = leader.append()
    stage.run(5)
    assert leader.committed == end


def test_a_process_that_stops_takes_no_leadership() -> None:
    stage, leader, others = settled()
    others[0].feed(Drain())
    stage.kill(leader)
    stage.run(6_000)
    assert others[0].core.leading is None


def test_when_all_stop_at_once_nobody_waits_for_somebody_to_hand_over_to() -> None:
    stage, leader, _ = settled()
    end = leader.append()
    stage.run(20)
    staying = list(stage.nodes.values())
    for each in staying:
        each.feed(Drain())
    since, epoch = stage.now, leader.core.ground.epoch
    while staying:
        assert stage.now - since < 1_500, [each.id for each in staying]
        stage.run(1)
        for each in [each for each in staying if each.heard(Drained)]:
            assert each.core.ground.log.end >= end
            staying.remove(each)
            stage.kill(each)
            report_exit(stage, each)
    assert stage.desk.group.epoch <= epoch + 3


def test_a_broken_store_lets_go_at_once() -> None:
    stage, leader, _ = settled()
    leader.feed(Health(healthy=False))
    assert leader.serves is None
    assert stage.run_until_served(1_000) is not leader


def test_a_flush_that_does_not_end_lets_go() -> None:
    stage, leader, _ = settled()
    leader.slow = True
    leader.append()
    since = stage.now
    while leader.serves is not None:
        stage.run(1)
    assert stage.now - since <= 3_050
    assert stage.run_until_served(1_000) is not leader


def test_a_full_disk_is_no_reason_to_let_go() -> None:
    stage, leader, _ = settled()
    leader.feed(Health(space=False))
    assert leader.core.closed(stage.now) is Closed.NO_SPACE
    stage.run(5_000)
    assert leader.serves is not None


def test_h4_a_leader_whose_disk_stays_full_hands_over_to_who_has_everything_and_space() -> None:
    stage, leader, others = settled()
    end = leader.append()
    leader.feed(Health(space=False))
    while not leader.heard(Fenced):
        stage.run(10)
        assert stage.now < 30_000
    again = stage.run_until_served(500)
    assert again in others
    assert again.committed >= end
    stage.run(20_000)
    assert stage.leader is again
    assert stage.desk.group.sync.members == (1, 2, 3)


def test_h4_a_leader_whose_log_fills_its_disk_hands_over_and_takes_until_then_what_finds_room() -> None:
    """The reserve is whole, and would not be with a further segment. What its store takes is the store's matter."""
    stage, leader, others = settled()
    leader.feed(Health(messages=False))
    assert leader.core.closed(stage.now) is None
    while not leader.heard(Fenced):
        stage.run(10)
        assert stage.now < 30_000
    assert stage.run_until_served(500) in others


@pytest.mark.parametrize("more", [1, 2])
def test_h4_a_leader_whose_disk_is_full_leads_on_while_too_few_have_space(more: int) -> None:
    stage, leader, others = settled()
    for node in (leader, *others[:more]):
        node.feed(Health(space=False))
    stage.run(30_000)
    assert stage.leader is leader
    assert not leader.heard(Draining)


def test_h4_where_all_disks_are_at_their_reserve_another_leads_who_refuses_messages_only() -> None:
    """The reserve has room for its barrier; reads and offsets go on, so that the backlog can be drained."""
    stage, leader, others = settled()
    committed = leader.append()
    for node in (leader, *others):
        node.feed(Health(space=False))
    stage.run(500)
    stage.kill(leader)
    again = stage.run_until_served(4_000)
    assert again in others
    assert again.core.closed(stage.now) is Closed.NO_SPACE
    offsets = again.append(b"an offset, for which the reserve is kept")
    stage.run(500)
    assert again.committed >= offsets > committed
    stage.run(30_000)
    assert stage.leader is again
    assert not again.heard(Draining)


def test_who_has_no_room_for_a_barrier_is_not_elected() -> None:
    stage, leader, others = settled()
    others[0].feed(Health(barrier=False))
    stage.kill(leader)
    assert stage.run_until_served() is others[1]
    assert not others[0].heard(Leading)


def test_nobody_begins_to_lead_without_room_for_a_barrier_until_there_is() -> None:
    stage, leader, others = settled()
    for node in others:
        node.feed(Health(barrier=False))
    stage.kill(leader)
    epoch = stage.desk.group.epoch
    stage.run(20_000)
    assert stage.desk.group.epoch == epoch
    others[1].feed(Health())
    assert stage.run_until_served() is others[1]


def test_a_leader_that_has_no_room_for_another_barrier_leads_on() -> None:
    stage, leader, _ = settled()
    leader.feed(Health(space=False, room=False, barrier=False))
    stage.run(5_000)
    assert leader.serves is not None


def test_a_leader_whose_barrier_found_no_room_gives_way_at_once() -> None:
    stage, leader, others = settled()
    stage.no_barrier = True
    stage.kill(leader)
    while not (elected := [node for node in others if node.heard(Leading)]):
        stage.run(1)
    stage.run(20)
    assert elected[0].core.leading is None
    stage.no_barrier = False
    stage.run_until_served()


def test_a_leader_that_hears_none_of_the_others_gives_way_to_one_that_may() -> None:
    stage, leader, others = settled()
    stage.isolate(leader, from_controllers=False)
    since = stage.now
    while not leader.heard(Fenced):
        stage.run(1)
    assert stage.run_until_served() in others
    assert stage.now - since < 10_000


def test_a_leader_that_is_really_alone_changes_epochs_ever_more_rarely() -> None:
    stage, leader, others = settled()
    for node in others:
        stage.kill(node)
    began = stage.desk.group.epoch
    stage.run(60_000)
    assert leader.core.leading is not None
    assert 1 <= stage.desk.group.epoch - began <= 4
    for node in others:
        stage.restart(node)
    leader = stage.run_until_served(30_000)
    assert leader.core.closed(stage.now) is None
