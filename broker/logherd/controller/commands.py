"""The commands: bodies of the data records of the controllers' log.

    version u8 = 1 | JSON object with the field "kind" and the fields of the command

Every command carries what it expects to find (compare-and-set), so that applying it twice, or late, changes nothing.
Nothing in a command is a time. Fields are never renamed or reused; a change of meaning is a new kind.
"""

from enum import Enum
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from logherd.controller.errors import CommandError
from logherd.controller.values import BrokerId, GroupKey, Registration, Rules
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN, Point

__all__ = [
    "AlterSyncSet", "CancelTransfer", "Claim", "Clean", "Command", "Configure", "Elect", "Grounds", "Move",
    "PlanTransfer", "Promote", "Register", "Release", "SetLearner", "SyncMember", "Tune", "decode_command",
    "encode_command",
]  # fmt: skip

VERSION: Final = 1


class _Command(Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    pass


class Claim(_Command, frozen=True, kw_only=True, tag="claim"):
    """Reserve an id for whoever knows the check code; the same claim may be repeated."""

    group: GroupKey
    broker_id: BrokerId
    check_code: str


class Register(_Command, frozen=True, kw_only=True, tag="register"):
    """A broker process has started with this store.

    `replaces` is the store that the controller leader found under this id, "" for none; `committed` the highest
    committed end it has heard of; `trusted`: the last stop was clean, or every acknowledgement was flushed;
    `epoch_seen`: the highest epoch in the store. The rules count only for a group that is not known yet.
    """

    group: GroupKey
    broker_id: BrokerId
    store_id: str
    incarnation: str
    address: str
    replaces: str = ""
    end: Point = ORIGIN
    committed: Point = ORIGIN
    epoch_seen: Epoch = Epoch(0)
    trusted: bool = True
    learner: bool = False
    rules: Rules = Rules()


class Move(_Command, frozen=True, kw_only=True, tag="move"):
    """A running broker has another address."""

    group: GroupKey
    broker_id: BrokerId
    registration: Registration
    address: str


class Grounds(Enum):
    """Why an election is right. All but the waiting itself is checked again when the command is applied."""

    FIRST = "first"
    """The group never had a master, and as many brokers as configured have registered."""
    FIRST_BY_OPERATOR = "first-by-operator"
    """The same with fewer, or by who lacks what another has; data of the others may be lost."""
    LEASE_OVER = "lease-over"
    """The controller leader has waited out the lease of the latest leadership."""
    RELEASED = "released"
    """The latest leadership holds no lease."""
    DOUBTED = "doubted"
    """All who had everything went down before they had flushed it; of what they have, this is the longest."""
    OUTRUN = "outrun"
    """Controllers have lost decisions, and the longest log was found without the in-sync set; see Group.outrun."""
    UNCLEAN = "unclean"
    """An operator accepts the loss of what this replica does not have; the lease was waited out."""


class Elect(_Command, frozen=True, kw_only=True, tag="elect"):
    """Make this process the master in the epoch after `expected_epoch`, or in `epoch`, a later one. `alive`: who of the
    in-sync set is known to live and stays in it."""

    group: GroupKey
    expected_epoch: Epoch
    broker_id: BrokerId
    registration: Registration
    alive: tuple[BrokerId, ...]
    grounds: Grounds
    request: str = ""
    epoch: Epoch | UnsetType = UNSET


class Release(_Command, frozen=True, kw_only=True, tag="release"):
    """This incarnation leads no more: it says so itself, or its guardian has seen it exit (`exited`).

    `epoch`: the newest that it gives up; the same process may lead a later one when this is repeated or comes late.
    Without it any: because the process has ended, or is of a LogHerd that did not say.
    """

    group: GroupKey
    broker_id: BrokerId
    store_id: str
    incarnation: str
    exited: bool
    committed: Point = ORIGIN
    epoch: Epoch | UnsetType = UNSET


class SyncMember(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A member of a proposed set: the process that the master has heard acknowledge, and up to where."""

    broker_id: BrokerId
    registration: Registration = Registration(0)
    end: Point = ORIGIN


class AlterSyncSet(_Command, frozen=True, kw_only=True, tag="alter-sync-set"):
    """The master proposes another in-sync set. `min_in_sync` is the minimum that it acts by."""

    group: GroupKey
    broker_id: BrokerId
    registration: Registration
    epoch: Epoch
    version: int
    members: tuple[SyncMember, ...]
    committed: Point
    min_in_sync: int
    request: str = ""


class PlanTransfer(_Command, frozen=True, kw_only=True, tag="plan-transfer"):
    """The master shall hand over to this in-sync process."""

    group: GroupKey
    expected_epoch: Epoch
    broker_id: BrokerId
    registration: Registration
    request: str


class CancelTransfer(_Command, frozen=True, kw_only=True, tag="cancel-transfer"):
    """The planned hand-over took too long."""

    group: GroupKey
    expected_epoch: Epoch
    request: str


class SetLearner(_Command, frozen=True, kw_only=True, tag="set-learner"):
    """Demote a replica to a learner, which is never in sync, or promote it."""

    group: GroupKey
    expected_epoch: Epoch
    broker_id: BrokerId
    learner: bool


class Configure(_Command, frozen=True, kw_only=True, tag="configure"):
    """Set the rules of a group."""

    group: GroupKey
    replicas: int
    min_in_sync: int
    preferred: BrokerId | None = None


class Clean(_Command, frozen=True, kw_only=True, tag="clean"):
    """Forget these brokers; without ids the whole group, but never its epoch."""

    group: GroupKey
    expected_epoch: Epoch
    broker_ids: tuple[BrokerId, ...] = ()


class Promote(_Command, frozen=True, kw_only=True, tag="promote"):
    """Static mode: an operator has this broker lead, in place of the table of roles whose number is `after`; see
    values.Roles."""

    group: GroupKey
    after: int
    broker_id: BrokerId
    table: str


class Tune(_Command, frozen=True, kw_only=True, tag="tune"):
    """Set options of the controllers themselves."""

    values: dict[str, int]


Command = (
    Claim | Register | Move | Elect | Release | AlterSyncSet | PlanTransfer | CancelTransfer | SetLearner | Configure
    | Clean | Promote | Tune
)  # fmt: skip

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)


def encode_command(command: Command) -> bytes:
    """The body of the record."""
    return bytes((VERSION,)) + _encoder.encode(command)


def decode_command(body: bytes | memoryview) -> Command:
    """The command in a record's body. Raises: CommandError for another version, an unknown kind, or damage."""
    if not body or body[0] != VERSION:
        found = body[0] if body else "none"
        raise CommandError(f"a controller command has version {found}, this program reads version {VERSION}")
    try:
        return _decoder.decode(body[1:])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"a controller command cannot be read: {error}") from error
