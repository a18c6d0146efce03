"""Ids, claims, cleaning and addresses: R19, R20, DX-18, DX-19, DX-25."""

from logherd.controller.admission import admit_clean
from logherd.controller.commands import Claim, Clean, Move, Register, SetLearner
from logherd.controller.values import BrokerId, GroupKey, Registration
from logherd.controller.verdicts import Refusal
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN
from unit.controller.desk import KEY, Desk, point


def claim(desk: Desk, broker: int, code: str) -> Refusal | None:
    return desk.submit(Claim(group=KEY, broker_id=BrokerId(broker), check_code=code)).refusal


def clean(desk: Desk, *brokers: int, epoch: int = 1) -> Refusal | None:
    ids = tuple(BrokerId(broker) for broker in brokers)
    return desk.submit(Clean(group=KEY, expected_epoch=Epoch(epoch), broker_ids=ids)).refusal


def test_a_claim_is_made_once_and_may_be_repeated() -> None:
    desk = Desk()
    assert claim(desk, 2, "a;1") is Refusal.ID_TAKEN
    assert claim(desk, 1, "a;1") is None
    assert claim(desk, 1, "a;1") is None
    assert claim(desk, 1, "b;2") is Refusal.ID_TAKEN
    assert claim(desk, 2, "b;2") is None
    assert desk.group.next_id == 3


def test_a_claim_that_comes_again_takes_nothing_from_who_has_registered_since() -> None:
    desk = Desk()
    claim(desk, 1, "a;1")
    desk.register(1)
    before = desk.group
    assert claim(desk, 1, "a;1") is None
    assert desk.group == before


def test_no_id_below_1_and_none_that_no_field_holds_is_given() -> None:
    desk = Desk()
    claim(desk, 1, "a;1")
    for broker in (0, -1, 1 << 31):
        assert claim(desk, broker, "b;2") is Refusal.ID_TAKEN
    assert claim(desk, (1 << 31) - 1, "b;2") is None


def test_a_claimed_id_is_registered_by_the_first_store() -> None:
    desk = Desk()
    claim(desk, 1, "a;1")
    assert desk.register(1).refusal is None
    assert desk.registration(1) == 1


def test_r20_groups_of_one_name_in_two_clusters_are_two_groups() -> None:
    desk = Desk()
    desk.register(1)
    other = Register(
        group=GroupKey("other", KEY.name), broker_id=BrokerId(1), store_id="s", incarnation="i", address="o:1"
    )
    assert desk.submit(other).refusal is None
    assert len(desk.machine.named(KEY.name)) == 2
    assert desk.registration(1) == 1


def test_a_repeated_registration_of_one_process_is_one_registration() -> None:
    desk = Desk()
    desk.register(1)
    desk.register(1)
    assert desk.registration(1) == 1
    desk.register(1, life=2)
    assert desk.registration(1) == 2


def test_of_two_registrations_of_one_process_what_either_has_seen_counts() -> None:
    late, latest = (ORIGIN, 0), (point(7, 500), 8)
    for order in ((late, latest), (latest, late)):
        desk = Desk()
        for end, seen in order:
            desk.register(1, end=end, seen=seen)
        replica = desk.group.replica(BrokerId(1))
        assert replica is not None
        assert (desk.registration(1), replica.end, desk.group.epoch) == (1, point(7, 500), 8)


def test_r20_a_leadership_ends_when_its_own_process_has_seen_a_later_epoch() -> None:
    desk = Desk()
    for broker in (1, 2, 3):
        desk.register(broker)
    desk.wait(500, 1, 2, 3)
    assert desk.group.master is not None
    desk.register(2, seen=5)
    assert (desk.group.master, desk.group.epoch) == (None, 5)


def test_a_registration_needs_an_id_a_store_and_an_incarnation() -> None:
    desk = Desk()
    for broker, store, life in ((0, "s", "i"), (1, "", "i"), (1, "s", "")):
        command = Register(group=KEY, broker_id=BrokerId(broker), store_id=store, incarnation=life, address="a:1")
        assert desk.submit(command).refusal is Refusal.ID_TAKEN


def test_r19_an_address_that_changed_is_proposed_from_the_heartbeat() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.beat(2, address="elsewhere:10911")
    (command,) = desk.decide()
    assert isinstance(command, Move)
    replica = desk.group.replica(BrokerId(2))
    assert replica is not None
    assert replica.address == "elsewhere:10911"


def test_a_move_of_an_older_process_is_refused() -> None:
    desk = Desk()
    desk.register(1)
    late = Move(group=KEY, broker_id=BrokerId(1), registration=Registration(7), address="x:1")
    assert desk.submit(late).refusal is Refusal.FENCED_PROCESS


def test_r20_cleaning_a_group_keeps_its_epoch_and_its_lease() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    assert clean(desk, epoch=9) is Refusal.FENCED_EPOCH
    assert clean(desk) is None
    assert desk.group.epoch == 1
    assert desk.group.master is None
    for broker in (1, 2, 3):
        desk.register(broker, end=point(1, 10))
    assert desk.wait(desk.terms.waiter_ms, 1, 2, 3, end=point(1, 10)) == []
    assert len(desk.wait(200, 1, 2, 3, end=point(1, 10))) == 1
    assert desk.group.epoch == 1 + 4096


def test_who_may_hold_what_others_do_not_is_not_forgotten() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    assert clean(desk, 3) is Refusal.IN_SYNC
    desk.alter(1, 1, 2)
    assert clean(desk, 3) is None
    assert desk.group.replica(BrokerId(3)) is None
    assert clean(desk, 3) is Refusal.UNKNOWN_REPLICA
    desk.alter(1, 1)
    assert clean(desk, 2) is Refusal.IN_SYNC


def test_the_living_are_cleaned_only_by_name() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    whole = Clean(group=KEY, expected_epoch=Epoch(1))
    assert admit_clean(desk.office, whole, desk.now, living=False) is Refusal.IN_SYNC
    assert admit_clean(desk.office, whole, desk.now, living=True) is whole
    one = Clean(group=KEY, expected_epoch=Epoch(1), broker_ids=(BrokerId(3),))
    assert admit_clean(desk.office, one, desk.now, living=False) is Refusal.ALIVE
    desk.now += 60_000
    assert admit_clean(desk.office, one, desk.now, living=False) is one


def test_what_a_broker_is_already_it_is_not_made_again() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    for broker, learner in ((2, False), (3, True), (3, True)):
        before = desk.group
        order = SetLearner(
            group=KEY, expected_epoch=before.epoch, broker_id=BrokerId(broker), learner=learner
        )  # fmt: skip
        assert desk.submit(order).refusal is None
        changed = before.sync.version != desk.group.sync.version
        assert changed == (before.replica(BrokerId(broker)) != desk.group.replica(BrokerId(broker)))
    assert desk.group.sync.members == (1, 2)
