"""The order of the chapters, and what holds for all of them: one disruptive action, pauses, windows.

Invariants (OP-1, OP-2, OP-5):
 1. At most one action of a plan is disruptive; it is the last, and nothing follows a wait.
 2. Nothing is disruptive unless it was said, in this look, how the group stands (by the controllers, or by the brokers
    of a group that leads itself); but what serves nobody and
    was made from an unwanted revision may be replaced.
 3. Forgetting `since` never permits anything: every use of it waits for something to have lasted.
"""

from collections.abc import Callable, Iterator

from logherd_operator.observed.observed import Observed
from logherd_operator.observed.quorum import Group
from logherd_operator.observed.slots import COMPONENTS
from logherd_operator.plan.actions import (
    Action,
    Demote,
    LeaveOut,
    RemoveMember,
    Restart,
    RestartReason,
    SetMembers,
    Switchover,
    TakeLead,
    TransferQuorum,
)
from logherd_operator.plan.controllers import heal_controllers, replace_voters, roll_controllers, say_who_waits
from logherd_operator.plan.existence import compare_lease, create, found, hear
from logherd_operator.plan.guards import evictable, not_kept, paused, volume_stays
from logherd_operator.plan.outcome import Block, Code, Operation, Plan, Step, Wait
from logherd_operator.plan.pace import Pace
from logherd_operator.plan.repair import (
    await_learners,
    hand_over,
    promote_learners,
    rebuild,
    say_what_is_lost,
    say_what_is_taken,
    say_what_overlaps,
    take_lead,
)
from logherd_operator.plan.rollout import hand_over_stuck, heal_stuck, roll_brokers
from logherd_operator.plan.scale import forget_removed, scale_down, scale_up, settle
from logherd_operator.plan.settings import push_hot_settings, set_rules
from logherd_operator.plan.situation import Situation, flapping_fact, lasting_facts
from logherd_operator.plan.volumes import delete_unused, grow
from logherd_operator.plan.windows import WindowError, is_open
from logherd_operator.spec.group import BrokerGroupSpec

__all__ = ["plan"]

Chapter = Callable[[Situation], Iterator[Step]]

_CHAPTERS: tuple[Chapter, ...] = (
    # What is there at all, and what is known of it.
    say_what_is_taken, compare_lease, create, say_what_is_lost, replace_voters, heal_controllers, hear, found,
    # What is broken, and what costs nothing.
    heal_stuck, rebuild, promote_learners, set_rules, push_hot_settings,
    # What a person ordered waits for nobody who is away.
    take_lead, hand_over, hand_over_stuck,
    # What takes time, one after the other: members, volumes, sizes, restarts.
    forget_removed, delete_unused, settle, await_learners, grow, scale_up, scale_down, roll_controllers, roll_brokers,
    # What is in nobody's way but an administrator's.
    say_who_waits, say_what_overlaps,
)  # fmt: skip
_IN_WINDOWS = (Restart, Switchover, Demote, LeaveOut, RemoveMember, TransferQuorum)
_AT_ONCE = (RestartReason.STUCK, RestartReason.MANUAL)


def plan(observed: Observed, spec: BrokerGroupSpec, now: float, pace: Pace | None = None) -> Plan:
    """What to do now. `now` is in seconds since 1970. Raises: nothing for any look."""
    pace = pace or Pace()
    if spec.reconcile == "Off":
        block = Block(code=Code.PAUSED, message="nothing is done", unblocks="reconcile: Full")
        since = {**lasting_facts(observed, now, pace), **_remembered(dict(observed.since), (block,), now)}
        return Plan(blocked=(block,), since=since, again_seconds=pace.idle)
    situation = Situation(
        observed=observed, spec=spec, now=now, pace=pace, since=lasting_facts(observed, now, pace)
    )  # fmt: skip
    actions: list[Action] = []
    blocked: dict[Code, Block] = {}
    operation: Operation | None = None
    for step in _steps(situation):
        if isinstance(step, Block):
            _add(blocked, step)
            continue
        operation = step.operation or operation
        if isinstance(step, Wait):
            break
        refusal = _gate(situation, step.action) or _held(situation, step.action)
        if refusal is not None:
            _add(blocked, refusal)
            break
        actions.append(step.action)
        if step.fact:
            situation.since.setdefault(step.fact, now)
        if step.action.disruptive:
            break
    return _plan(situation, tuple(actions), operation, tuple(blocked.values()))


def _add(blocked: dict[Code, Block], block: Block) -> None:
    """What is told under one code is told as one, for each is there once."""
    before = blocked.get(block.code)
    blocked[block.code] = block if before is None else before.beside(block)


def _steps(situation: Situation) -> Iterator[Step]:
    for chapter in _CHAPTERS:
        yield from chapter(situation)


def _plan(
    situation: Situation, actions: tuple[Action, ...], operation: Operation | None, blocked: tuple[Block, ...]
) -> Plan:
    pace = situation.pace
    held = any(each.holds for each in blocked)
    busy = bool(actions) or (operation is not None and not held)
    waits = operation is not None or held or not _whole(situation)
    again = pace.busy if busy else pace.held if waits else pace.idle
    since = {**situation.since, **_remembered(dict(situation.observed.since), blocked, situation.now)}
    return Plan(
        actions=actions, operation=operation, blocked=blocked, since=since, again_seconds=again,
        renewed=frozenset(each for each in COMPONENTS if situation.renewed(each)),
    )  # fmt: skip


def _whole(situation: Situation) -> bool:
    """Does nothing have to come back by itself? What its processes say changes without a word of the API server's."""
    group, quorum = situation.group, situation.observed.quorum
    return (
        group is not None and group.led and _settled(situation, group) >= situation.spec.replicas
        and quorum is not None and all(each.connected for each in quorum.voters)
        and not any(slot.report is not None and (slot.report.fault or slot.report.refuses) for slot in situation.kept())
        and not any(flapping_fact(slot) in situation.since for slot in situation.kept())
    )  # fmt: skip


def _settled(situation: Situation, group: Group) -> int:
    return sum(group.settled(each.broker_id) for each in situation.kept())


def _remembered(before: dict[str, float], blocked: tuple[Block, ...], now: float) -> dict[str, float]:
    return {f"blocked:{each.code}": min(before.get(f"blocked:{each.code}", now), now) for each in blocked}


def _gate(situation: Situation, action: Action) -> Block | None:
    """Pauses and windows hold back what takes something away on purpose, never what heals or was ordered (OP-55)."""
    spec = situation.spec
    if (block := not_kept(situation)) is not None and _starts(situation, action):
        return block
    if not action.disruptive or action.healing:
        return None
    if spec.reconcile == "NoDisruption":
        return paused(action.reason)
    ordered = _is_ordered(action) or (isinstance(action, TransferQuorum) and action.ordered)
    at_once = _heals(action) or (isinstance(action, Restart) and action.why in _AT_ONCE)
    if ordered or at_once or not isinstance(action, _IN_WINDOWS):
        return None
    return _window_gate(situation, action)


def _starts(situation: Situation, action: Action) -> bool:
    """Does something start with it that did not run, or is it a step towards that? In place of what serves nobody it
    may, because everything after it, orders too, would wait for that; and what keeps the places of what is there comes
    back, for without it nobody would make anew what goes."""
    first = isinstance(action, SetMembers) and action.before is None and not situation.observed.has(action.component)
    return first or (action.disruptive and not _heals(action) and not _is_ordered(action))


def _heals(action: Action) -> bool:
    if isinstance(action, Switchover):
        return action.heals
    return action.healing or (isinstance(action, Restart) and action.why is RestartReason.STUCK and not action.serving)


def _is_ordered(action: Action) -> bool:
    return isinstance(action, TakeLead) or (isinstance(action, Switchover) and action.ordered)


def _held(situation: Situation, action: Action) -> Block | None:
    """Only who serves is asked politely: an eviction, which may be impossible. A broker would come back without what it
    has where its volume was deleted under it; a controller is told by the others."""
    if not isinstance(action, Restart):
        return None
    slots = situation.observed.slots(action.component)
    slot = next((each for each in slots if each.ordinal == action.ordinal), None)
    if slot is None:
        return None
    block = volume_stays(slot) if action.component == "broker" else None
    return block or (evictable(action.component, slot) if action.serving else None)


def _window_gate(situation: Situation, action: Action) -> Block | None:
    try:
        if is_open(situation.spec.update.windows, situation.now):
            return None
        by_hand = isinstance(action, Restart | Switchover | TransferQuorum)
        unblocks = "the next window of update.windows" + (", or a restart that is ordered by hand" if by_hand else "")
    except WindowError as error:
        unblocks = f"update.windows has to be right: {error}"
    return Block(code=Code.WAITING_FOR_WINDOW, message=f"held back: {action.reason}", unblocks=unblocks)
