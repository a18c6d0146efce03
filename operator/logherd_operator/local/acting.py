"""Actions of a plan, carried out on this machine: by processes, or by orders to the controllers.

A refused or lost order is no error: the next look decides anew.
"""

import shutil
from dataclasses import replace

from logherd_operator.cluster.calls import At, calls_of, refused_settings
from logherd_operator.local.addresses import Addresses
from logherd_operator.local.admin import order
from logherd_operator.local.files import Files
from logherd_operator.local.folder import Folder
from logherd_operator.local.look import Look, child_of
from logherd_operator.local.places import Places
from logherd_operator.local.state import PlaceState
from logherd_operator.observed.observed import Observed
from logherd_operator.plan import actions as plan
from logherd_operator.resources.site import Site
from logherd_operator.spec.group import BrokerGroup

__all__ = ["Acting", "worded"]

_DONE = (200, 202)
_NEVER = (400, 404, 405)


class Acting:
    """What can be done for one group."""

    def __init__(self, group: BrokerGroup, folder: Folder, places: Places, files: Files) -> None:
        self._folder = folder
        self._places = places
        self._files = files
        self._refused: dict[str, set[str]] = {}
        site = Site(group=group, namespace="", uid="", image="", operator_image="", operator_version="")
        self._at = At(site=site, versions={})

    def carry_out(self, action: plan.Action, look: Look) -> str | None:
        """Do it, or begin to. The result says why it was not done, if somebody said so. Raises: LocalError."""
        match action:
            case plan.SetMembers():
                self._places.add(action.component, action.count, self._files)
            case plan.RemoveMember() | plan.Restart():
                return self._at_place(action)
            case plan.DeleteVolume():
                shutil.rmtree(self._folder.path / f"broker-{action.ordinal + 1}", ignore_errors=True)
            case plan.Rebuild():
                return f"move {self._folder.path / f'broker-{action.ordinal + 1}'} away while the group is down"
            case plan.PushConfig():
                return self._push(action, look)
            case _:
                return self._order(action, look)
        return None

    def _at_place(self, action: plan.RemoveMember | plan.Restart) -> str | None:
        component = action.component if isinstance(action, plan.Restart) else "broker"
        place = self._places.state.place(component, action.ordinal)
        if place is None or action.uid not in ("", self._uid(place)):
            return "it is another one by now"
        if isinstance(action, plan.RemoveMember):
            self._places.take_away(place, action.count)
        else:
            self._places.start_anew(place, self._files)
        return None

    def _uid(self, place: PlaceState) -> str:
        child = child_of(place, self._folder)
        return f"{place.guardian.pid if place.guardian else 0}-{child.pid if child else 0}"

    def _order(self, action: plan.Action, look: Look) -> str | None:
        for call in calls_of(action, self._at):
            whom, admin = "the controllers", look.leading
            if isinstance(call.target, int):
                whom, admin = f"broker {call.target + 1}", self._admin(call.target)
            if admin is None:
                return "nobody leads the controllers"
            answer = order(admin, call.path, call.body, self._folder.token())
            if answer is None:
                return f"{whom} did not answer"
            if answer[0] not in _DONE:
                return str(answer[1].get("error") or f"status {answer[0]}")
        return None

    def _admin(self, ordinal: int) -> str:
        state = self._places.state
        return Addresses(state.host, state.ports).broker(ordinal).admin

    def _push(self, action: plan.PushConfig, look: Look) -> str | None:
        """Settings to a broker. What it refuses as wrong is not asked of the same process again."""
        slot = look.observed.broker(action.ordinal + 1)
        (call,) = calls_of(action, self._at)
        answer = order(self._admin(action.ordinal), call.path, call.body, self._folder.token())
        if answer is None:
            return f"broker {action.ordinal + 1} did not answer"
        if answer[0] in _DONE:
            return None
        if answer[0] in _NEVER and slot is not None and slot.instance is not None:
            refused = refused_settings(action.values, answer[1])
            self._refused.setdefault(slot.instance.uid, set()).update(refused)
        return str(answer[1].get("error") or f"status {answer[0]}")

    def with_refusals(self, observed: Observed) -> Observed:
        """What the brokers' processes have refused belongs to what they say."""
        brokers = tuple(
            replace(each, report=replace(each.report, rejected=tuple(sorted(self._refused[each.instance.uid]))))
            if each.report is not None and each.instance is not None and each.instance.uid in self._refused
            else each
            for each in observed.brokers
        )
        return replace(observed, brokers=brokers)


def worded(action: plan.Action) -> str:
    """What is done and why, in one sentence for people."""
    match action:
        case plan.SetMembers():
            return _added(action)
        case plan.SetRules():
            return f"the controllers are told: {action.reason}"
        case plan.PushConfig():
            values = ", ".join(f"{name}={value}" for name, value in sorted(action.values.items()))
            return f"broker {action.ordinal + 1} takes {values} without a restart: {action.reason}"
        case plan.RemoveMember():
            return f"broker {action.ordinal + 1} is taken away: {action.reason}"
        case plan.Restart():
            name = f"broker {action.ordinal + 1}" if action.component == "broker" else f"controller c{action.ordinal}"
            meanwhile = "; it leads, and nothing is acknowledged until it is back" if action.leads else ""
            return f"{name} is restarted: {_RESTARTS.get(action.why, action.reason)}{meanwhile}"
        case plan.Switchover() | plan.TakeLead():
            return f"broker {action.target} is to lead: {action.reason}"
        case plan.Promote():
            return f"broker {action.broker_id} becomes a full member: {action.reason}"
        case plan.Demote():
            return f"broker {action.broker_id} counts no more: {action.reason}"
        case plan.Forget():
            return f"the controllers forget broker {action.broker_id}: {action.reason}"
        case _:
            return f"{_seldom(action)}: {action.reason}"


def _seldom(action: plan.Action) -> str:
    match action:
        case plan.TransferQuorum():
            return f"controller {action.node} is to lead the controllers"
        case plan.SettleQuorum():
            return f"the controllers {', '.join(action.voters)} are the quorum"
        case plan.DeleteVolume():
            return f"the store of broker {action.ordinal + 1} is deleted"
        case plan.Rebuild():
            return f"broker {action.ordinal + 1} gets an empty store and copies everything"
        case _:
            return type(action).__name__


_RESTARTS = {
    plan.RestartReason.SPEC_CHANGED: "what it is started from has changed",
    plan.RestartReason.MANUAL: "that was ordered",
}


def _added(action: plan.SetMembers) -> str:
    component, count = action.component, action.count
    if action.before is None:
        return f"1 {component} is started" if count == 1 else f"{count} {component}s are started"
    return f"{component} {count if component == 'broker' else f'c{count - 1}'} is added: {action.reason}"
