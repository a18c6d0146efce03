"""What the deciding controller's log tells of a failover."""

import logging

import pytest

from logherd.app.controllers.news import complaints, log_decision, log_quorum
from logherd.controller.commands import Grounds, PlanTransfer
from logherd.controller.electing import elect_command
from logherd.controller.values import BrokerId
from logherd.controller.verdicts import Verdict
from logherd.model.names import Epoch, Position
from logherd.raft.members import Configuration
from logherd.raft.output import MembersChanged, Role, RoleChanged, Strange
from logherd.replication.messages import ReplicaId
from logherd.replication.shipping import LostData
from unit.controller.desk import KEY, Desk

GROUP = str(KEY)


def told(caplog: pytest.LogCaptureFixture, verdict: Verdict) -> list[tuple[str, dict[str, object]]]:
    caplog.set_level(logging.INFO)
    caplog.clear()
    for event in verdict.events:
        log_decision(event)
    return [(record.getMessage(), record.__dict__["fields"]) for record in caplog.records]


def led() -> Desk:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.beat(1, 2, 3)
    return desk


def test_the_end_of_a_process_that_led_is_told_as_that(caplog: pytest.LogCaptureFixture) -> None:
    ((message, fields),) = told(caplog, led().release(1))
    assert (message, fields) == (
        "leadership ended",
        {"group": GROUP, "broker": 1, "epoch": 1, "cause": "its process has exited", "lease_may_run": False},
    )


def test_who_lets_go_and_who_hands_over_are_told_apart_from_who_has_exited(caplog: pytest.LogCaptureFixture) -> None:
    ((_, let_go),) = told(caplog, led().release(1, exited=False))
    assert let_go["cause"] == "it let go"
    desk = led()
    plan = PlanTransfer(
        group=KEY, expected_epoch=Epoch(1), broker_id=BrokerId(3), registration=desk.registration(3), request="r"
    )
    assert desk.submit(plan).refusal is None
    ((_, handed_over),) = told(caplog, desk.release(1, exited=False))
    assert handed_over["cause"] == "it handed over to broker 3"


def test_a_leader_that_comes_back_as_another_process_is_told_and_that_its_lease_may_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (_, (message, fields)) = told(caplog, led().register(1, life=2))
    assert (message, fields["cause"]) == ("leadership ended", "another process of it has registered")
    assert fields["lease_may_run"] is True


def test_a_leadership_below_an_epoch_that_somebody_has_seen_is_told_to_have_ended_by_that(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (_, (message, fields)) = told(caplog, led().register(3, life=2, seen=7))
    assert (message, fields["broker"], fields["cause"]) == ("leadership ended", 1, "a later epoch is known")


def test_an_election_is_told_with_who_led_before_and_who_is_in_sync(caplog: pytest.LogCaptureFixture) -> None:
    desk = led()
    desk.release(1)
    two = desk.group.replica(BrokerId(2))
    assert two is not None
    alive = (BrokerId(2), BrokerId(3))
    elected, changed = told(caplog, desk.submit(elect_command(desk.group, two, alive, Grounds.RELEASED)))
    assert elected == (
        "broker elected",
        {"group": GROUP, "broker": 2, "epoch": 2, "grounds": "released", "former": 1, "in_sync": "2,3"},
    )
    assert (changed[0], changed[1]["before"]) == ("in-sync set decided", "1,2,3")


def test_who_left_the_set_below_its_minimum_is_named_only_if_there_is_anybody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = led()
    ((_, fields),) = told(caplog, desk.alter(1, 1, 2))
    assert fields == {"group": GROUP, "members": "1,2", "before": "1,2,3", "version": desk.group.sync.version}
    ((_, fields),) = told(caplog, desk.alter(1, 1))
    assert (fields["members"], fields["also_eligible"]) == ("1", "2")
    assert desk.group.sync.holders == (BrokerId(1), BrokerId(2))


def test_a_change_of_the_quorums_members_that_was_ordered_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    c0, c1, c2 = (ReplicaId(f"c{each}.00000000000000{each}1") for each in range(3))
    log_quorum(MembersChanged(Configuration(voters=(c0, c1), outgoing=(c0, c1, c2), learners=()), Position(70)))
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("INFO", "members of the quorum changed")
    assert record.__dict__["fields"] == {
        "voters": f"{c0}, {c1}", "outgoing": f"{c0}, {c1}, {c2}", "learners": None, "position": 70,
    }  # fmt: skip


def test_who_voted_is_told_of_whoever_is_elected_only(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    c0, c1 = ReplicaId("c0.0000000000000001"), ReplicaId("c1.0000000000000001")
    log_quorum(RoleChanged(Role.LEADER, Epoch(2), c0, "election won", votes=(c0, c1)))
    log_quorum(RoleChanged(Role.FOLLOWER, Epoch(3), None, "higher term"))
    won, lost = (record.__dict__["fields"] for record in caplog.records)
    assert (won["votes"], "votes" in lost) == (f"{c0}, {c1}", False)


def test_a_controller_that_lacks_what_it_had_is_named_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    log_quorum(LostData(ReplicaId("c1.0000000000000001"), had=Position(900), has=Position(100)))
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("ERROR", "a controller lacks what it had on its disk")
    assert record.__dict__["fields"] == {"controller": "c1.0000000000000001", "had": 900, "has": 100}


def test_messages_that_are_dropped_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    for number in range(50):
        log_quorum(Strange(ReplicaId("c9.0000000000000009"), f"of cluster {number}"))
    assert [record.getMessage() for record in caplog.records] == ["message dropped"] * 10
    complaints.tell(ending=True)
    assert caplog.records[-1].__dict__["fields"]["left_out"] == 40
