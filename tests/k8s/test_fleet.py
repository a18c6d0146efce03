"""Two hundred groups that stand still: what they cost the API server, how much memory they need, how soon one is heard.

The operator is a process of its own. Times of a busy machine prove nothing, so what is bounded is requests in a span,
which a slow machine only makes fewer, and memory.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from k8s.api_http import served
from k8s.driving import OPTIONS, Seen
from k8s.fleet import SPEC, Fleet
from k8s.kubelet import NAMESPACE
from logherd_operator.clients.api import Api
from logherd_operator.handlers.known import Key
from logherd_operator.handlers.reconcile import Means, Reconciler

GROUPS = 200
SPAN = 15.0
MEGABYTES_MAX = 250


async def until(so: Callable[[], bool], between: Callable[[], None]) -> None:
    async with asyncio.timeout(600):
        while not so():
            between()
            await asyncio.sleep(0.5)


def resident_megabytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    raise AssertionError(f"process {pid} has ended")


@pytest.mark.timeout(1500)
async def test_two_hundred_idle_groups_cost_less_than_a_request_a_second_and_little_memory() -> None:
    fleet = Fleet(GROUPS)
    async with served(fleet.api, fleet) as address:
        tests = Path(__file__).parents[1]
        environment = {**os.environ, "PYTHONPATH": f"{tests}:{tests.parent / 'operator'}"}
        operator = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "k8s.lone_operator", address, env=environment, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            await until(lambda: fleet.running() == GROUPS, lambda: fleet.tick(5.0))
            await until(_still(fleet), lambda: None)
            before, began = sum(fleet.api.seen.values()), time.monotonic()
            await asyncio.sleep(SPAN)
            rate = (sum(fleet.api.seen.values()) - before) / (time.monotonic() - began)
            megabytes = resident_megabytes(operator.pid)
            asked = time.monotonic()
            fleet.set_spec("g7", {**SPEC, "config": {"fileReservedTime": "96"}})
            await until(lambda: bool(fleet.kubelets["g7"].told), lambda: fleet.kubelets["g7"].tick(1.0))
            print(f"{rate:.2f} requests/s, {megabytes} MB, heard after {time.monotonic() - asked:.1f} s")
            assert rate < 1.0
            assert megabytes < MEGABYTES_MAX
        finally:
            operator.terminate()
            await operator.wait()


def _still(fleet: Fleet) -> Callable[[], bool]:
    """Is nothing written any more but the Lease?"""
    seen: list[int] = []

    def so() -> bool:
        leases = sum(count for (group, _, _), count in fleet.api.seen.items() if group == "coordination.k8s.io")
        seen.append(sum(fleet.api.seen.values()) - leases)
        return len(seen) > 8 and seen[-1] == seen[-8]

    return so


async def test_in_an_hour_what_stands_is_applied_again_at_one_pace_for_all_groups() -> None:
    fleet, now = Fleet(GROUPS), [1000.0]
    means = Means(
        known=Seen(fleet.api), api=Api(fleet.api), admins=fleet, now=lambda: now[0], ticks=lambda: now[0]
    )  # fmt: skip
    reconciler = Reconciler(means, OPTIONS)
    keys = [Key(NAMESPACE, name) for name in fleet.kubelets]
    for _ in range(8):
        for key in keys[:20]:
            await reconciler.reconcile(key)
        fleet.tick(10.0)
        now[0] += 10.0
    before, began = sum(fleet.api.seen.values()), now[0]
    while now[0] - began < 3600.0:
        now[0] += 60.0
        for key in keys[:20]:
            await reconciler.reconcile(key)
    # Twenty groups would be 2,280 requests, were each applied again as soon as it is due.
    assert 100 < sum(fleet.api.seen.values()) - before < 0.25 * 3600
