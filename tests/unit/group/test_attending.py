"""What a leader thinks of its followers, what it tells the controllers, and how it gives leadership away."""

from logherd.controller.reports import Report
from logherd.controller.values import BrokerId, Registration
from logherd.group.attendance import Attendance
from logherd.group.handover import Handover
from logherd.group.inputs import Health
from logherd.group.output import Draining
from logherd.group.seat import Process
from unit.group.stage import Node, Stage


def attended() -> tuple[Stage, Attendance, Node, BrokerId]:
    """A leader's, long after it began, and one of its followers."""
    stage = Stage()
    leader = stage.run_until_served()
    stage.run(5_000)
    assert leader.core.leading is not None
    follower = next(node for node in stage.nodes.values() if node is not leader)
    return stage, leader.core.leading.attendance, follower, BrokerId(follower.id)


def test_who_answers_is_heard_and_who_does_not_is_not_for_long() -> None:
    stage, attendance, follower, broker_id = attended()
    assert attendance.hears(broker_id)
    assert not attendance.hears(BrokerId(9))
    stage.kill(follower)
    stage.run(stage.options.lag_ms // 2)
    assert attendance.hears(broker_id)
    stage.run(stage.options.lag_ms)
    assert not attendance.hears(broker_id)


def test_a_restart_has_as_much_time_as_a_silence() -> None:
    stage, attendance, follower, broker_id = attended()
    stage.kill(follower)
    assert attendance.welcome(Process(broker_id, Registration(stage.registration(follower) + 1)))
    assert not attendance.lagging(broker_id)
    stage.run(stage.options.lag_ms + 100)
    assert attendance.lagging(broker_id)


def test_who_has_no_room_for_records_does_not_join_though_it_has_everything() -> None:
    stage, attendance, follower, broker_id = attended()
    assert attendance.in_step(broker_id)
    follower.feed(Health(room=False))
    stage.run(400)
    assert not attendance.in_step(broker_id)


def test_who_was_never_in_step_lags_however_often_it_answers() -> None:
    _, attendance, _, broker_id = attended()
    follower = attendance.of(broker_id)
    assert follower is not None
    assert not attendance.lagging(broker_id)
    follower.pace.in_step_at = None
    assert attendance.hears(broker_id)
    assert attendance.lagging(broker_id)


def test_reports_are_numbered_in_the_order_in_which_they_are_made() -> None:
    stage, _, follower, _ = attended()
    stage.run(2_000)
    numbers = [ask.number for ask in follower.asks if isinstance(ask, Report)]
    assert len(numbers) > 3
    assert numbers == sorted(set(numbers))


def test_the_controllers_hear_that_there_is_no_space() -> None:
    _, _, follower, _ = attended()
    told = {
        Health(space=False): (False, True), Health(messages=False): (False, True),
        Health(barrier=False): (False, False), Health(): (True, True),
    }  # fmt: skip
    for health, said in told.items():
        follower.feed(health)
        report = follower.asks[-1]
        assert isinstance(report, Report)
        assert (report.space, report.barrier) == said


def test_who_stops_for_good_takes_writes_no_more_whoever_is_to_lead_next() -> None:
    stage, attendance, _, broker_id = attended()
    leader = stage.leader
    assert leader is not None
    ground, epoch = leader.core.ground, leader.core.epoch
    handover = Handover(ground, attendance, epoch)
    handover.order(broker_id)
    handover.order(broker_id)
    handover.stop()
    handover.stop()
    handover.order(None)
    assert handover.draining
    assert ground.out.events == [Draining(epoch, broker_id), Draining(epoch, broker_id)]


def test_r11_the_controllers_hear_only_of_what_is_on_the_disk() -> None:
    """They elect by it: what a follower has taken and not flushed may be gone when it leads."""
    stage, _, follower, _ = attended()
    leader = stage.leader
    assert leader is not None
    on_disk, begun, follower.slow = follower.log.end, len(follower.asks), True
    leader.append()
    stage.run(1_100)
    assert follower.log.end > on_disk
    told = [ask for ask in follower.asks[begun:] if isinstance(ask, Report)]
    assert {(report.end.position, report.committed.position) for report in told} == {(on_disk, on_disk)}
