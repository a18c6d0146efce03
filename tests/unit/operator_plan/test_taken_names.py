"""While somebody else has a name that the group needs: what runs is looked after, and nothing that serves is taken."""

from dataclasses import replace

import pytest

from logherd_operator.observed.observed import Observed, Orders, Platform
from logherd_operator.observed.slots import Component, Slot
from logherd_operator.plan.actions import Restart, RestartReason, SetMembers, Switchover
from logherd_operator.plan.outcome import Code
from unit.operator_plan.looks import OLD, broker, controllers, decide, group, instance, look, with_broker

TAKEN = ("the ConfigMap orders-broker-config, which the group needs, is there and somebody else's",)


def taken(observed: Observed) -> Observed:
    return replace(observed, taken=TAKEN)


def test_what_cannot_start_is_replaced_after_a_revert() -> None:
    """It serves nobody, and everything after it waits for it."""
    bad = broker(2, stands=instance(2, revision="bad", ready=False, failing="ImagePullBackOff"))
    (action,) = decide(taken(with_broker(look(group=group(in_sync=(1, 2))), bad))).actions
    assert isinstance(action, Restart)
    assert (action.ordinal, action.why, action.serving) == (2, RestartReason.STUCK, False)
    stuck = controllers(revision="bad", ready=False, failing="ImagePullBackOff")
    (action,) = decide(taken(look(controllers=(*controllers()[:2], stuck[2])))).actions
    assert isinstance(action, Restart)
    assert (action.component, action.ordinal) == ("controller", 2)


def test_what_serves_is_not_restarted_and_what_was_ordered_goes_on() -> None:
    observed = taken(with_broker(look(), broker(2, stands=instance(2, revision=OLD))))
    held = decide(observed)
    assert (held.actions, held.codes) == ((), {Code.NAME_TAKEN})
    (switch,) = decide(replace(observed, orders=Orders(switchover=(2, 7)))).actions
    assert isinstance(switch, Switchover)


@pytest.mark.parametrize("component", ["broker", "controller"])
def test_the_keeper_of_what_stands_comes_back_and_that_of_nothing_does_not(component: Component) -> None:
    """Without it nobody replaces a pod that goes."""
    gone = Platform(brokers=None if component == "broker" else 3, controllers=3 if component == "broker" else None)
    observed = taken(look(platform=gone))
    assert component in {each.component for each in decide(observed).actions if isinstance(each, SetMembers)}
    volumes = replace(observed, brokers=tuple(replace(each, instance=None) for each in observed.brokers))
    assert decide(volumes).actions or component == "controller"
    empty: dict[str, tuple[Slot, ...]] = {f"{component}s": ()}
    held = decide(replace(observed, **empty))
    assert (held.actions, held.codes) == ((), {Code.NAME_TAKEN})
