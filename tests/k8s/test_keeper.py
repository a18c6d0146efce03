"""The leader's endpoint moves while no operator runs: sidecars over HTTP, against the emulated API server."""

import asyncio
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from k8s.api_http import served
from k8s.driving import Drive
from k8s.kubelet import NAME, NAMESPACE
from logherd_operator.keeper.decision import Keeper
from logherd_operator.keeper.keeping import Keeping, step
from logherd_operator.keeper.slices import ApiPlace

SLICE = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/{NAME}-leader"
LEASE = 3.0


@dataclass
class Sidecars:
    """One beside each controller; `now` moves on between rounds."""

    drive: Drive
    address: str
    now: float = 0.0
    keepers: dict[int, tuple[Keeper, Keeping]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for n in range(3):
            page = f"{self.address}/admin/{NAME}-controller-{n}/groups/{NAME}/{NAME}"
            place = ApiPlace(self.address, SLICE)
            # Questions may take their time on a busy machine: the emulated clock does not move meanwhile.
            keeping = Keeping(
                page=page, token_file=Path(os.devnull), slice_place=place, name=f"{NAME}-controller-{n}",
                lease=LEASE * 20,
            )  # fmt: skip
            self.keepers[n] = (Keeper(keeping.name, LEASE, self.now), keeping)

    async def rounds(self, seconds: float) -> None:
        for _ in range(int(seconds / 0.5)):
            for keeper, keeping in self.keepers.values():
                await asyncio.to_thread(step, keeper, keeping, lambda: self.now)
            self.now += 0.5

    @property
    def shown(self) -> str:
        endpoints = (self.drive.api.find(SLICE) or {})["endpoints"]
        return str(endpoints[0]["addresses"][0]) if endpoints else ""


async def founded() -> Drive:
    drive = Drive.of({"replicas": 3, "image": "logherd:good-1"})
    await drive.settle()
    assert (drive.api.find(SLICE) or {})["endpoints"] == []  # the operator made it and leaves it alone
    return drive


async def test_the_endpoint_follows_the_leader_while_the_operator_is_away() -> None:
    drive = await founded()
    async with served(drive.api, drive.kubelet) as address:
        sidecars = Sidecars(drive, address)
        await sidecars.rounds(1.0)
        assert sidecars.shown == "10.0.0.1"
        drive.kubelet.world.pods[0].started_at = drive.kubelet.world.now
        drive.kubelet.tick(2)
        await sidecars.rounds(1.0)
        group = drive.kubelet.world.group
        assert group is not None
        assert (group.leader, group.epoch) == (2, 2)
        assert sidecars.shown == "10.0.0.2"
        found = drive.api.find(SLICE)
        assert found is not None
        assert found["metadata"]["annotations"]["logherd.dev/epoch"] == "2"


async def test_another_controller_leads_and_its_sidecar_takes_over() -> None:
    drive = await founded()
    async with served(drive.api, drive.kubelet) as address:
        sidecars = Sidecars(drive, address)
        await sidecars.rounds(1.0)
        drive.kubelet.world.controllers[0].started_at = drive.kubelet.world.now + 100_000
        drive.kubelet.world.pods[0].started_at = drive.kubelet.world.now
        drive.kubelet.tick(2)
        await sidecars.rounds(1.5)
        assert sidecars.shown == "10.0.0.2"
        assert (drive.api.find(SLICE) or {})["metadata"]["annotations"]["logherd.dev/kept-by"] == "orders-controller-1"


async def test_without_a_quorum_it_is_empty_within_one_lease_and_full_again_after() -> None:
    drive = await founded()
    async with served(drive.api, drive.kubelet) as address:
        sidecars = Sidecars(drive, address)
        await sidecars.rounds(1.0)
        drive.kubelet.world.quorum_down = True
        sidecars.keepers = {n: (keeper, _prompt(keeping)) for n, (keeper, keeping) in sidecars.keepers.items()}
        await sidecars.rounds(LEASE)
        assert sidecars.shown == ""
        drive.kubelet.world.quorum_down = False
        await sidecars.rounds(1.0)
        assert sidecars.shown == "10.0.0.1"


def _prompt(keeping: Keeping) -> Keeping:
    return replace(keeping, lease=LEASE)


async def test_an_idle_endpoint_costs_the_api_server_one_question_in_ten_seconds() -> None:
    drive = await founded()
    async with served(drive.api, drive.kubelet) as address:
        sidecars = Sidecars(drive, address)
        await sidecars.rounds(2.0)
        before = sum(drive.api.seen.values())
        await sidecars.rounds(30.0)
        assert sum(drive.api.seen.values()) - before <= 3


async def test_an_endpoint_that_somebody_deletes_is_made_by_the_operator_and_filled_by_a_sidecar() -> None:
    drive = await founded()
    async with served(drive.api, drive.kubelet) as address:
        sidecars = Sidecars(drive, address)
        await sidecars.rounds(1.0)
        drive.api.drop(SLICE)
        await sidecars.rounds(1.0)
        await drive.steps(6.0)
        assert (drive.api.find(SLICE) or {})["endpoints"] == []
        await sidecars.rounds(22.0)
        assert sidecars.shown == "10.0.0.1"


async def test_what_an_operator_does_meanwhile_leaves_the_endpoint_alone() -> None:
    drive = await founded()
    async with served(drive.api, drive.kubelet) as address:
        sidecars = Sidecars(drive, address)
        await sidecars.rounds(1.0)
        drive.begin()
        drive.set_spec({"replicas": 3, "image": "logherd:good-1", "config": {"fileReservedTime": "96"}})
        await drive.settle()
        assert sidecars.shown == "10.0.0.1"
