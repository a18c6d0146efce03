"""Commands and images as bytes: both ways, golden, and refused by name when they are of another version."""

import pytest

from logherd.controller.commands import (
    AlterSyncSet,
    CancelTransfer,
    Claim,
    Clean,
    Command,
    Configure,
    Elect,
    Grounds,
    Move,
    PlanTransfer,
    Promote,
    Register,
    Release,
    SetLearner,
    SyncMember,
    Tune,
    decode_command,
    encode_command,
)
from logherd.controller.errors import CommandError, ImageError
from logherd.controller.machine import Machine
from logherd.controller.values import BrokerId, Group, Registration
from logherd.controller.verdicts import Refusal
from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch
from unit.controller.desk import KEY, Desk, point

B1, B2, R1, E1 = BrokerId(1), BrokerId(2), Registration(1), Epoch(1)

GOLDEN: list[tuple[Command, bytes]] = [
    (
        Claim(group=KEY, broker_id=B1, check_code="a;1"),
        b'{"kind":"claim","group":{"cluster":"c","name":"bg"},"broker_id":1,"check_code":"a;1"}',
    ),
    (
        Register(group=KEY, broker_id=B1, store_id="s", incarnation="i", address="b:1", end=point(1, 2)),
        (b'{"kind":"register","group":{"cluster":"c","name":"bg"},"broker_id":1,"store_id":"s","incarnation":"i",'
        b'"address":"b:1","replaces":"","end":{"epoch":1,"position":2},"committed":{"epoch":0,"position":0},'
        b'"epoch_seen":0,"trusted":true,"learner":false,"rules":{"replicas":3,"min_in_sync":2,"preferred":null}}'),
    ),
    (
        Move(group=KEY, broker_id=B1, registration=R1, address="b:2"),
        b'{"kind":"move","group":{"cluster":"c","name":"bg"},"broker_id":1,"registration":1,"address":"b:2"}',
    ),
    (
        Elect(
            group=KEY, expected_epoch=E1, broker_id=B1, registration=R1, alive=(B1, B2), grounds=Grounds.LEASE_OVER
        ),
        (b'{"kind":"elect","group":{"cluster":"c","name":"bg"},"expected_epoch":1,"broker_id":1,"registration":1,'
        b'"alive":[1,2],"grounds":"lease-over","request":""}'),
    ),
    (
        Release(group=KEY, broker_id=B1, store_id="s", incarnation="i", exited=True),
        (b'{"kind":"release","group":{"cluster":"c","name":"bg"},"broker_id":1,"store_id":"s","incarnation":"i",'
        b'"exited":true,"committed":{"epoch":0,"position":0}}'),
    ),
    (
        Release(group=KEY, broker_id=B1, store_id="s", incarnation="i", exited=False, epoch=E1),
        (b'{"kind":"release","group":{"cluster":"c","name":"bg"},"broker_id":1,"store_id":"s","incarnation":"i",'
        b'"exited":false,"committed":{"epoch":0,"position":0},"epoch":1}'),
    ),
    (
        AlterSyncSet(
            group=KEY, broker_id=B1, registration=R1, epoch=E1, version=1, committed=point(1, 5), min_in_sync=2,
            members=(SyncMember(broker_id=B1, registration=R1, end=point(1, 9)),),
        ),
        (b'{"kind":"alter-sync-set","group":{"cluster":"c","name":"bg"},"broker_id":1,"registration":1,"epoch":1,'
        b'"version":1,"members":[{"broker_id":1,"registration":1,"end":{"epoch":1,"position":9}}],'
        b'"committed":{"epoch":1,"position":5},"min_in_sync":2,"request":""}'),
    ),
    (
        PlanTransfer(group=KEY, expected_epoch=E1, broker_id=B1, registration=R1, request="r"),
        (b'{"kind":"plan-transfer","group":{"cluster":"c","name":"bg"},"expected_epoch":1,"broker_id":1,'
        b'"registration":1,"request":"r"}'),
    ),
    (
        CancelTransfer(group=KEY, expected_epoch=E1, request="r"),
        b'{"kind":"cancel-transfer","group":{"cluster":"c","name":"bg"},"expected_epoch":1,"request":"r"}',
    ),
    (
        SetLearner(group=KEY, expected_epoch=E1, broker_id=B1, learner=True),
        b'{"kind":"set-learner","group":{"cluster":"c","name":"bg"},"expected_epoch":1,"broker_id":1,"learner":true}',
    ),
    (
        Configure(group=KEY, replicas=3, min_in_sync=2, preferred=B1),
        b'{"kind":"configure","group":{"cluster":"c","name":"bg"},"replicas":3,"min_in_sync":2,"preferred":1}',
    ),
    (
        Clean(group=KEY, expected_epoch=E1, broker_ids=(B2,)),
        b'{"kind":"clean","group":{"cluster":"c","name":"bg"},"expected_epoch":1,"broker_ids":[2]}',
    ),
    (
        Promote(group=KEY, after=1, broker_id=B2, table="{}"),
        b'{"kind":"promote","group":{"cluster":"c","name":"bg"},"after":1,"broker_id":2,"table":"{}"}',
    ),
    (Tune(values={"gatherMs": 1}), b'{"kind":"tune","values":{"gatherMs":1}}'),
]  # fmt: skip


@pytest.mark.parametrize(("command", "text"), GOLDEN, ids=lambda each: type(each).__name__)
def test_every_command_is_written_and_read_as_ever(command: Command, text: bytes) -> None:
    assert encode_command(command) == b"\x01" + text
    assert decode_command(b"\x01" + text) == command


def test_every_kind_of_command_has_a_golden_example() -> None:
    assert {type(command) for command, _ in GOLDEN} == set(Command.__args__)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "version none"),
        (b"\x02{}", "version 2"),
        (b"\x01{}", "kind"),
        (b'\x01{"kind":"dance"}', "dance"),
        (b'\x01{"kind":"tune","values":{"a":"b"}}', "int"),
        (b'\x01{"kind":"tune","values":{},"more":1}', "more"),
        (b'\x01{"kind":"tune","values":{"\xff":1}}', "UTF-8|utf-8"),
        (b'\x01{"kind":"tu', "truncated"),
        (b'\x01{"kind":"clean","group":{"cluster":"c","name":"g","realm":"r"},"expected_epoch":1}', "realm"),
    ],
)
def test_a_command_that_cannot_be_read_is_refused_by_name(body: bytes, says: str) -> None:
    with pytest.raises(CommandError, match=says):
        decode_command(body)


@pytest.mark.parametrize("image", [b"", b"\x02{}", b"\x01{}", b"\x01\xff", b'\x01{"groups":[],"settings":{},"x":1}'])
def test_an_image_that_cannot_be_read_is_refused(image: bytes) -> None:
    with pytest.raises(ImageError):
        Machine.load(image)


@pytest.mark.parametrize(
    ("known", "of"),
    [
        (b'"cluster":', "a group's key"), (b'"next_id":', "a group"), (b'"check_code":', "a replica"),
        (b'"eligible":', "an in-sync set"), (b'"ended":', "a tenure"), (b'"replicas":3', "rules"),
        (b'"target":', "a transfer"), (b'"table":', "roles"),
    ],
)  # fmt: skip
def test_an_image_with_a_field_of_a_later_release_is_refused_whatever_it_is_of(known: bytes, of: str) -> None:
    """Read without it, this controller's state would be another than that of the others."""
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    desk.submit(PlanTransfer(group=KEY, expected_epoch=E1, broker_id=B2, registration=Registration(2), request="r"))
    desk.submit(Promote(group=KEY, after=1, broker_id=B1, table="table"))
    image = desk.machine.save()
    assert known in image, of
    with pytest.raises(ImageError, match="later"):
        Machine.load(image.replace(known, b'"later":1,' + known, 1))


def test_an_image_of_another_version_is_refused_however_well_it_reads() -> None:
    image = Desk().machine.save()
    with pytest.raises(ImageError, match="version 2"):
        Machine.load(b"\x02" + image[1:])
    with pytest.raises(ImageError, match="version none"):
        Machine.load(b"")


def test_what_was_set_and_who_was_promoted_outlive_the_log() -> None:
    desk = Desk()
    desk.submit(Tune(values={"gatherMs": 7}))
    desk.submit(Promote(group=KEY, after=1, broker_id=B1, table="table"))
    machine = Machine.load(desk.machine.save())
    assert (machine.settings, machine.roles(KEY)) == ({"gatherMs": 7}, desk.machine.roles(KEY))
    assert machine.save() == desk.machine.save()


def test_a_command_whose_outcome_breaks_a_rule_of_the_state_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    image = desk.machine.save()
    monkeypatch.setattr(Group, "check", broken_rule)
    with pytest.raises(InvariantError):
        desk.alter(1, 1, 2)
    assert desk.machine.save() == image


def broken_rule(group: Group) -> None:
    raise InvariantError(f"{group.key} is wrong")


def test_an_image_of_a_state_that_cannot_be_is_refused() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    image = desk.machine.save().replace(b'"members":[1,2,3]', b'"members":[2,3]')
    with pytest.raises(InvariantError, match="group 1"):
        Machine.load(image)


def test_the_image_of_a_known_state_is_written_as_ever() -> None:
    desk = Desk()
    desk.submit(Claim(group=KEY, broker_id=B1, check_code="a;1"))
    desk.submit(Tune(values={"gatherMs": 7}))
    assert desk.machine.save() == (
        b'\x01{"groups":[{"key":{"cluster":"c","name":"bg"},"epoch":0,"tenure":null,"sync":{"members":[],"eligible":[],'
        b'"doubted":[],"version":0,"committed":{"epoch":0,"position":0},"request":""},"replicas":[{"broker_id":1,"store_id":"",'
        b'"incarnation":"","registration":0,"address":"","check_code":"a;1","learner":false,"exited":false,'
        b'"end":{"epoch":0,"position":0}}],"next_id":2,"registrations":0,"rules":{"replicas":3,"min_in_sync":2,'
        b'"preferred":null},"transfer":null,"founded":false}],"settings":{"gatherMs":7}}'
    )


def test_an_image_from_before_brokers_could_be_doubted_is_read() -> None:
    desk = Desk()
    desk.found(1, 2, 3, master=1)
    image = desk.machine.save()
    assert b'"doubted":[],' in image
    assert Machine.load(image.replace(b'"doubted":[],', b"")).save() == image


@pytest.mark.parametrize("values", [{"leaseMs": 1}, {"gatherMs": -1}, {"transferMs": 1}])
def test_settings_that_do_not_exist_or_are_out_of_bounds_are_refused(values: dict[str, int]) -> None:
    desk = Desk()
    assert desk.submit(Tune(values=values)).refusal is Refusal.WRONG_RULES
    assert desk.machine.settings == {}


def test_settings_take_effect_at_once() -> None:
    desk = Desk()
    desk.submit(Tune(values={"transferMs": 777}))
    assert desk.office.options.transfer_ms == 777
