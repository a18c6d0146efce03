"""Chapters about what can be changed while everything runs: the controllers' rules, and brokers' hot settings, of which
in mode Raft one says who belongs to the group.
"""

from collections.abc import Iterator

from logherd_operator.plan.actions import PushConfig, SetRules
from logherd_operator.plan.outcome import Act, Step
from logherd_operator.plan.situation import Situation
from logherd_operator.spec.effects import MEMBERS

__all__ = ["members_of", "push_hot_settings", "set_rules"]


def set_rules(situation: Situation) -> Iterator[Step]:
    """Bring the minimum and the number of replicas to the controllers.

    A lower minimum is told at once, before anything is taken away for it; a higher one only when so many are in sync,
    because it would stop writes until then (OP-63).
    """
    group, spec = situation.group, situation.spec
    if group is None or not group.founded or not situation.by_controllers:
        return
    rules = group.rules
    least = spec.min_in_sync
    if least > rules.min_in_sync and len(group.in_sync) < least:
        least = rules.min_in_sync
    replicas = max(least, spec.replicas)
    if (replicas, least) == (rules.replicas, rules.min_in_sync):
        return
    yield Act(
        action=SetRules(
            replicas=replicas, min_in_sync=least, preferred=rules.preferred,
            reason=f"{replicas} replicas, of which {least} have a message before it counts",
        )
    )  # fmt: skip


def push_hot_settings(situation: Situation) -> Iterator[Step]:
    """Give each running broker the settings that it can take while it runs, and has not refused."""
    wanted = dict(situation.observed.hot)
    count = situation.observed.platform.brokers or 0
    # Who is to go leaves the group in `scale_down`, which first looks at what that costs.
    if situation.spec.replication.mode == "Raft" and count <= situation.spec.replicas:
        wanted[MEMBERS] = members_of(count)
    for slot in situation.kept():
        report = slot.report
        if report is None or not slot.ready:
            continue
        differing = {
            name: value
            for name, value in wanted.items()
            if report.hot.get(name) != value and f"{name}={value}" not in report.rejected
        }
        if differing:
            yield Act(
                action=PushConfig(
                    ordinal=slot.ordinal, values=differing,
                    reason=f"broker {slot.broker_id} runs with other values of {', '.join(sorted(differing))}",
                )
            )  # fmt: skip


def members_of(brokers: int) -> str:
    """The first so many brokers, as a running one is told who belongs to the group."""
    return ",".join(str(n + 1) for n in range(brokers))
