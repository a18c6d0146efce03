"""Looks at a group, built from what differs: else three brokers and three controllers, all well, and broker 1 leads."""

from dataclasses import replace
from typing import Any

from logherd_operator.observed.observed import Observed, Orders, Platform
from logherd_operator.observed.quorum import Group, Member, Quorum, Replica, Rules
from logherd_operator.observed.slots import Instance, Report, Slot, Volume
from logherd_operator.plan.outcome import Plan
from logherd_operator.plan.planner import plan
from logherd_operator.spec.group import BrokerGroupSpec

__all__ = [
    "GIB", "NOW", "OLD", "WANTED", "broker", "controllers", "decide", "group", "instance", "look", "quorum", "replica",
    "spec_of", "with_broker",
]  # fmt: skip

NOW = 1_000_000.0
GIB = 1 << 30
WANTED, OLD = "rev-2", "rev-1"
LONG_AGO = NOW - 10_000


def instance(ordinal: int, **fields: Any) -> Instance:
    return Instance(**{"uid": f"pod-{ordinal}", "revision": WANTED, "started_at": LONG_AGO, "ready": True} | fields)


def broker(ordinal: int, *, stands: Instance | None = None, **fields: Any) -> Slot:
    values: dict[str, Any] = {
        "ordinal": ordinal,
        "instance": stands or instance(ordinal),
        "volume": Volume(uid=f"volume-{ordinal}", requested=20 * GIB, capacity=20 * GIB),
        "report": Report(broker_id=ordinal + 1, role="follower", epoch=7, store_id=f"store-{ordinal}"),
    }
    return Slot(**values | fields)


def replica(broker_id: int, **fields: Any) -> Replica:
    return Replica(**{"broker_id": broker_id, "store_id": f"store-{broker_id - 1}", "alive": True} | fields)


def group(count: int = 3, **fields: Any) -> Group:
    ids = tuple(range(1, count + 1))
    values: dict[str, Any] = {
        "epoch": 7,
        "founded": True,
        "rules": Rules(replicas=count, min_in_sync=min(2, count)),
        "leader": 1,
        "serving": True,
        "in_sync": ids,
        "replicas": tuple(replica(each) for each in ids),
    }
    return Group(**values | fields)


def quorum(count: int = 3, *, down: tuple[int, ...] = (), leader: str | None = "c0") -> Quorum:
    members = tuple(
        Member(node=f"c{n}", identity=f"c{n}.1", voter=True, connected=n not in down, lag=0) for n in range(count)
    )
    return Quorum(leader=leader, term=3, members=members)


def controllers(count: int = 3, **fields: Any) -> tuple[Slot, ...]:
    return tuple(
        Slot(ordinal=n, instance=instance(n, uid=f"controller-{n}", **fields)) for n in range(count)
    )  # fmt: skip


def look(count: int = 3, **fields: Any) -> Observed:
    """Everything has been so for a long time, unless `since` says otherwise."""
    values: dict[str, Any] = {
        "platform": Platform(
            brokers=count, controllers=3, broker_revision=WANTED, controller_revision=WANTED, broker_claim=20 * GIB
        ),
        "brokers": tuple(broker(n) for n in range(count)),
        "controllers": controllers(),
        "group": group(count),
        "quorum": quorum(),
        "orders": Orders(),
    }
    observed = Observed(**values | fields)
    return observed if "since" in fields else replace(observed, since=long_since(observed))


def long_since(observed: Observed) -> dict[str, float]:
    """As if what is so had been so for long."""
    first = plan(observed, BrokerGroupSpec(replicas=len(observed.brokers) or 3), LONG_AGO).since
    return dict.fromkeys(first, LONG_AGO)


def with_broker(observed: Observed, slot: Slot) -> Observed:
    others = [each for each in observed.brokers if each.ordinal != slot.ordinal]
    return replace(observed, brokers=tuple(sorted([*others, slot], key=lambda each: each.ordinal)))


def spec_of(**fields: Any) -> BrokerGroupSpec:
    return BrokerGroupSpec.model_validate({"replicas": 3} | fields)


def decide(observed: Observed, **fields: Any) -> Plan:
    return plan(observed, spec_of(**fields), NOW)
