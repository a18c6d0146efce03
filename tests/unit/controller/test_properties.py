"""Any sequence of commands, sensible or not: the invariants hold, and an image and the rest equal the whole log."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logherd.controller.commands import (
    AlterSyncSet,
    CancelTransfer,
    Claim,
    Clean,
    Command,
    Configure,
    Elect,
    Grounds,
    PlanTransfer,
    Register,
    Release,
    SetLearner,
    SyncMember,
    decode_command,
    encode_command,
)
from logherd.controller.machine import Machine
from logherd.controller.values import BrokerId, Group, GroupKey, Registration, Rules
from logherd.controller.verdicts import Verdict
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import Point

KEY = GroupKey("c", "bg")
ids = st.integers(1, 4).map(BrokerId)
epochs = st.integers(0, 3)
points = st.builds(Point, st.integers(0, 3).map(Epoch), st.integers(0, 3).map(Position))
requests = st.sampled_from(["", "", "r1", "r2"])


@st.composite
def commands(draw: st.DrawFn, group: Group | None) -> Command:
    """Mostly what fits the state, so that much is accepted; sometimes off by one."""
    broker = draw(ids)
    epoch = Epoch((group.epoch if group else 0) + draw(st.sampled_from([0, 0, 0, 0, 1, -1])))
    replica = group.replica(broker) if group else None
    number = Registration((replica.registration if replica else 1) + draw(st.sampled_from([0, 0, 0, 1])))
    store = f"s{broker}.{draw(st.integers(0, 1))}"
    life = f"{store}.{draw(st.integers(0, 3))}"
    some = tuple(draw(st.lists(ids, unique=True, max_size=4)))

    def member(each: BrokerId) -> SyncMember:
        known = group.replica(each) if group else None
        return SyncMember(broker_id=each, registration=known.registration if known else Registration(0), end=point)

    point = draw(points)
    tenure = group.tenure if group else None
    made = [
        lambda: Claim(group=KEY, broker_id=broker, check_code=draw(st.sampled_from("ab"))),
        lambda: Register(
            group=KEY, broker_id=broker, store_id=store, incarnation=life, address="a:1", end=point,
            replaces=replica.store_id if replica else "", committed=draw(points), epoch_seen=Epoch(draw(epochs)),
            trusted=draw(st.booleans()), learner=draw(st.booleans()),
            rules=Rules(replicas=draw(st.integers(1, 3)), min_in_sync=1),
        ),
        lambda: Elect(
            group=KEY, expected_epoch=epoch, broker_id=broker, registration=number, alive=some,
            grounds=draw(st.sampled_from(list(Grounds))), request=draw(requests),
        ),
        lambda: AlterSyncSet(
            group=KEY, broker_id=tenure.broker_id if tenure else broker, epoch=tenure.epoch if tenure else epoch,
            registration=tenure.registration if tenure else number, version=group.sync.version if group else 0,
            members=tuple(member(each) for each in sorted({*some, *([tenure.broker_id] if tenure else [])})),
            committed=draw(points), min_in_sync=group.rules.min_in_sync if group else 1, request=draw(requests),
        ),
        lambda: AlterSyncSet(
            group=KEY, broker_id=broker, epoch=epoch, registration=number, version=draw(st.integers(0, 5)),
            members=tuple(member(each) for each in some), committed=point, min_in_sync=draw(st.integers(1, 2)),
        ),
        lambda: Release(
            group=KEY, broker_id=broker, store_id=replica.store_id if replica else "", exited=draw(st.booleans()),
            incarnation=draw(st.sampled_from([replica.incarnation if replica else "", life])), committed=point,
        ),
        lambda: PlanTransfer(
            group=KEY, expected_epoch=epoch, broker_id=broker, registration=number, request=draw(requests)
        ),
        lambda: CancelTransfer(group=KEY, expected_epoch=epoch, request=draw(requests)),
        lambda: SetLearner(group=KEY, expected_epoch=epoch, broker_id=broker, learner=draw(st.booleans())),
        lambda: Configure(
            group=KEY, replicas=3, min_in_sync=draw(st.integers(1, 3)), preferred=draw(st.none() | ids)
        ),
        lambda: Clean(group=KEY, expected_epoch=epoch, broker_ids=some),
    ]  # fmt: skip
    return draw(st.sampled_from(made))()


def check_step(before: Group | None, command: Command, verdict: Verdict, after: Group | None) -> None:
    """What one command may do to a group."""
    if verdict.refusal is not None:
        assert after is before
        return
    assert after is not None
    old = before if before is not None else Group(key=KEY)
    assert after.epoch >= old.epoch
    if after.tenure != old.tenure and after.tenure is not None:
        begun = old.tenure is None or after.tenure.epoch != old.tenure.epoch
        if begun:
            check_election(old, command, after)
        else:
            assert old.tenure is not None
            # Once begun, a leadership only ever ends.
            assert after.tenure.registration == old.tenure.registration
            assert after.tenure.ended >= old.tenure.ended
            assert after.tenure.released >= old.tenure.released
    if after.sync.members != old.sync.members:
        assert after.sync.version > old.sync.version
        check_set_change(old, command, after)


def check_election(old: Group, command: Command, after: Group) -> None:
    assert isinstance(command, Elect)
    assert after.tenure is not None
    assert after.epoch == after.tenure.epoch == old.epoch + 1
    if command.grounds is Grounds.DOUBTED:
        assert not old.sync.holders
        assert command.broker_id in old.sync.doubted
        assert after.sync.members == (command.broker_id,)
    elif command.grounds is Grounds.OUTRUN:
        assert old.outrun
        assert after.sync.holders == (command.broker_id,)
    elif command.grounds not in (Grounds.FIRST, Grounds.FIRST_BY_OPERATOR, Grounds.UNCLEAN):
        assert command.broker_id in (*old.sync.members, *old.sync.eligible)
        assert set(after.sync.members) <= {*old.sync.members, command.broker_id}
    if command.grounds is Grounds.RELEASED:
        assert old.tenure is not None
        assert old.tenure.released


def check_set_change(old: Group, command: Command, after: Group) -> None:
    if isinstance(command, AlterSyncSet):
        assert old.master is not None
        assert (command.broker_id, command.registration) == (old.master.broker_id, old.master.registration)
        assert command.epoch == old.epoch
        assert command.version == old.sync.version
    elif not isinstance(command, (Elect, Clean)):
        # Lost data, or a demotion: only ever smaller, by the one broker that it is about.
        assert isinstance(command, (Register, SetLearner))
        assert set(old.sync.members) - set(after.sync.members) == {command.broker_id}
        assert set(after.sync.members) < set(old.sync.members)


@pytest.mark.timeout(300)
@settings(max_examples=300)
@given(st.data(), st.integers(1, 40), st.integers(0, 40))
def test_any_sequence_of_commands_keeps_the_invariants_and_any_image_is_as_good_as_the_log(
    data: st.DataObject, length: int, imaged: int
) -> None:
    machine, other = Machine(), Machine()
    masters: dict[int, Registration] = {}
    for number in range(length):
        if number == imaged:
            other = Machine.load(machine.save())
        before = machine.group(KEY)
        body = encode_command(data.draw(commands(before)))
        command = decode_command(body)
        verdict = machine.apply(command)
        after = machine.group(KEY)
        check_step(before, command, verdict, after)
        assert other.apply(decode_command(body)) == verdict
        if after is not None and after.tenure is not None:
            # At most one master per epoch, ever.
            assert masters.setdefault(after.tenure.epoch, after.tenure.registration) == after.tenure.registration
        # Applied twice is applied once, unless it is a new fact each time.
        if verdict.refusal is None:
            image = machine.save()
            again = Machine.load(image)
            again.apply(command)
            assert again.save() == image or again_refers_to_new_state(command)
    assert other.save() == machine.save()


def test_an_election_of_who_is_doubted_is_one_of_those_that_may_be() -> None:
    """Chance makes one in some thousand sequences."""
    machine = Machine()

    def process(life: str, *, trusted: bool = True) -> Register:
        rules = Rules(replicas=1, min_in_sync=1)
        return Register(
            group=KEY, broker_id=BrokerId(1), store_id="s", incarnation=life, address="a:1",
            trusted=trusted, rules=rules,
        )  # fmt: skip

    def election(number: int, grounds: Grounds) -> Elect:
        return Elect(
            group=KEY, expected_epoch=Epoch(number - 1), broker_id=BrokerId(1), registration=Registration(number),
            alive=(BrokerId(1),), grounds=grounds,
        )  # fmt: skip

    for command in (
        process("1"), election(1, Grounds.FIRST), process("2", trusted=False), election(2, Grounds.DOUBTED),
    ):  # fmt: skip
        before = machine.group(KEY)
        verdict = machine.apply(command)
        assert verdict.refusal is None
        check_step(before, command, verdict, machine.group(KEY))


def again_refers_to_new_state(command: Command) -> bool:
    """A full clean ends a group again (version + 1), which changes nothing that anybody relies on."""
    return isinstance(command, Clean)
