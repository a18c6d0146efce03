"""R20 after a recovery of the quorum: epochs that the lost controllers may have granted are not granted again."""

import pytest

from logherd.controller.admission import ElectionRequest, admit_election, admit_register
from logherd.controller.commands import Elect, Grounds, Register
from logherd.controller.machine import Machine
from logherd.controller.reports import Granted, Withheld
from logherd.controller.settings import OfficeOptions, epochs_above
from logherd.controller.values import BrokerId, Rules
from logherd.controller.verdicts import Refusal
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN, Point
from unit.controller.desk import KEY, Desk, point

ABOVE = epochs_above(1)
EPOCH_MAX = 1 << 30
"""Of a registration, on the wire."""


def recovered(*, bootstrap_ms: int = 0) -> Desk:
    return Desk(now=60_000, options=OfficeOptions(epochs_above=ABOVE, bootstrap_ms=bootstrap_ms))


def join(desk: Desk, broker: int, *, end: Point = ORIGIN, seen: int = 0) -> None:
    """As a broker is heard that asks to be registered."""
    wish = Register(
        group=KEY, broker_id=BrokerId(broker), store_id=f"store{broker}", incarnation=f"store{broker}.1",
        address=f"b{broker}:10911", end=end, epoch_seen=Epoch(seen), rules=Rules(replicas=3, min_in_sync=2),
    )  # fmt: skip
    admitted = admit_register(desk.office, wish, desk.now)
    assert isinstance(admitted, Register)
    assert desk.submit(admitted).refusal is None


def forgetful() -> Desk:
    """Broker 1 leads in epoch 1, as far as the survivors know."""
    former = Desk(now=60_000)
    former.found(1, 2, 3, master=1)
    desk = recovered()
    desk.now = former.now
    desk.machine = Machine.load(former.machine.save())
    desk.reopen()
    return desk


def test_r20_the_next_election_leaps_over_every_epoch_that_may_have_been_granted() -> None:
    desk = forgetful()
    assert desk.wait(60_000, 2, 3) == []
    assert desk.beat(2) == Withheld(None, Refusal.FENCED_EPOCH)
    join(desk, 2)
    elections = desk.wait(1_000, 2, 3)
    assert [election.broker_id in (2, 3) for election in elections] == [True]
    assert desk.group.epoch == ABOVE + 2
    for broker in (2, 3):
        assert desk.beat(broker) != Withheld(None, Refusal.FENCED_EPOCH)


def test_r20_who_leads_goes_on_and_registrations_do_not_end_it() -> None:
    desk = forgetful()
    assert isinstance(desk.beat(1), Granted)
    join(desk, 2)
    assert desk.wait(60_000, 1, 2, 3) == []
    assert isinstance(desk.beat(1), Granted)
    assert desk.group.epoch == 1


def test_r20_a_leader_that_was_not_heard_in_time_registers_and_leads_in_an_epoch_of_its_own() -> None:
    desk = forgetful()
    desk.now += desk.terms.waiter_ms
    assert desk.beat(1) == Withheld(None, Refusal.FENCED_EPOCH)
    join(desk, 1)
    assert [election.broker_id for election in desk.wait(1_000, 1)] == [1]
    assert isinstance(desk.beat(1), Granted)
    assert desk.group.epoch == ABOVE + 2


def test_r20_an_operator_waits_until_the_group_has_leapt_too() -> None:
    desk = forgetful()
    desk.now += desk.terms.waiter_ms
    desk.beat(2)
    wanted = ElectionRequest(group=KEY, target=BrokerId(2), unclean=True)
    assert admit_election(desk.office, wanted, desk.now) is Refusal.RUNNING
    join(desk, 3)
    command = admit_election(desk.office, wanted, desk.now)
    assert isinstance(command, Elect)
    assert command.expected_epoch == ABOVE + 1


def test_r2_nobody_takes_the_id_of_a_broker_that_is_asked_to_register() -> None:
    desk = forgetful()
    desk.now += desk.terms.waiter_ms
    desk.beat(2)
    other = Register(group=KEY, broker_id=BrokerId(2), store_id="other", incarnation="other.1", address="x:1")
    assert admit_register(desk.office, other, desk.now) is Refusal.ID_TAKEN


def test_r12_a_new_group_is_founded_once_and_for_good() -> None:
    desk = recovered()
    for broker in (1, 2, 3):
        join(desk, broker)
        desk.beat(broker)
    assert [election.grounds for election in desk.wait(1_000, 1, 2, 3)] == [Grounds.FIRST]
    assert desk.wait(60_000, 1, 2, 3) == []
    assert desk.group.epoch == ABOVE + 4096


@pytest.mark.parametrize(("seen", "founded"), [(0, True), (7, False)])
def test_r12_only_a_group_that_nobody_has_led_is_founded_by_fewer(seen: int, *, founded: bool) -> None:
    desk = recovered(bootstrap_ms=5_000)
    join(desk, 2, seen=seen)
    join(desk, 1)
    elections = desk.wait(30_000, 1, 2)
    assert [election.grounds for election in elections] == [Grounds.FIRST_BY_OPERATOR] * founded


def test_r20_who_has_seen_a_later_epoch_still_brings_it() -> None:
    desk = recovered()
    join(desk, 1, end=point(ABOVE + 5, 100), seen=ABOVE + 9)
    join(desk, 2, end=point(3, 50), seen=3)
    assert desk.group.epoch == ABOVE + 9


def test_no_number_of_recoveries_uses_up_the_epochs() -> None:
    assert [epochs_above(each) for each in (0, 1, 2)] == [0, 1 << 18, 1 << 19]
    assert epochs_above((1 << 31) - 1) <= EPOCH_MAX // 2
