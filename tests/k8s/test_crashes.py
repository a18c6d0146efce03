"""The operator dies after each single write of a scenario, and each answer is lost once: the end is the same, and
nothing that holds data was made anew on the way.
"""

from typing import Any

import pytest

from k8s.driving import Drive, final_state

Spec = dict[str, Any]
SMALL: Spec = {"replicas": 3, "image": "logherd:good-1"}
SCENARIOS: dict[str, tuple[Spec | None, Spec]] = {
    "found": (None, SMALL),
    "roll": (SMALL, {**SMALL, "image": "logherd:good-2"}),
    "scale up": (SMALL, {**SMALL, "replicas": 4}),
    "scale down": (
        {**SMALL, "replicas": 4, "storage": {"retention": {"whenScaled": "Delete"}}},
        {**SMALL, "storage": {"retention": {"whenScaled": "Delete"}}},
    ),
    "grow": (SMALL, {**SMALL, "storage": {"size": "40Gi"}}),
    "settings": (SMALL, {**SMALL, "config": {"fileReservedTime": "96", "maxMessageSize": "1048576"}}),
}


async def prepared(scenario: str) -> Drive:
    before, after = SCENARIOS[scenario]
    drive = Drive.of(before if before is not None else after)
    if before is not None:
        await drive.settle()
        drive.set_spec(after)
    return drive


def volumes(drive: Drive) -> dict[str, str]:
    return {
        each["metadata"]["name"]: each["metadata"]["uid"]
        for each in drive.api.of_kind("persistentvolumeclaims")
        if "broker" in each["metadata"]["name"]
    }


async def ended(scenario: str, *, kill: int | None = None, lose: int | None = None) -> tuple[Drive, int]:
    """The scenario's end, and how many writes it took."""
    drive = await prepared(scenario)
    before, first = volumes(drive), drive.api.writes
    drive.api.faults.kill_after = None if kill is None else first + kill
    drive.api.faults.lose = None if lose is None else first + lose
    await drive.settle()
    kept = volumes(drive)
    assert {name: uid for name, uid in before.items() if name in kept} == {
        name: uid for name, uid in kept.items() if name in before
    }
    assert drive.kubelet.world.faults == []
    return drive, drive.api.writes - first


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_an_operator_that_dies_after_any_write_goes_on(scenario: str) -> None:
    drive, count = await ended(scenario)
    wanted = final_state(drive)
    assert count > 5
    for k in range(1, count + 1):
        crashed, _ = await ended(scenario, kill=k)
        assert crashed.lives == 2, f"write {k} was never reached"
        assert final_state(crashed) == wanted, f"killed after write {k}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_an_answer_that_is_lost_changes_nothing(scenario: str) -> None:
    drive, count = await ended(scenario)
    wanted = final_state(drive)
    for k in range(1, count + 1):
        confused, writes = await ended(scenario, lose=k)
        assert final_state(confused) == wanted, f"write {k} had no answer"
        assert writes <= 3 * count
