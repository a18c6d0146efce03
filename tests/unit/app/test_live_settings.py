"""Settings that are changed while a process runs: checked whole, applied whole, told as they are."""

import asyncio
import errno
import json
import logging
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from logherd.aiokit.tasks import TaskEnded, TaskGuard
from logherd.app.live_settings import LiveSettings
from logherd.service.errors import RequestError
from logherd.settings.load import load_broker_options
from logherd.settings.options import BrokerOptions
from logherd.wire.codes import ResponseCode

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def options(tmp_path: Path) -> BrokerOptions:
    path = tmp_path / "broker.json"
    path.write_text(json.dumps({"brokerGroup": "a", "dataDir": "data"}))
    return load_broker_options(path)


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    before = logging.getLogger("logherd").level
    yield
    logging.getLogger("logherd").setLevel(before)


def live_of(options: BrokerOptions) -> tuple[LiveSettings[BrokerOptions], list[BrokerOptions]]:
    live, applied = LiveSettings("broker", options, TaskGuard()), list[BrokerOptions]()
    live.applied_by.append(applied.append)
    return live, applied


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes long to start a process."""
    monkeypatch.setattr("logherd.app.live_settings._CHECK_SECONDS", 100.0)


async def test_a_change_is_in_force_when_it_is_answered(options: BrokerOptions) -> None:
    live, applied = live_of(options)
    before = live.about()
    status, said = await live.action({"values": {"store.retention.age": "48h", "log.level": "error"}}, {})
    assert status == 200
    assert [(each.store.retention.age_ms, each.log.level) for each in applied] == [(172_800_000, "error")]
    assert logging.getLogger("logherd").level == logging.ERROR
    assert isinstance(said, dict)
    assert said["changed"] == ["store.retention.age", "log.level", "fileReservedTime"]
    assert said["hot"]["store.retention.age"] == "172800000ms"
    assert said["config"]["version"] == 1
    assert said["config"]["changed"] == dict.fromkeys(said["changed"], 1)
    assert said["config"]["hash"] != before["config"]["hash"]  # type: ignore[index]
    assert live.page() == (200, {name: said[name] for name in ("hot", "config")})


async def test_one_wrong_value_leaves_everything_as_it_is(options: BrokerOptions) -> None:
    live, applied = live_of(options)
    status, said = await live.action({"values": {"log.level": "error", "store.reservedPercent": 99}}, {})
    assert status == 400
    assert isinstance(said, dict)
    assert (said["field"], said["value"]) == ("store.reservedPercent", 99)
    assert said["error"].startswith("store.reservedPercent: 99 is not right: write 50 or less")
    assert (applied, live.options, live.version) == ([], options, 0)


async def test_what_is_so_already_is_no_change(options: BrokerOptions) -> None:
    live, applied = live_of(options)
    status, said = await live.action({"values": {"fileReservedTime": "72"}}, {})
    assert status == 200
    assert isinstance(said, dict)
    assert (said["changed"], live.version, applied) == ([], 0, [])


async def test_changes_at_once_come_one_after_the_other_and_none_is_lost(options: BrokerOptions) -> None:
    live, applied = live_of(options)
    answers = await asyncio.gather(
        live.action({"values": {"topics.autoCreate": False}}, {}),
        live.action({"values": {"limits.idleTime": "5m"}}, {}),
    )
    assert [status for status, _ in answers] == [200, 200]
    assert (live.options.topics.auto_create, live.options.limits.idle_ms, live.version) == (False, 300_000, 2)
    assert applied[-1] is live.options


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "values should be an object"),
        ({"values": {}}, "values should be an object"),
        ({"values": {"log.level": "info"}, "until": 3}, "until: unknown; known here: values"),
        ({"values": {"log.level": ["info"]}}, "values.log.level: should be a short text"),
        ({"values": {"log.level": "x" * 300}}, "values.log.level: should be a short text"),
    ],
)
async def test_a_call_of_another_shape_is_refused(
    options: BrokerOptions, document: dict[str, object], words: str
) -> None:
    live, applied = live_of(options)
    status, said = await live.action(document, {})
    assert isinstance(said, dict)
    assert (status, said["error"].startswith(words), applied) == (400, True, [])


async def test_what_nobody_could_check_in_time_is_no_refusal(
    options: BrokerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, applied = live_of(options)
    monkeypatch.setattr("logherd.app.live_settings._CHECK_SECONDS", 0.001)
    status, said = await live.action({"values": {"log.level": "error"}}, {})
    assert status == 503
    assert "try again" in str(said)
    assert (applied, live.version) == ([], 0)


async def test_only_so_many_changes_wait_for_their_check(options: BrokerOptions) -> None:
    """Each takes a process, most of a second, and its turn; anybody may ask for thousands, and an operator waits."""
    ended: list[TaskEnded] = []
    guard = TaskGuard(on_end=ended.append)
    live, told = LiveSettings("broker", options, guard), list[RequestError | None]()
    async with live._turn:
        for _ in range(20):
            live.submit({"fileReservedTime": "48"}, told.append)
            assert told == [], "who asks is told later"
        await asyncio.sleep(0)
        assert [fault and fault.code for fault in told] == [ResponseCode.SYSTEM_BUSY] * 4
        await guard.stop(5)
    assert (ended, live._submitted_now) == ([], 0)


async def test_a_value_that_is_no_text_is_no_reason_to_end(options: BrokerOptions) -> None:
    """As in half of a pair of \\uXXXX, which anybody may send."""
    ended: list[TaskEnded] = []
    guard = TaskGuard(on_end=ended.append)
    live, told = LiveSettings("broker", options, guard), asyncio.Queue[RequestError | None]()
    live.submit({"fileReservedTime": "4\ud8008"}, told.put_nowait)
    async with asyncio.timeout(30):
        while not ended and told.empty():
            await asyncio.sleep(0)
    assert ended == []
    fault = told.get_nowait()
    assert fault is not None
    assert fault.code == ResponseCode.INVALID_PARAMETER
    assert fault.remark.startswith("fileReservedTime: is no text")
    status, _ = await live.action({"values": {"log.level": "\ud800"}}, {})
    assert status == 400


async def test_a_process_that_cannot_be_made_for_the_check_is_no_reason_to_end(
    options: BrokerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    ended: list[TaskEnded] = []
    guard = TaskGuard(on_end=ended.append)
    live, told = LiveSettings("broker", options, guard), asyncio.Queue[RequestError | None]()
    monkeypatch.setattr("subprocess.run", refused)
    live.submit({"fileReservedTime": "48"}, told.put_nowait)
    async with asyncio.timeout(30):
        fault = await told.get()
    assert fault is not None
    assert fault.code == ResponseCode.SYSTEM_BUSY
    status, said = await live.action({"values": {"log.level": "error"}}, {})
    assert (status, "try again" in str(said)) == (503, True)
    await guard.stop(5)
    assert (ended, live.version) == ([], 0)


async def test_a_check_that_is_killed_is_no_refusal(options: BrokerOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = subprocess.CompletedProcess[bytes](["check"], -signal.SIGKILL, b"", b"")
    monkeypatch.setattr("subprocess.run", lambda *_, **__: killed)
    live, _ = live_of(options)
    status, said = await live.action({"values": {"log.level": "error"}}, {})
    assert (status, "signal 9" in str(said)) == (503, True)


async def test_who_cannot_wait_is_told_later(options: BrokerOptions) -> None:
    guard = TaskGuard()
    live, told = LiveSettings("broker", options, guard), asyncio.Queue[RequestError | None]()
    live.submit({"fileReservedTime": "48"}, told.put_nowait)
    assert await told.get() is None
    live.submit({"fileReservedTime": "no"}, told.put_nowait)
    fault = await told.get()
    assert fault is not None
    assert (fault.code, fault.remark.startswith("fileReservedTime: 'no' is not right")) == (29, True)
    assert live.options.store.retention.age_ms == 172_800_000
    await guard.stop(5)
