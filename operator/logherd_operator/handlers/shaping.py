"""How large a group is now, for the builders: what there is, and what a plan makes for the first time."""

from collections.abc import Mapping
from typing import Any

from logherd_operator.handlers.known import Key, Known
from logherd_operator.observed.observed import Observed
from logherd_operator.observed.quorum import Group
from logherd_operator.observed.slots import COMPONENTS, Component
from logherd_operator.plan.actions import SetMembers
from logherd_operator.plan.outcome import Plan
from logherd_operator.resources.pinning import roll_hash_in
from logherd_operator.resources.site import PLACES_MAX, Shape, Site

__all__ = ["first_counts", "shape_of"]


def first_counts(plan: Plan) -> dict[Component, int]:
    """Places that the plan lets exist for the first time, by component."""
    return {each.component: each.count for each in plan.actions if isinstance(each, SetMembers) and each.before is None}


def shape_of(
    known: Known, key: Key, site: Site, observed: Observed, plan: Plan, founders: int | None = None,
    first_learner: int | None = None,
) -> Shape:  # fmt: skip
    """Counts as they are, so that applying a StatefulSet never scales it. `founders`: if that was kept.
    `first_learner`: as it was when somebody last told how the group stands."""
    first = first_counts(plan)
    brokers, controllers = observed.platform.brokers, observed.platform.controllers
    count = first.get("broker", 0) if brokers is None else brokers
    return Shape(
        brokers=count,
        members=max(count, _coming(plan), _belonging(site, observed)),
        controllers=first.get("controller", 0) if controllers is None else controllers,
        first_learner=first_learner if observed.group is None else _first_learner(observed.group),
        broker_claim=_claim(known.workload(key, site.workload("broker"))),
        controller_claim=_claim(known.workload(key, site.workload("controller"))),
        founders=None if site.group.spec.by_controllers else founders or count or None,
        renewed=plan.renewed,
        rolled={each: rolled for each in COMPONENTS if (rolled := _rolled(known, key, site, observed, each))},
    )


def _coming(plan: Plan) -> int:
    """So many places of brokers the plan lets exist; 0 if it adds none. They start from the files as they are then."""
    return max(
        (each.count for each in plan.actions if isinstance(each, SetMembers) and each.component == "broker"), default=0
    )


def _belonging(site: Site, observed: Observed) -> int:
    """While no broker of a group that leads itself answers, it is not known who belongs to it: nobody of whom there is
    something, and whom the spec wants, is left out, whatever somebody else has made of the places."""
    if observed.group is not None or site.group.spec.by_controllers:
        return 0
    wanted = site.group.spec.replicas
    return max((each.broker_id for each in observed.brokers if each.broker_id <= wanted), default=0)


def _first_learner(group: Group) -> int | None:
    """A group that has had a leader takes new brokers as learners: all that the controllers do not know as voters."""
    if not group.founded:
        return None
    voters = {each.broker_id for each in group.replicas if not each.learner}
    return next((n for n in range(PLACES_MAX) if n + 1 not in voters), PLACES_MAX)


def _rolled(known: Known, key: Key, site: Site, observed: Observed, component: Component) -> str:
    """The roll hash of what all its pods are made from; empty if not all are from what the StatefulSet says."""
    workload = known.workload(key, site.workload(component))
    platform = observed.platform
    wanted = platform.broker_revision if component == "broker" else platform.controller_revision
    standing = (each.instance for each in observed.slots(component) if each.instance is not None)
    all_are = workload is not None and all(each.revision == wanted for each in standing)
    return roll_hash_in(workload["spec"]["template"]) if workload is not None and all_are else ""


def _claim(workload: Mapping[str, Any] | None) -> str | None:
    for each in (workload or {}).get("spec", {}).get("volumeClaimTemplates", ()):
        if each["metadata"]["name"] == "data":
            return str(each["spec"]["resources"]["requests"]["storage"])
    return None
