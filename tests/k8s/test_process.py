"""The whole operator, kopf and all, over HTTP: it finds groups, follows changes, and only one of two acts."""

import asyncio
import json
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from kubernetes.aio.client import Configuration

from k8s.api_http import served
from k8s.driving import OPTIONS, Drive
from k8s.kubelet import NAME, NAMESPACE
from logherd_operator.clients.lease import Lease, LeasePlace
from logherd_operator.handlers import process
from logherd_operator.handlers.known import EPOCH
from logherd_operator.handlers.process import LeaseLost, RunOptions, work
from logherd_operator.handlers.started import Started, start
from logherd_operator.keeper import decision

PATIENCE = 50.0
SPEC = {"replicas": 3, "image": "logherd:good-1"}
SLICE = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/{NAME}-leader"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/logherd-operator"


def run_options(identity: str = "op-0") -> RunOptions:
    lease = LeasePlace(namespace=NAMESPACE, name="logherd-operator", identity=identity)
    return RunOptions(options=OPTIONS, lease=lease, namespaces=(NAMESPACE,), health_port=0)


@asynccontextmanager
async def operating(drive: Drive, address: str, identity: str = "op-0") -> AsyncIterator[asyncio.Task[None]]:
    stop = asyncio.Event()
    access = Configuration(host=address)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work(run_options(identity), access, drive.kubelet, stop))
        try:
            yield task
        finally:
            stop.set()


async def until(drive: Drive, so: Callable[[], bool]) -> None:
    """Real time goes on with the emulated one, ten times as fast."""
    async with asyncio.timeout(PATIENCE):
        while not so():
            drive.kubelet.tick(1.0)
            await asyncio.sleep(0.1)


async def at_rest(drive: Drive) -> None:
    """Nothing is looked at for six seconds; once a minute it would be."""
    last, quiet = drive.kubelet.asked, 0

    def rests() -> bool:
        nonlocal last, quiet
        last, quiet = drive.kubelet.asked, quiet + 1 if drive.kubelet.asked == last else 0
        return quiet >= 60

    await until(drive, rests)


def running(drive: Drive) -> Callable[[], bool]:
    return lambda: drive.status.get("phase") == "Running"


def no_user(uid: int) -> None:
    raise KeyError(f"uid not found: {uid}")


async def outcome(working: Coroutine[Any, Any, None]) -> Exception | None:
    try:
        await working
    except LeaseLost as lost:
        return lost
    return None


@pytest.mark.timeout(180)
async def test_it_founds_a_group_and_follows_its_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pwd.getpwuid", no_user)  # as in a container, whose user stands in no file
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    drive = Drive.of(SPEC)
    async with served(drive.api) as address, operating(drive, address):
        await until(drive, running(drive))
        drive.set_spec({**SPEC, "config": {"fileReservedTime": "96"}})
        await until(drive, lambda: len([path for _, path in drive.kubelet.told if path == "/config"]) >= 3)
    text = json.dumps(drive.api.objects)
    assert "finalizers" not in text
    assert "kopf" not in text
    assert drive.api.find(LEASE) is not None
    assert drive.api.find(LEASE)["spec"]["holderIdentity"] == ""  # type: ignore[index]  # it was given back


@pytest.mark.timeout(180)
async def test_a_new_leader_is_told_of_at_once_though_no_pod_has_changed() -> None:
    assert decision.EPOCH == EPOCH
    drive = Drive.of(SPEC)
    async with served(drive.api) as address, operating(drive, address):
        await until(drive, running(drive))
        await until(drive, lambda: drive.status["leader"]["epoch"] == 1)
        await at_rest(drive)
        world, before = drive.kubelet.world, drive.api.find(SLICE)
        assert world.group is not None
        assert before is not None
        world.group = replace(world.group, leader=2, epoch=2)
        notes = {**before["metadata"].get("annotations", {}), EPOCH: "2"}
        drive.api.put(SLICE, {**before, "metadata": {**before["metadata"], "annotations": notes}})
        async with asyncio.timeout(5.0):
            await until(drive, lambda: (drive.status["leader"]["brokerId"], drive.status["leader"]["epoch"]) == (2, 2))


@pytest.mark.timeout(180)
async def test_of_two_operators_one_acts_and_the_other_takes_over() -> None:
    drive = Drive.of(SPEC)
    async with served(drive.api) as address, operating(drive, address, "second") as second:
        del second
        async with operating(drive, address, "first"):
            await until(drive, running(drive))
        found = drive.api.find(LEASE)
        assert found is not None
        await until(drive, lambda: (drive.api.find(LEASE) or {})["spec"]["holderIdentity"] in ("first", "second"))
        drive.set_spec({**SPEC, "image": "logherd:good-2"})
        await until(drive, lambda: drive.status["versions"]["image"] == "logherd:good-2")


@pytest.mark.timeout(180)
async def test_it_ends_when_it_cannot_renew_its_lease() -> None:
    drive = Drive.of(SPEC)
    async with served(drive.api) as address:
        work_done = work(run_options(), Configuration(host=address), drive.kubelet, asyncio.Event())
        async with asyncio.TaskGroup() as group:
            ended = group.create_task(outcome(work_done))
            await until(drive, running(drive))
            drive.api.faults.refuse["leases"] = 503
    assert isinstance(ended.result(), LeaseLost)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("answers", [True, False], ids=["held by another", "no answer"])
async def test_one_that_waits_for_the_lease_ends_when_it_is_told_to(
    answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a container's first process it gets no signal that it does not handle, and would act when it is to go."""
    before, asked = signal.signal(signal.SIGTERM, lambda *_: None), asyncio.Event()

    async def seek(_lease: Lease) -> bool:
        asked.set()
        if not answers:
            await asyncio.Event().wait()
        return False

    async def access() -> Configuration:
        return Configuration(host="http://127.0.0.1:1")

    monkeypatch.setattr(Lease, "seek", seek)
    monkeypatch.setattr(process, "load_access", access)
    try:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(process.run_operator(run_options()))
            await asked.wait()
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_each_log_level_that_the_chart_takes_is_one(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root, seen = logging.getLogger(), list[int]()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(logging.getLogger("asyncio"), "handlers", [])
    monkeypatch.setattr(logging.getLogger("asyncio"), "propagate", True)

    def run(work: Coroutine[Any, Any, None]) -> None:
        work.close()
        seen.append(logging.getLogger("logherd.operator").getEffectiveLevel())

    monkeypatch.setattr(asyncio, "run", run)
    said = Started(
        broker_image="a", operator_image="b", lease="shop/lease", namespaces=("shop",), identity="op", health_port=0,
        log_level=level, log_format="json",
    )  # fmt: skip
    assert start(said) == 0
    assert seen == [getattr(logging, level.upper())]
