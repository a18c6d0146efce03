"""Two hundred random histories of what people and machines do to a group: each ends in the same state, and on the way
the planner takes nothing away that it may not.
"""

from random import Random
from typing import Any

import pytest

from logherd_operator.plan import rollout
from logherd_operator.plan.actions import RestartReason, Switchover
from logherd_operator.plan.planner import plan
from logherd_operator.spec.group import BrokerGroupSpec
from unit.operator_plan.world import World

HISTORIES = 200
SHARDS = 4
QUIET_STEPS = 8
FINAL = {
    "replicas": 3, "image": "good-final", "config": {"fileReservedTime": "96"},
    "storage": {"size": "40Gi", "retention": {"whenScaled": "Delete"}},
}  # fmt: skip


VOTING = {"replication": {"mode": "Raft"}}


def spec_of(random: Random, mode: dict[str, Any] | None = None) -> dict[str, Any]:
    replicas = random.choice([1, 2, 3, 3, 4, 5])
    found = {
        "replicas": replicas,
        "image": random.choice(["good-1", "good-2", "good-3", "bad-1"]),
        "replication": {"minInSyncReplicas": random.randint(1, replicas)},
        "config": {"fileReservedTime": str(random.choice([24, 48, 72]))},
        "storage": {"size": random.choice(["20Gi", "30Gi"])},
    }
    return found | (mode or {})


def apply(world: World, fields: dict[str, Any]) -> None:
    before = world.spec.storage.size
    world.spec = BrokerGroupSpec.model_validate(fields)
    if world.spec.storage.size < before:  # the API server refuses a smaller one
        world.spec = BrokerGroupSpec.model_validate({**fields, "storage": {"size": before}})


def happen(world: World, random: Random, mode: dict[str, Any] | None = None) -> str:
    """One event. Never more than a volume of one broker that others cover: the last copy is nobody's to bring back."""
    event = random.choice(["spec", "spec", "kill", "delete", "volume", "quorum", "room", "controller", "forget status"])
    if event == "spec":
        apply(world, spec_of(random, mode))
    elif event in ("kill", "delete") and world.pods:
        ordinal = random.choice(sorted(world.pods))
        if event == "kill":
            world.pods[ordinal].started_at = world.now
        else:
            world.pods.pop(ordinal)
    elif event == "volume" and world.group is not None and len(world.group.in_sync) > 1:
        victims = [each for each in world.group.in_sync if each != world.group.leader and each - 1 in world.disks]
        others = [each for each in world.group.in_sync if world.serves(each - 1)]
        if victims and len(others) > 2:
            ordinal = random.choice(victims) - 1
            world.pods.pop(ordinal, None)
            world.disks.pop(ordinal, None)
    elif event == "quorum":
        world.quorum_down = not world.quorum_down
    elif event == "room":
        world.no_room = not world.no_room
    elif event == "controller" and world.controllers:
        world.controllers[random.choice(sorted(world.controllers))].started_at = world.now
    return event


def step(world: World, since: dict[str, float], seconds: float, *, lossy: bool = False) -> dict[str, float]:
    """Look, plan, act, and let time pass. Sometimes the operator acts on a look that is a moment old."""
    observed = world.observed(since)
    if lossy and world.random.random() < 0.1:
        world.tick(1.0)
    made = plan(observed, world.spec, world.now)
    forgetful = plan(world.observed({}), world.spec, world.now)
    allowed = [type(action) for action in plan(world.observed(since), world.spec, world.now).actions]
    for action in forgetful.actions:
        # Asking again who should lead, under the same request id, is no second action.
        again = isinstance(action, Switchover) and f"switch:{action.expected_epoch}:{action.target}" in made.since
        if action.disruptive and type(action) not in allowed and not again:
            world.faults.append(f"OP-5: without its memory it would {action}")
    if not (lossy and world.random.random() < 0.1):
        world.carry_out(made)
    world.tick(seconds)
    return dict(made.since)


def outcome(world: World) -> dict[str, Any]:
    group = world.group
    assert group is not None
    return {
        "brokers": world.count,
        "revisions": sorted({pod.revision for pod in (*world.pods.values(), *world.controllers.values())}),
        "pods": sorted(world.pods),
        "volumes": {ordinal: disk.size for ordinal, disk in sorted(world.disks.items())},
        "claim": world.claim,
        "in sync": group.in_sync,
        "replicas": [(each.broker_id, each.learner) for each in group.replicas],
        "rules": (group.rules.replicas, group.rules.min_in_sync),
        "led": group.leader in group.in_sync,
        "hot": [world.hot.get(pod.uid) for _, pod in sorted(world.pods.items())],
    }


def history(seed: int, mode: dict[str, Any] | None = None) -> dict[str, Any]:
    random = Random(seed)
    world = World(random=random, spec=BrokerGroupSpec.model_validate({**spec_of(random, mode), "image": "good-1"}))
    since: dict[str, float] = {}
    for _ in range(random.randint(3, 12)):
        for _ in range(random.randint(1, 25)):
            since = step(world, since, random.choice([2.0, 10.0, 40.0]), lossy=True)
        if happen(world, random, mode) == "forget status":
            since = {}
    world.quorum_down = world.no_room = False
    apply(world, FINAL | (mode or {}))
    quiet = 0
    for _ in range(400):
        since = step(world, since, 20.0)
        made = plan(world.observed(since), world.spec, world.now)
        resting = not made.actions and made.operation is None and not made.blocked
        quiet = quiet + 1 if resting else 0
        if quiet == QUIET_STEPS:
            break
    assert world.faults == [], f"history({seed})"
    return outcome(world)


def undisturbed(mode: dict[str, Any] | None = None) -> dict[str, Any]:
    world = World(random=Random(0), spec=BrokerGroupSpec.model_validate(FINAL | (mode or {})))
    since: dict[str, float] = {}
    for _ in range(60):
        since = step(world, since, 20.0)
    return outcome(world)


def test_an_undisturbed_group_comes_up_and_rests() -> None:
    found = undisturbed()
    assert found["in sync"] == (1, 2, 3)
    assert found["rules"] == (3, 2)
    assert found["revisions"] == ["good-final"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_history_ends_in_the_same_state(shard: int) -> None:
    wanted = undisturbed()
    for seed in range(shard, HISTORIES, SHARDS):
        assert history(seed) == wanted, f"history({seed})"


@pytest.mark.timeout(300)
def test_every_history_of_brokers_that_vote_ends_in_the_same_state() -> None:
    wanted = undisturbed(VOTING)
    assert wanted["in sync"] == (1, 2, 3)
    for seed in range(HISTORIES // SHARDS):
        assert history(seed, VOTING) == wanted, f"history({seed}, VOTING)"


@pytest.mark.parametrize(
    ("guards", "fault"),
    [
        (("rollout._settled", "rollout._soaked"), "OP-2"),  # either of the two is enough in this world
        (("rollout.writes_go_on",), "OP-1"),
        (("scale._refusals",), "OP-1"),
        (("rollout._hand_over",), "OP-50"),
    ],
)
def test_a_planner_without_its_guards_is_noticed(
    guards: tuple[str, ...], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def restart_it(_situation: Any, _group: Any, leader: Any) -> Any:
        yield rollout._restart(leader, leader.instance, RestartReason.SPEC_CHANGED)

    instead: dict[str, Any] = {
        "rollout._settled": lambda *_: iter(()), "rollout._soaked": lambda *_: iter(()),
        "rollout._hand_over": restart_it, "scale._refusals": lambda *_: iter(()),
    }  # fmt: skip
    for guard in guards:
        monkeypatch.setattr(f"logherd_operator.plan.{guard}", instead.get(guard, lambda *_: None))
    for seed in range(60):
        try:
            history(seed)
        except AssertionError as error:
            if fault in str(error):
                return
    pytest.fail(f"sixty histories did not notice that {guards} are gone")
