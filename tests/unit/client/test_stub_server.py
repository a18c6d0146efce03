"""The stub that measures a client's ceiling answers a producer and a load."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from logherd.client.producer import Outgoing, Producer
from logherd.client.send_load import SendLoad, run_send_load

ROOT = Path(__file__).parents[3]


@pytest.fixture
def stub() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.stub_server", "--port", "0", "--queues", "4"], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().decode().split()[-1]
    finally:
        process.terminate()
        process.wait(timeout=10)
        process.stdout.close()


async def test_a_producer_is_content(stub: str) -> None:
    async with Producer([stub]) as producer:
        sent = [await producer.send("T", Outgoing(b"x")) for _ in range(3)]
        assert [each.code for each in sent] == [0, 0, 0]
        batch = await producer.send_batch("T", [Outgoing(b"a"), Outgoing(b"b")])
        assert batch.code == 0
        await producer.send_oneway("T", Outgoing(b"x"))
        assert len((await producer._link.routes.get("T")).writable) == 4


async def test_a_load_gets_one_answer_for_each_message(stub: str) -> None:
    host, port = stub.split(":")
    load = SendLoad(host=host, port=int(port), topic="T", size=100, window=64, seconds=0.2, warmup_seconds=0.05)
    report = await run_send_load(load)
    assert report.messages > 100
    assert (report.refused, report.lost) == ({}, 0)


async def test_the_native_bench_runs_against_it(stub: str) -> None:
    command = f"bench send --name-server {stub} --size 100 --window 64 --seconds 0.2 -o json".split()
    bench = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "logherd", *command, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await bench.communicate()
    report = json.loads(out)
    assert bench.returncode == 0
    assert report["messages"] > 100
    assert (report["refused"], report["lost"]) == ({}, 0)
