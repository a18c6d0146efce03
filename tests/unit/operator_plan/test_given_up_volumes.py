"""Volumes of which nothing may be given up unasked. A claim that somebody deletes stays for as long as its pod does:
until then the pod has what may be nowhere else. One that is bound to a node that is gone is given up by order.
"""

from dataclasses import replace
from typing import Any

import pytest

from logherd_operator.observed.observed import Observed, Orders
from logherd_operator.observed.slots import Instance, Volume
from logherd_operator.plan.actions import Rebuild, Restart
from logherd_operator.plan.outcome import Code
from unit.operator_plan.looks import (
    GIB,
    NOW,
    OLD,
    broker,
    controllers,
    decide,
    group,
    instance,
    look,
    replica,
    with_broker,
)

DELETED = Volume(uid="v", requested=20 * GIB, capacity=20 * GIB, leaving=True)


def only_copy(**fields: object) -> Observed:
    """Of a group of one, whose pod still uses its claim."""
    alone = look(1, group=group(1), controllers=controllers(started_at=NOW))
    return with_broker(alone, broker(0, volume=DELETED, stands=instance(0, node="n", **fields)))


@pytest.mark.parametrize("why", ["another template", "an order", "it does not run"])
def test_a_broker_whose_claim_was_deleted_is_not_restarted(why: str) -> None:
    observed = only_copy(revision=OLD)
    if why == "an order":
        observed = replace(only_copy(), orders=Orders(restart_at=NOW - 1))
    elif why == "it does not run":
        dead = group(1, leader=None, serving=False, replicas=(replica(1, alive=False),))
        observed = replace(only_copy(revision=OLD, ready=False, failing="CrashLoopBackOff"), group=dead)
    plan = decide(observed, replicas=1)
    assert (plan.actions, Code.VOLUME_LOST in plan.codes) == ((), True)
    assert "was deleted, and is there only until its pod stops" in plan.blocked[0].message
    kept = with_broker(observed, replace(observed.brokers[0], volume=replace(DELETED, leaving=False)))
    assert [type(each) for each in decide(kept, replicas=1).actions] == [Restart]


def test_it_is_said_also_where_nothing_is_to_be_restarted_and_the_volume_is_given_up_on_order() -> None:
    observed = with_broker(look(), broker(2, volume=DELETED, stands=instance(2, node="n")))
    plan = decide(observed)
    assert (plan.actions, plan.codes) == ((), {Code.VOLUME_LOST})
    assert "annotate the group with logherd.dev/rebuild=2@v" in plan.blocked[0].unblocks
    (action,) = decide(replace(observed, orders=Orders(rebuild=(2, "v")))).actions
    assert isinstance(action, Rebuild)
    alone = replace(only_copy(), orders=Orders(rebuild=(0, "v")))
    refused = decide(alone, replicas=1, update={"allowWritePause": True})
    assert (refused.actions, Code.LAST_COPY in refused.codes) == ((), True)


def test_of_what_goes_with_a_pod_that_stops_nothing_is_said() -> None:
    observed = with_broker(
        look(group=group(in_sync=(1, 2))), broker(2, volume=DELETED, stands=instance(2, node="n", leaves_by=NOW + 9))
    )
    assert Code.VOLUME_LOST not in decide(observed).codes


def test_one_that_does_not_run_either_stands_in_nobodys_way() -> None:
    def broken(ordinal: int) -> Instance:
        return instance(ordinal, node="n", revision=OLD, ready=False, failing="CrashLoopBackOff")

    observed = look(group=group(in_sync=(1,)))
    observed = with_broker(observed, broker(1, volume=DELETED, stands=broken(1), report=None))
    observed = with_broker(observed, broker(2, stands=broken(2), report=None))
    for each in (observed, replace(observed, group=None)):
        assert [action.ordinal for action in decide(each).actions if isinstance(action, Restart)] == [2]
    alone = with_broker(observed, broker(2))
    (action,) = decide(replace(alone, group=group(in_sync=(1, 3)), orders=Orders(rebuild=(1, "v")))).actions
    assert isinstance(action, Rebuild)


def stranded(seconds: float, **fields: Any) -> Observed:
    """Broker 3's volume is bound to a node that is gone, and no other can take its pod; for so long."""
    away = broker(2, stands=instance(2, ready=False, unschedulable="volume node affinity conflict"), report=None)
    observed = with_broker(look(group=group(in_sync=(1, 2)), **fields), away)
    return replace(observed, since={**observed.since, "unschedulable:2": NOW - seconds})


def test_a_volume_whose_node_is_gone_is_given_up_on_order_once_that_has_lasted() -> None:
    ordered = {"orders": Orders(rebuild=(2, "volume-2"))}
    assert decide(stranded(299, **ordered)).actions == ()
    (action,) = decide(stranded(300, **ordered)).actions
    assert isinstance(action, Rebuild)
    assert (action.ordinal, action.uid, action.volume_uid) == (2, "pod-2", "volume-2")
    last = replace(stranded(300, **ordered), group=group(in_sync=(1, 2), eligible=(3,)))
    assert (decide(last).actions, Code.LAST_COPY in decide(last).codes) == ((), True)
    another = {"orders": Orders(rebuild=(2, "volume-2-b"))}
    assert decide(stranded(300, **another)).actions == ()


@pytest.mark.parametrize("bound", [True, False], ids=["bound", "never bound"])
def test_what_gives_such_a_volume_up_is_said_where_there_is_something_to_give_up(bound: bool) -> None:
    observed = stranded(300)
    if not bound:
        slot = replace(observed.brokers[2], volume=Volume(uid="volume-2", requested=20 * GIB))
        observed = with_broker(observed, slot)
    (block,) = decide(observed).blocked
    assert block.code is Code.UNSCHEDULABLE
    assert ("annotate the group with logherd.dev/rebuild=2@volume-2" in block.unblocks) is bound
