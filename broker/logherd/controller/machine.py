"""The replicated state and how commands change it. A pure function of the log: no clock, no chance, no order of sets.

An image is the state as bytes: version u8 = 1 | JSON {"groups": [...], "settings": {...}, "roles": [...]}; roles
only if there are any. Equal states have equal images, so replicas can be compared.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from logherd.controller import insync, mastership, membership, promotion
from logherd.controller.commands import (
    AlterSyncSet,
    CancelTransfer,
    Claim,
    Clean,
    Command,
    Configure,
    Elect,
    Move,
    PlanTransfer,
    Promote,
    Register,
    Release,
    SetLearner,
    Tune,
)
from logherd.controller.errors import ImageError
from logherd.controller.leases import LeaseTerms
from logherd.controller.settings import LEASE_WAIT, RECORDED, TUNABLE
from logherd.controller.values import Group, GroupKey, Roles
from logherd.controller.verdicts import Promoted, Refusal, Verdict, refused

__all__ = ["Machine"]

_VERSION: Final = 1
_DEFAULT_WAIT_MS: Final = LeaseTerms().waiter_ms

_RULES: Final[dict[type[Any], Callable[[Group | None, Any], Verdict]]] = {
    Claim: membership.claim,
    Register: membership.register,
    Move: membership.move,
    SetLearner: membership.set_learner,
    Configure: membership.configure,
    Clean: membership.clean,
    Elect: mastership.elect,
    Release: mastership.release,
    PlanTransfer: mastership.plan_transfer,
    CancelTransfer: mastership.cancel_transfer,
    AlterSyncSet: insync.alter_sync_set,
}


class _Image(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    groups: list[Group]
    settings: dict[str, int]
    roles: list[Roles] = []


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(_Image)


class Machine:
    """All groups, and the controllers' own settings. One owner; what it hands out is immutable."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Group] = {}
        self._settings: dict[str, int] = {}
        self._roles: dict[GroupKey, Roles] = {}

    @property
    def settings(self) -> dict[str, int]:
        """Options of the controllers that were set while they ran."""
        return {name: value for name, value in self._settings.items() if name in TUNABLE}

    @property
    def lease_wait_ms(self) -> int:
        """How long whoever takes office has to wait for leases of an earlier office. Of one that recorded nothing it is
        known only that releases before this one did not, and what their default was."""
        return self._settings.get(LEASE_WAIT, _DEFAULT_WAIT_MS)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def group(self, key: GroupKey) -> Group | None:
        """The group of this key."""
        return self._groups.get(key)

    def named(self, name: str) -> list[Group]:
        """The groups of this name in any cluster; stock tools do not name the cluster."""
        return [group for key, group in self._groups.items() if key.name == name]

    def roles(self, key: GroupKey) -> Roles | None:
        """The latest promotion in a group of static mode."""
        return self._roles.get(key)

    def apply(self, command: Command) -> Verdict:
        """Take the next command of the log. A refused one changes nothing, and neither does a repeated one.

        Raises: InvariantError if the outcome breaks a rule of the state; the process must stop.
        """
        if isinstance(command, Tune):
            return self._tune(command)
        if isinstance(command, Promote):
            return self._promote(command)
        before = self._groups.get(command.group)
        verdict = _RULES[type(command)](before, command)
        if verdict.refusal is None and verdict.group is not None and verdict.group is not before:
            verdict.group.check()
            self._groups[command.group] = verdict.group
        return verdict

    def _promote(self, command: Promote) -> Verdict:
        roles = promotion.promote(self._roles.get(command.group), command)
        if isinstance(roles, Verdict):
            return roles
        self._roles[command.group] = roles
        return Verdict(events=(Promoted(roles.group, roles.broker_id, roles.number),))

    def _tune(self, command: Tune) -> Verdict:
        for name, value in command.values.items():
            bounds = TUNABLE.get(name) or RECORDED.get(name)
            if bounds is None or not bounds[0] <= value <= bounds[1]:
                return refused(None, Refusal.WRONG_RULES, f"{name}={value} cannot be set")
        self._settings.update(command.values)
        return Verdict()

    def save(self) -> bytes:
        """The image of the state."""
        groups = [self._groups[key] for key in sorted(self._groups)]
        roles = [self._roles[key] for key in sorted(self._roles)]
        return bytes((_VERSION,)) + _encoder.encode(_Image(groups=groups, settings=self._settings, roles=roles))

    @classmethod
    def load(cls, image: bytes) -> "Machine":
        """The state of an image.

        Raises: ImageError if it is of another version or damaged; InvariantError if a group breaks the rules.
        """
        if not image or image[0] != _VERSION:
            raise ImageError(f"an image has version {image[0] if image else 'none'}, this program reads {_VERSION}")
        try:
            read = _decoder.decode(image[1:])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ImageError(f"an image cannot be read: {error}") from error
        machine = cls()
        for group in read.groups:
            group.check()
            machine._groups[group.key] = group
        machine._settings = dict(read.settings)
        machine._roles = {roles.group: roles for roles in read.roles}
        return machine
