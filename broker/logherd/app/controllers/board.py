"""Carries out what the desk's steps ask for: confirmations, decisions, and waiting for a master.

It keeps the office while this controller is the ready leader and throws it away when it is not (office.py says why).
Whatever was asked under one office is answered under the same one, or with a redirect.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from logherd.app.quorum.node import boot_ms
from logherd.app.quorum.outcomes import Applied, Outcome, ReadAt, ReadOutcome, Rejected
from logherd.controller.commands import Command, encode_command
from logherd.controller.leases import LeaseTerms
from logherd.controller.machine import Machine
from logherd.controller.office import Office
from logherd.controller.settings import OfficeOptions
from logherd.controller.values import Group
from logherd.controller.verdicts import Verdict
from logherd.raft.output import Role, RoleChanged
from logherd.service.controllers.steps import AwaitMaster, Confirm, Decide, Step
from logherd.service.ports import Reply
from logherd.telemetry.log import Log

__all__ = ["Asker", "Board"]

_WAITERS_MAX = 10_000

_log = Log("logherd.controller")


@dataclass(frozen=True, slots=True)
class Asker:
    """Who is to be answered, once; `park` says that it will take long."""

    answer: Callable[[Reply], None]
    park: Callable[[], None]


class Quorum(Protocol):
    """The member that decides."""

    def propose(self, body: bytes, then: Callable[[Outcome[Verdict]], None]) -> None: ...

    def read(self, then: Callable[[ReadOutcome], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class _Waiter:
    step: AwaitMaster
    deadline: int
    office: Office
    asker: Asker


class Board:
    """One controller's part in the leadership of the quorum. Loop thread only; nothing here blocks."""

    def __init__(
        self, machine: Callable[[], Machine], terms: LeaseTerms, options: OfficeOptions, *,
        redirect: Callable[[], Reply], uncertain: Callable[[], Reply],
    ) -> None:  # fmt: skip
        """`redirect` and `uncertain` make the answers for "not the leader" and "the outcome is unknown"."""
        self._machine = machine
        self._terms = terms
        self._options = options
        self._redirect = redirect
        self._uncertain = uncertain
        self.quorum: Quorum | None = None
        self.office: Office | None = None
        self._waiters: list[_Waiter] = []

    def groups(self) -> tuple[Group, ...]:
        """The broker groups as they are decided here, which may be behind the leader's."""
        return tuple(self._machine())

    # ---- what the member tells ----------------------------------------------------------------------------------

    def role_changed(self, event: RoleChanged) -> None:
        """Take office when the leadership is ready, leave it when it ends."""
        if event.role is Role.LEADER and event.ready:
            self.office = Office(self._machine(), self._terms, self._options, boot_ms())
        elif event.role is not Role.LEADER and self.office is not None:
            self.office = None
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter.asker.answer(self._redirect())

    def applied(self, command: Command, verdict: Verdict) -> None:
        """A command was applied to the state, whoever proposed it."""
        if self.office is not None:
            self.office.applied(command, verdict, boot_ms())
        group = verdict.group
        if self._waiters and group is not None:
            self._settle(lambda waiter: group if waiter.step.group == group.key and _is_led(waiter, group) else None)

    def tick(self) -> None:
        """Every 50 ms: what the office wants decided, and who has waited long enough."""
        now = boot_ms()
        office = self.office
        if office is None:
            return
        for command in office.decide(now):
            self._propose(office, command, _nothing_more)
        if self._waiters:
            self._settle(lambda waiter: self._found(waiter) if now >= waiter.deadline else None)

    # ---- steps --------------------------------------------------------------------------------------------------

    def carry_out(self, step: Step, asker: Asker) -> None:
        """Do what a step asks, and what follows from it; `asker` is answered once, now or later."""
        if isinstance(step, Reply):
            asker.answer(step)
            return
        office, quorum = self.office, self.quorum
        if office is None or quorum is None:
            asker.answer(self._redirect())
            return
        match step:
            case Confirm():
                quorum.read(lambda outcome: self._confirmed(office, step, outcome, asker))
            case Decide():
                office.submitted(step.command)
                self._propose(office, step.command, lambda outcome: self._decided(office, step, outcome, asker))
            case AwaitMaster():
                self._await(office, step, asker)

    def _confirmed(self, office: Office, step: Confirm, outcome: ReadOutcome, asker: Asker) -> None:
        if isinstance(outcome, ReadAt) and office is self.office:
            self.carry_out(step.then(boot_ms()), asker)
        else:
            asker.answer(self._redirect())

    def _decided(self, office: Office, step: Decide, outcome: Outcome[Verdict], asker: Asker) -> None:
        if isinstance(outcome, Applied):
            if office is self.office:
                self.carry_out(step.then(outcome.result, boot_ms()), asker)
            else:
                asker.answer(self._uncertain())
        elif isinstance(outcome, Rejected):
            asker.answer(self._redirect())
        else:
            asker.answer(self._uncertain())

    def _propose(self, office: Office, command: Command, then: Callable[[Outcome[Verdict]], None]) -> None:
        def told(outcome: Outcome[Verdict]) -> None:
            if isinstance(outcome, Rejected):
                office.dropped(command)
                _log.warning("proposal refused", kind=type(command).__name__, reason=outcome.reason.value)
            then(outcome)

        if self.quorum is not None:
            self.quorum.propose(encode_command(command), told)

    def _await(self, office: Office, step: AwaitMaster, asker: Asker) -> None:
        group = office.machine.group(step.group)
        waiter = _Waiter(step, boot_ms() + step.timeout_ms, office, asker)
        if group is not None and (_is_led(waiter, group) or len(self._waiters) >= _WAITERS_MAX):
            asker.answer(step.then(group, boot_ms()))
        elif group is None:
            asker.answer(self._redirect())
        else:
            asker.park()
            self._waiters.append(waiter)

    def _settle(self, found: Callable[[_Waiter], Group | None]) -> None:
        rest, done = list[_Waiter](), list[tuple[_Waiter, Group]]()
        for waiter in self._waiters:
            group = found(waiter)
            if group is None:
                rest.append(waiter)
            else:
                done.append((waiter, group))
        self._waiters = rest
        for waiter, group in done:
            waiter.asker.answer(waiter.step.then(group, boot_ms()))

    def _found(self, waiter: _Waiter) -> Group:
        group = waiter.office.machine.group(waiter.step.group)
        return group if group is not None else Group(key=waiter.step.group)


def _nothing_more(_outcome: Outcome[Verdict]) -> None:
    """What the office proposes by itself, it hears of when it is applied."""


def _is_led(waiter: _Waiter, group: Group) -> bool:
    return group.epoch > waiter.step.above and group.master is not None
