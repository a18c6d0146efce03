"""W09, W10: every request code with fields missing, ill-typed or extreme, and with the oneway flag, at a real broker.

Each two-way request gets an answer, no remark shows a stack trace, and the broker's log has no error of its own.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import uvloop

from compat.logherd_server import LogHerd, start_logherd
from logherd.net.connection import connect
from logherd.net.errors import NetError
from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.frame import Flag, Frame, Serialize
from logherd.wire.table import REQUESTS

pytestmark = pytest.mark.system

INTEGERS = ("", "x", "-1", "0", "1.5", "NaN", "-2147483649", "9223372036854775807", "9223372036854775808", "9" * 400)
TEXTS = ("", "\0", "\u00e9" * 200, "../../x", "%RETRY%", "a\nb", "x" * 32_767)
BOOLEANS = ("", "maybe", "1")
BODIES = (b"", b"null", b"[]", b"{}", b"\xff\xfe", b'{"a":' * 200, b"x" * 5000)
OPEN_AT_ONCE = 64


def fields_of(code: int) -> list[tuple[str, bool, tuple[str, ...]]]:
    """Wire name, whether it is required, and odd values of each header field of a request."""
    header = REQUESTS[code].header
    if header is None:
        return []
    found = []
    for field in msgspec.structs.fields(header):
        kind = str(field.type)
        odd = INTEGERS if "int" in kind else BOOLEANS if "bool" in kind else TEXTS
        found.append((field.encode_name, field.required, odd))
    return found


def plain(code: int) -> dict[str, str]:
    """Fields that are well-typed and name nothing that exists. Polls are short."""
    values = {name: "1" if odd is INTEGERS else "true" if odd is BOOLEANS else "x" for name, _, odd in fields_of(code)}
    return {name: "20" if name == "suspendTimeoutMillis" else value for name, value in values.items()}


def cases(code: int) -> Iterator[Frame]:
    """Requests of one code that a hostile client may send."""
    base = plain(code)
    for serialize in Serialize:
        yield Frame(code, 0, serialize=serialize)
        yield Frame(code, 0, ext=dict(base), serialize=serialize)
    for body in BODIES:
        yield Frame(code, 0, ext=dict(base), body=body)
    for name, _, odd in fields_of(code):
        yield Frame(code, 0, ext={key: value for key, value in base.items() if key != name}, body=b"b")
        for value in odd:
            if name != "suspendTimeoutMillis" or len(value) < 10:
                yield Frame(code, 0, ext={**base, name: value}, body=b"b")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LogHerd]:
    with start_logherd(tmp_path / "broker") as server:
        yield server
        assert server.process.running
        log = server.process.log.read_text()
        assert "Traceback" not in log, log[log.index("Traceback") :][:3000]


async def faults_of(port: int, code: int) -> tuple[int, list[str]]:
    """Number of requests of one code that were sent, and what was wrong with their answers."""
    connection = await connect("127.0.0.1", port)
    faults: list[str] = []
    turns = asyncio.Semaphore(OPEN_AT_ONCE)

    async def ask(request: Frame) -> None:
        async with turns:
            try:
                answer = await connection.call(request, seconds=25)
            except NetError as error:
                faults.append(f"{code} {request.ext} {request.body[:20]!r}: {error}")
                return
        remark = answer.remark or ""
        if "Traceback" in remark or 'File "' in remark or len(remark.encode()) > 4096:
            faults.append(f"{code} {request.ext}: remark {remark[:300]}")

    requests = list(cases(code))
    async with asyncio.TaskGroup() as group:
        for number, request in enumerate(requests):
            group.create_task(ask(request), name=f"ask {code} {number}")
    await connection.close()
    return len(requests), faults


@pytest.mark.timeout(120)
def test_every_request_gets_an_answer_whatever_its_fields(broker: LogHerd) -> None:
    async def run() -> tuple[int, list[str]]:
        outcomes = [await faults_of(broker.broker_port, code) for code in REQUESTS]
        return sum(count for count, _ in outcomes), [fault for _, faults in outcomes for fault in faults[:3]]

    count, faults = uvloop.run(run())
    assert count > 2000
    assert not faults, "\n".join(fault[:400] for fault in faults)


def test_nothing_sent_oneway_is_answered(broker: LogHerd) -> None:
    async def run() -> list[Frame]:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.broker_port)
        for code in REQUESTS:
            writer.write(encode_frame(Frame(code, 1, flag=Flag.ONEWAY, ext=plain(code))))
            writer.write(encode_frame(Frame(code, 1, flag=Flag.ONEWAY)))
        writer.write(encode_frame(Frame(28, 2)))
        codec, frames = FrameReader(), list[Frame]()
        async with asyncio.timeout(10):
            while not frames:
                frames += codec.feed(await reader.read(65536))
        writer.close()
        return frames

    frames = uvloop.run(run())
    # The broker may ask its clients things of its own accord; what it answers is the one request that was not oneway.
    assert [frame.opaque for frame in frames if frame.is_response] == [2]
