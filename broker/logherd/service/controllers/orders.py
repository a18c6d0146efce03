"""POST actions on broker groups and on the controllers' options: from a JSON body to commands of the log.

Each may be sent again when its answer was lost: it then finds that what it asks for is so, and says that nothing
changed. An election is known by its `requestId`; without one, by what it asks for.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from logherd.controller.admission import ElectionRequest, admit_clean, admit_election
from logherd.controller.commands import Clean, Command, Configure, SetLearner, Tune
from logherd.controller.office import Office
from logherd.controller.settings import TUNABLE
from logherd.controller.values import BrokerId, Group, GroupKey
from logherd.controller.verdicts import Refusal, Verdict
from logherd.model.names import Epoch
from logherd.service.controllers.calls import (
    ConfigOrder,
    ElectOrder,
    EndpointOrder,
    ForgetOrder,
    LearnerOrder,
    Order,
    RulesOrder,
    read_order,
    refuse_field,
)
from logherd.service.controllers.documents import Document, error
from logherd.service.controllers.group_pages import group_page
from logherd.service.controllers.place import Place, redirect
from logherd.service.controllers.steps import AwaitMaster, Confirm, Decide, Step
from logherd.service.controllers.why import why_refused

__all__ = ["GROUP_ACTIONS", "configure_controllers"]

_WAIT_MS: Final = 2_500
_MISSING = frozenset({Refusal.UNKNOWN_GROUP, Refusal.UNKNOWN_REPLICA})

Action = Callable[[Place, GroupKey, dict[str, Any], int], Step[Document]]
"""Where, of which group, what and when it came."""
Admit = Callable[[Office, Group, int], Command | Refusal | None]
"""The command to propose, why not, or None if what is asked for is so already."""


def _elect(place: Place, key: GroupKey, body: dict[str, Any], asked: int) -> Step[Document]:
    """A planned transfer if the group is led, else the election of who loses nothing; answered when it is done."""
    order = read_order(ElectOrder, body)
    if order.unclean and order.broker_id is None:
        refuse_field("brokerId", None, "the broker to elect: an unclean election is of one that is named")
    target = BrokerId(order.broker_id) if order.broker_id is not None else None
    wish = ElectionRequest(
        group=key, target=target, unclean=order.unclean, expected_epoch=Epoch(order.expected_epoch),
        request=order.request_id or f"elect {target or 'the best'} after epoch {order.expected_epoch}",
    )  # fmt: skip

    def admit(office: Office, group: Group, now: int) -> Command | Refusal | None:
        admitted = admit_election(office, wish, now)
        return None if admitted is Refusal.UNCHANGED else admitted

    def then(verdict: Verdict, now: int) -> Step[Document]:
        group = verdict.group
        if verdict.refusal is not None or group is None or group.epoch > order.expected_epoch:
            return _answer(place, verdict, order, now)
        return AwaitMaster(key, group.epoch, _WAIT_MS, lambda group, now: _elected(place, group, order, now))

    return _admitted(place, key, admit, order, then)


def _elected(place: Place, group: Group, order: ElectOrder, now: int) -> Document:
    """Who was to hand over, or to take over, may have died meanwhile; of the same order again the epoch is another."""
    master = group.master
    if master is None or group.epoch <= order.expected_epoch:
        return _done(place, group, order, now, status=202)
    if order.broker_id not in (None, master.broker_id):
        said = f"broker {master.broker_id} was elected in epoch {group.epoch}, and not broker {order.broker_id}"
        expected = order.expected_epoch
        return error(409, Refusal.FENCED_EPOCH.name, said, expectedEpoch=expected, epoch=group.epoch)
    return _done(place, group, order, now)


def _learner(place: Place, key: GroupKey, body: dict[str, Any], *, learner: bool) -> Step[Document]:
    order = read_order(LearnerOrder, body)
    broker_id = BrokerId(order.broker_id)
    command = SetLearner(group=key, expected_epoch=Epoch(order.expected_epoch), broker_id=broker_id, learner=learner)

    def admit(office: Office, group: Group, now: int) -> Command | Refusal | None:
        found = group.replica(broker_id)
        if found is None:
            return Refusal.UNKNOWN_REPLICA
        return None if found.learner == learner else command

    return _admitted(place, key, admit, order)


def _promote(place: Place, key: GroupKey, body: dict[str, Any], asked: int) -> Step[Document]:
    """Make a learner one that may join the in-sync set."""
    return _learner(place, key, body, learner=False)


def _demote(place: Place, key: GroupKey, body: dict[str, Any], asked: int) -> Step[Document]:
    """Make a broker a learner: in the in-sync set no longer, and never elected."""
    return _learner(place, key, body, learner=True)


def _forget(place: Place, key: GroupKey, body: dict[str, Any], asked: int) -> Step[Document]:
    """Forget brokers, or all of a group that is gone; one that was forgotten before is passed over."""
    order = read_order(ForgetOrder, body)
    if order.whole == bool(order.broker_ids):
        refuse_field("brokerIds", order.broker_ids, "the brokers to forget, or none beside whole: true")

    def admit(office: Office, group: Group, now: int) -> Command | Refusal | None:
        if any(broker_id >= group.next_id for broker_id in order.broker_ids):
            return Refusal.UNKNOWN_REPLICA
        left = tuple(sorted({BrokerId(each) for each in order.broker_ids if group.replica(BrokerId(each))}))
        if not (left or order.whole):
            return None
        if order.expected_epoch != group.epoch:
            return Refusal.FENCED_EPOCH
        command = Clean(group=key, expected_epoch=Epoch(order.expected_epoch), broker_ids=left)
        return admit_clean(office, command, now, living=order.living)

    return _admitted(place, key, admit, order)


def _rules(place: Place, key: GroupKey, body: dict[str, Any], asked: int) -> Step[Document]:
    """Set the rules of a group."""
    order = read_order(RulesOrder, body)
    if order.min_in_sync > order.replicas:
        refuse_field("minInSync", order.min_in_sync, f"at most replicas, which is {order.replicas}")
    preferred = BrokerId(order.preferred) if order.preferred is not None else None
    command = Configure(group=key, replicas=order.replicas, min_in_sync=order.min_in_sync, preferred=preferred)

    def admit(office: Office, group: Group, now: int) -> Command | Refusal | None:
        rules = group.rules
        same = (rules.replicas, rules.min_in_sync, rules.preferred) == (order.replicas, order.min_in_sync, preferred)
        return None if same else command

    return _admitted(place, key, admit, order)


def _endpoint(place: Place, key: GroupKey, body: dict[str, Any], asked: int) -> Step[Document]:
    """Whoever keeps the address that follows the leader (H17): it leads to the leader of this epoch. Nothing is
    decided; the leader hears it with its leases, and it has to be said some times in each. It was so when it was said,
    which may be long before the quorum answers."""
    order = read_order(EndpointOrder, body)

    def admit(office: Office, group: Group, now: int) -> Command | Refusal | None:
        if order.epoch != group.epoch:
            return Refusal.FENCED_EPOCH
        office.endpoint_leads(group.key, group.epoch, asked)
        return None

    return _admitted(place, key, admit, order)


GROUP_ACTIONS: Final[Mapping[str, Action]] = MappingProxyType({
    "elect": _elect, "promote": _promote, "demote": _demote, "forget": _forget, "rules": _rules,
    "endpoint": _endpoint,
})  # fmt: skip
"""By the last part of the path `/groups/{cluster}/{name}/...`. They raise CallError, and are for the leader only."""


def configure_controllers(place: Place, body: dict[str, Any]) -> Step[Document]:
    """Set options of all controllers: all of them or none. For the leader only. Raises: CallError."""
    order = read_order(ConfigOrder, body)
    for name, value in order.values.items():
        bounds = TUNABLE.get(name)
        if bounds is None:
            refuse_field("values", name, f"one of {', '.join(TUNABLE)}")
        if not bounds[0] <= value <= bounds[1]:
            refuse_field(f"values.{name}", value, f"{bounds[0]} to {bounds[1]}")

    def then(verdict: Verdict, now: int) -> Step[Document]:
        if verdict.refusal is not None:
            return _refused(verdict.group, verdict.refusal, verdict.detail, order)
        return Document(200, {"changed": True, "requestId": order.request_id, "values": place.machine().settings})

    return Decide(Tune(values=order.values), then)


# ---- what all actions have in common -------------------------------------------------------------------------------


def _admitted(
    place: Place, key: GroupKey, admit: Admit, order: Order,
    then: Callable[[Verdict, int], Step[Document]] | None = None,
) -> Step[Document]:  # fmt: skip
    """Look at the group when the quorum has confirmed that this controller leads; then decide what is not so yet."""

    def confirmed(now: int) -> Step[Document]:
        office, group = place.office(), place.machine().group(key)
        if office is None:
            return redirect(place)
        if group is None or not group.replicas:
            return error(404, "UNKNOWN_GROUP", f"there is no group {key}", cluster=key.cluster, name=key.name)
        admitted = admit(office, group, now)
        if admitted is None:
            return _done(place, group, order, now, changed=False)
        if isinstance(admitted, Refusal):
            disk_full = place.standing().progress.disk_full
            return _refused(group, admitted, why_refused(admitted, group, office, now, disk_full=disk_full), order)
        return Decide(admitted, then or (lambda verdict, now: _answer(place, verdict, order, now)))

    return Confirm(confirmed)


def _answer(place: Place, verdict: Verdict, order: Order, now: int) -> Document:
    if verdict.refusal is not None or verdict.group is None:
        return _refused(verdict.group, verdict.refusal or Refusal.UNKNOWN_GROUP, verdict.detail, order)
    return _done(place, verdict.group, order, now)


def _done(
    place: Place, group: Group, order: Order, now: int, *, changed: bool = True, status: int = 200
) -> Document:  # fmt: skip
    page = group_page(group, place.office(), now, place.standing().progress, confirmed=True)
    return Document(status, {"changed": changed, "requestId": order.request_id, "group": page})


def _refused(group: Group | None, refusal: Refusal, detail: str, order: Order) -> Document:
    if refusal is Refusal.FENCED_EPOCH and group is not None:
        expected = order.epoch if isinstance(order, EndpointOrder) else getattr(order, "expected_epoch", None)
        said = f"the epoch of {group.key} is {group.epoch}, and expectedEpoch is {expected}"
        return error(409, refusal.name, said, expectedEpoch=expected, epoch=group.epoch)
    detail = detail or _more(group, refusal)
    said = f"{refusal.value}: {detail}" if detail else refusal.value
    return error(404 if refusal in _MISSING else 409, refusal.name, said)


def _more(group: Group | None, refusal: Refusal) -> str:
    """What whoever gave an order would ask next: who is there, or how it is done all the same."""
    if refusal is Refusal.UNKNOWN_REPLICA and group is not None:
        return f"{group.key} has {', '.join(str(each.broker_id) for each in group.replicas) or 'none'}"
    return "with living (--living) it is forgotten all the same" if refusal is Refusal.ALIVE else ""
