"""Carries out what the desk's steps ask for: confirmations, decisions, and waiting for a master.

It keeps the office while this controller is the ready leader and throws it away when it is not (office.py says why).
Whatever was asked under one office is answered under the same one, or with a redirect.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast

from msgspec import Struct

from logherd.app.clock import boot_ms
from logherd.app.quorum.outcomes import Applied, Outcome, ReadAt, ReadOutcome, Rejected
from logherd.controller.commands import Command, Elect, encode_command
from logherd.controller.leases import LeaseTerms
from logherd.controller.machine import Machine
from logherd.controller.office import Office
from logherd.controller.settings import OfficeOptions, epochs_above
from logherd.controller.silence import Silence, patience_ms
from logherd.controller.values import Group
from logherd.controller.verdicts import Verdict
from logherd.kit.errors import InvariantError
from logherd.raft.inputs import RecoverQuorum
from logherd.raft.output import Refusal, Role, RoleChanged
from logherd.service.controllers.steps import (
    AwaitMaster,
    Catch,
    Confirm,
    Decide,
    Endings,
    HandOver,
    Rebuild,
    Resettle,
    Step,
)
from logherd.telemetry.log import Log

__all__ = ["CONFIRM_SECONDS", "Asker", "Board", "Counts", "Quorum"]

_WAITERS_MAX = 10_000
_WARN_MS = 1_000
CONFIRM_SECONDS = 0.01
"""From one confirmation to the next, at least: nothing to a lease of seconds."""

_log = Log("logherd.controller")

AnswerT = TypeVar("AnswerT")
Told = Callable[[Outcome[Any]], None]


class Asker(Struct, Generic[AnswerT], frozen=True):
    """Who is to be answered, once; `park` says that it will take long."""

    answer: Callable[[AnswerT], None]
    park: Callable[[], None]
    endings: Endings[AnswerT]

    def refuse(self, reason: Refusal) -> None:
        """Nothing was begun."""
        self.answer(self.endings.refused(reason))

    def missed(self, outcome: Outcome[Any] | ReadOutcome) -> None:
        """It was not carried out, or nobody knows."""
        if isinstance(outcome, Rejected):
            self.refuse(outcome.reason)
        else:
            self.answer(self.endings.unknown())


class Quorum(Protocol):
    """The member that decides."""

    def propose(self, body: bytes, then: Callable[[Outcome[Verdict]], None]) -> None: ...

    def read(self, then: Callable[[ReadOutcome], None]) -> None: ...

    def hand_over_to(self, identity: str | None, then: Told) -> None: ...

    def give_way(self, turn: int) -> None: ...

    def resettle(self, voters: tuple[str, ...], learners: tuple[str, ...], then: Told) -> None: ...

    def rebuild(self, order: RecoverQuorum, then: Told) -> None: ...


@dataclass(frozen=True, slots=True)
class _Waiter:
    step: AwaitMaster[Any]
    deadline: int
    office: Office
    asker: Asker[Any]


_STEPS = frozenset({Confirm, Catch, Decide, AwaitMaster, HandOver, Resettle, Rebuild})
_Confirming = list[tuple[Confirm[Any], Asker[Any]]]


@dataclass(slots=True)
class Counts:
    """Since the start of this process: times that this controller stood for election, led and was ready, and elections
    of brokers that were applied here."""

    candidacies: int = 0
    leaderships: int = 0
    elections: int = 0


class Board:
    """One controller's part in the leadership of the quorum. Loop thread only; nothing here blocks."""

    def __init__(self, machine: Callable[[], Machine], terms: LeaseTerms, options: OfficeOptions) -> None:
        self._machine = machine
        self._terms = terms
        self.options = options
        self.counts = Counts()
        self.quorum: Quorum | None = None
        self.office: Office | None = None
        self._silence = Silence(patience_ms(terms.lease_ms))
        self._waiters: list[_Waiter] = []
        self._confirming: _Confirming = []
        self._confirm_due = 0.0
        self._warn_due = 0

    @property
    def machine(self) -> Machine:
        """The state as it is applied here, which may be behind the leader's."""
        return self._machine()

    # ---- what the member tells ----------------------------------------------------------------------------------

    def role_changed(self, event: RoleChanged, *, recoveries: int) -> None:
        """Take office when the leadership is ready, leave it when it ends. `recoveries`: how often an operator has
        recovered the quorum."""
        self.counts.candidacies += event.role is Role.CANDIDATE
        if event.role is Role.LEADER and event.ready:
            self.counts.leaderships += 1
            options = replace(self.options, epochs_above=epochs_above(recoveries))
            now = boot_ms()
            self.office = Office(self._machine(), self._terms, options, now)
            self._silence.begin(now)
        elif event.role is not Role.LEADER:
            self._silence.end(boot_ms())
            self.office = None
            waiters, self._waiters = self._waiters, []
            confirming, self._confirming = self._confirming, []
            for asker in (*(waiter.asker for waiter in waiters), *(asker for _, asker in confirming)):
                asker.refuse(Refusal.NOT_LEADER)

    def applied(self, command: Command, verdict: Verdict) -> None:
        """A command was applied to the state, whoever proposed it."""
        self.counts.elections += isinstance(command, Elect) and verdict.refusal is None
        if self.office is not None:
            self.office.applied(command, verdict, boot_ms())
        group = verdict.group
        if group is not None:
            self._settle(lambda waiter: group if waiter.step.group == group.key and _is_led(waiter, group) else None)

    def tick(self) -> None:
        """Every 50 ms: what the office wants decided, and who has waited long enough."""
        now = boot_ms()
        office = self.office
        if office is None:
            return
        for command in office.decide(now):
            self._propose(office, command, _nothing_more)
        self._settle(lambda waiter: self._found(waiter) if now >= waiter.deadline else None)
        turn = self._silence.gives_way(office, now)
        if turn is not None and self.quorum is not None:
            self.quorum.give_way(turn)

    # ---- steps --------------------------------------------------------------------------------------------------

    def carry_out(self, step: Step[AnswerT], asker: Asker[AnswerT]) -> None:
        """Do what a step asks, and what follows from it; `asker` is answered once, now or later."""
        if type(step) not in _STEPS:  # thousands of heartbeats each second
            asker.answer(cast("AnswerT", step))
            return
        quorum, office = self.quorum, self.office
        if isinstance(step, Confirm):
            if office is None or quorum is None:
                asker.refuse(Refusal.NOT_LEADER)
            else:
                self._confirm(step, asker)
        elif isinstance(step, Catch | HandOver | Resettle | Rebuild):
            if quorum is None:
                asker.refuse(Refusal.NOT_READY)
            else:
                self._ask(quorum, step, asker)
        elif office is None or quorum is None:
            asker.refuse(Refusal.NOT_LEADER)
        elif isinstance(step, Decide | AwaitMaster):
            self._lead(office, step, asker)

    def _ask(
        self, quorum: Quorum, step: Catch[AnswerT] | HandOver[AnswerT] | Resettle[AnswerT] | Rebuild[AnswerT],
        asker: Asker[AnswerT],
    ) -> None:  # fmt: skip
        """Steps that any controller may be asked for."""
        match step:
            case Catch():
                quorum.read(lambda outcome: self._done(step, outcome, asker))
            case HandOver():
                quorum.hand_over_to(step.target, lambda outcome: self._done(step, outcome, asker))
            case Rebuild():
                quorum.rebuild(step.order, lambda outcome: self._done(step, outcome, asker))
            case Resettle():
                asker.park()
                quorum.resettle(step.voters, step.learners, lambda outcome: self._done(step, outcome, asker))

    def _lead(self, office: Office, step: Decide[AnswerT] | AwaitMaster[AnswerT], asker: Asker[AnswerT]) -> None:
        """Steps of the leader."""
        match step:
            case Decide():
                office.submitted(step.command)
                self._propose(office, step.command, lambda outcome: self._decided(office, step, outcome, asker))
            case AwaitMaster():
                self._await(office, step, asker)

    def _confirm(self, step: Confirm[AnswerT], asker: Asker[AnswerT]) -> None:
        """Ask the quorum at the end of this pass, or when it was not asked for a while: each round costs it as much as
        several heartbeats do, and thousands of them may wait for the same one. Whatever comes until then joins."""
        self._confirming.append((step, asker))
        if len(self._confirming) == 1:
            loop = asyncio.get_running_loop()
            now = loop.time()
            self._confirm_due = max(now, self._confirm_due + CONFIRM_SECONDS)
            loop.call_later(self._confirm_due - now, self._begin_round)

    def _begin_round(self) -> None:
        """Nobody waits any more if the office was lost."""
        waiting, self._confirming = self._confirming, []
        if waiting and self.quorum is not None and self.office is not None:
            self.quorum.read(partial(self._confirmed, self.office, waiting))

    def _confirmed(self, office: Office, waiting: _Confirming, outcome: ReadOutcome) -> None:
        now = boot_ms()
        for step, asker in waiting:
            if isinstance(outcome, ReadAt) and office is self.office:
                self._go_on(asker, step.then, now)
            else:
                asker.refuse(outcome.reason if isinstance(outcome, Rejected) else Refusal.NOT_LEADER)

    def _decided(self, office: Office, step: Decide[AnswerT], outcome: Outcome[Verdict], asker: Asker[AnswerT]) -> None:
        if isinstance(outcome, Applied) and office is self.office:
            self._go_on(asker, step.then, outcome.result, boot_ms())
        else:
            asker.missed(outcome)

    def _done(
        self, step: Catch[AnswerT] | HandOver[AnswerT] | Resettle[AnswerT] | Rebuild[AnswerT],
        outcome: Outcome[Any] | ReadOutcome, asker: Asker[AnswerT],
    ) -> None:  # fmt: skip
        if isinstance(outcome, Applied | ReadAt):
            self._go_on(asker, step.then, boot_ms())
        else:
            asker.missed(outcome)

    def _go_on(self, asker: Asker[AnswerT], then: Callable[..., Step[AnswerT]], *told: Any) -> None:
        """Carry out what follows from an outcome. A defect in it costs this one answer: the member, who calls, would
        take it for its own and end, and whoever asks again would end one controller after the other."""
        try:
            self.carry_out(then(*told), asker)
        except InvariantError:
            raise  # the state may be wrong
        except Exception as error:
            _log.error("request failed by a defect", cause=error)
            asker.answer(asker.endings.unknown())

    def _propose(self, office: Office, command: Command, then: Callable[[Outcome[Verdict]], None]) -> None:
        def told(outcome: Outcome[Verdict]) -> None:
            if isinstance(outcome, Rejected):
                office.dropped(command)
                self._warn(command, outcome.reason)
            then(outcome)

        if self.quorum is not None:
            self.quorum.propose(encode_command(command), told)

    def _warn(self, command: Command, reason: Refusal) -> None:
        """Not more often than now and then: whatever is refused for all groups is proposed again ten times a second."""
        now = boot_ms()
        if now >= self._warn_due:
            self._warn_due = now + _WARN_MS
            _log.warning("proposal refused", kind=type(command).__name__, reason=reason.value)

    def _await(self, office: Office, step: AwaitMaster[AnswerT], asker: Asker[AnswerT]) -> None:
        group = office.machine.group(step.group)
        waiter = _Waiter(step, boot_ms() + step.timeout_ms, office, asker)
        if group is not None and (_is_led(waiter, group) or len(self._waiters) >= _WAITERS_MAX):
            asker.answer(step.then(group, boot_ms()))
        elif group is None:
            asker.refuse(Refusal.NOT_LEADER)
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
            self._go_on(waiter.asker, waiter.step.then, group, boot_ms())

    def _found(self, waiter: _Waiter) -> Group:
        group = waiter.office.machine.group(waiter.step.group)
        return group if group is not None else Group(key=waiter.step.group)


def _nothing_more(_outcome: Outcome[Verdict]) -> None:
    """What the office proposes by itself, it hears of when it is applied."""


def _is_led(waiter: _Waiter, group: Group) -> bool:
    return group.epoch > waiter.step.above and group.master is not None
