"""A broker without a group, whole."""

import asyncio
from pathlib import Path

import pytest

from logherd.app.engine import Engine
from logherd.net.connection import Connection, connect
from logherd.net.errors import NetError
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame
from unit.app.forwarding.rig import send_frame, start_alone

FOR_EVER = 3_600.0


async def test_connections_that_were_answered_together_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await start_alone(tmp_path / "alone")
    host, _, port = broker.addresses()["address"].rpartition(":")
    first, second = await connect(host, int(port)), await connect(host, int(port))
    assert (await first.call(send_frame(b"the topic is there"), seconds=5)).code == 0

    engine = broker._engine
    assert isinstance(engine, Engine)
    monkeypatch.setattr("logherd.app.linger.LINGER_SECONDS_MAX", FOR_EVER)
    monkeypatch.setattr("logherd.app.linger.LINGER_RUNS_MAX", 1e12)
    engine.linger.asked(engine.store.end_position, connections=2)  # as if both had asked in one pass,
    engine.linger.left()
    engine.linger.answered(2)  # and were answered in one

    before = engine.store.committed_position
    early = asyncio.create_task(first.call(send_frame(b"early"), seconds=30))
    done, _ = await asyncio.wait({early}, timeout=0.1)
    assert not done
    assert engine.store.committed_position == before < engine.store.end_position
    late = await second.call(send_frame(b"late"), seconds=30)
    assert (late.code, (await early).code) == (0, 0)

    for link in (first, second):
        await link.close()
    await broker.stop()


@pytest.mark.parametrize("port", ["address", "nameServer"])
async def test_each_port_takes_as_many_connections_of_an_address_as_the_settings_say(tmp_path: Path, port: str) -> None:
    broker = await start_alone(tmp_path / "alone", limits={"connectionsPerAddress": 1})
    host, _, number = broker.addresses()[port].rpartition(":")
    links: list[Connection] = []

    async def accepted() -> bool:
        link = await connect(host, int(number))
        links.append(link)
        try:
            await link.call(Frame(RequestCode.GET_ROUTEINFO_BY_TOPIC, 0, ext={"topic": "orders"}), seconds=5)
        except NetError:
            return False
        return True

    try:
        assert [await accepted(), await accepted()] == [True, False]
        status, said = await broker._live.action({"values": {"limits.connectionsPerAddress": 2}}, {})
        assert status == 200, said
        assert [await accepted(), await accepted()] == [True, False]
    finally:
        for link in links:
            await link.close()
        await broker.stop()
