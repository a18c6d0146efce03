"""What goes while no watch is there (OP-99): kopf begins again with a list, which does not name it."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest
from kubernetes.aio.client import Configuration

from k8s.api_http import served
from k8s.driving import GROUP_PATH, Drive
from k8s.test_process import LEASE, SPEC, run_options, running, until
from logherd_operator.handlers.audit import AuditPace, WatchStale
from logherd_operator.handlers.process import work


def unheard(drive: Drive, path: str) -> None:
    """It is deleted while nobody watches, and too long ago for any watch to be continued."""
    watchers, found = list(drive.api.watchers), drive.api.find(path)
    assert found is not None
    drive.api.watchers.clear()
    drive.api.drop(path)
    drive.api.watchers.extend(watchers)
    for each in watchers:
        each("ERROR", path, {"kind": "Status", "code": 410, "metadata": found["metadata"]})


async def outcome(working: Coroutine[Any, Any, None]) -> Exception | None:
    try:
        await working
    except WatchStale as stale:
        return stale
    return None


@pytest.mark.timeout(180)
async def test_an_operator_that_missed_the_end_of_a_group_begins_anew_and_leaves_it_alone() -> None:
    drive = Drive.of(SPEC)
    run = replace(run_options(), audit=AuditPace(every=15.0, lasting=3.0))
    async with served(drive.api) as address:
        async with asyncio.TaskGroup() as group:
            ended = group.create_task(outcome(work(run, Configuration(host=address), drive.kubelet, asyncio.Event())))
            await until(drive, running(drive))
            unheard(drive, GROUP_PATH)
            await until(drive, ended.done)
        assert isinstance(ended.result(), WatchStale)
        assert "the groups orders" in str(ended.result())
        assert (drive.api.find(LEASE) or {})["spec"]["holderIdentity"] == "", "the next one need not wait"
