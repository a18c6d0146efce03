"""Broken frames for a live port, and a good client beside them.

`attack` sends a number of frames, most of them damaged, over many short connections; every choice comes from one seed.
`GoodClient` calls all the while and keeps its latencies; any error it sees is raised.
"""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from logherd.net.connection import connect
from logherd.wire.codec import encode_frame
from logherd.wire.frame import Flag, Frame, Serialize

__all__ = ["GoodClient", "anonymous_bytes", "attack", "corpus", "open_sockets"]

_EXTREMES = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\xff\xff\xff", b"\0\0\0\x07")
_JUNK = (b'"\\ud800"', b"1e999", b"NaN", b"[" * 3000, b"9" * 5000, b"\xc3\x28", b"\0", b"{}{}", b"null")


def corpus() -> list[bytes]:
    """Well-formed requests of the usual kinds in both header encodings, small and large."""
    send = {
        "a": "group", "b": "Topic", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "K\x01v\x02",
    }  # fmt: skip
    pull = {
        "consumerGroup": "g", "topic": "Topic", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4",
        "commitOffset": "-1", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*",
    }  # fmt: skip
    frames = []
    for serialize in Serialize:
        frames += [
            Frame(310, 1, ext=send, body=b"x" * 100, serialize=serialize),
            Frame(310, 2, ext=send, body=bytes(40_000), serialize=serialize, flag=Flag.ONEWAY),
            Frame(320, 3, ext={**send, "m": "true"}, body=bytes(200), serialize=serialize),
            Frame(11, 4, ext=pull, serialize=serialize),
            Frame(34, 5, body=b'{"clientID":"c","producerDataSet":[]}', serialize=serialize),
            Frame(105, 6, ext={"topic": "Topic"}, serialize=serialize),
            Frame(15, 7, ext={"consumerGroup": "g"}, flag=Flag.ONEWAY, remark="r" * 100, serialize=serialize),
            Frame(0, 8, flag=Flag.RESPONSE, serialize=serialize),
            Frame(31_999, 9, serialize=serialize),
        ]  # fmt: skip
    return [encode_frame(frame) for frame in frames]


def damage(frame: bytes, dice: random.Random) -> bytes:
    """One of the mutations of the sheet: lengths, cuts, glue, flips, junk inside the header."""
    data = bytearray(frame)
    kind = dice.randrange(8)
    if kind == 0:
        data[0:4] = dice.choice(_EXTREMES)
    elif kind == 1:
        data[4:8] = dice.choice(_EXTREMES)
    elif kind == 2:
        at = dice.choice((0, 4))
        value = int.from_bytes(data[at : at + 4]) + dice.choice((-1, 1))
        data[at : at + 4] = (value & 0xFFFFFFFF).to_bytes(4)
    elif kind == 3:
        del data[dice.randrange(1, len(data)) :]
    elif kind == 4:
        for _ in range(dice.randrange(1, 8)):
            data[dice.randrange(len(data))] = dice.randrange(256)
    elif kind == 5:
        junk = dice.choice(_JUNK)
        at = dice.randrange(8, len(data))
        data[at:at] = junk
        data[0:4] = (len(data) - 4).to_bytes(4)
        header = int.from_bytes(data[5:8])
        data[5:8] = min(header + len(junk), len(data) - 8).to_bytes(3)
    elif kind == 6:
        data = bytearray(dice.randbytes(dice.randrange(1, 400)))
    else:
        data += data[: len(data) // 2]
    return bytes(data)


async def attack(
    host: str, port: int, frames: int, *, seed: int, harmless: bool = False, lanes: int = 8,
    connections: list[int] | None = None,
) -> None:  # fmt: skip
    """Send `frames` frames over `lanes` connections at a time; each lane reconnects after a few frames.

    With `harmless` none is damaged: the same load as a yardstick. `connections[0]` counts the connections made.
    """
    good = corpus()
    left = [frames]

    async def lane(number: int) -> None:
        dice = random.Random(seed * 1000 + number)
        while left[0] > 0:
            batch = min(left[0], dice.randrange(1, 6))
            left[0] -= batch
            picked = [dice.choice(good) for _ in range(batch)]
            if not harmless:
                picked[-1] = damage(picked[-1], dice)
            if connections is not None:
                connections[0] += 1
            await _throw(host, port, b"".join(picked), dice)

    async with asyncio.TaskGroup() as group:
        for number in range(lanes):
            group.create_task(lane(number), name=f"attack {number}")


async def _throw(host: str, port: int, data: bytes, dice: random.Random) -> None:
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except ConnectionError:
        return
    try:
        if dice.random() < 0.1:
            for at in range(min(len(data), 20)):
                writer.write(data[at : at + 1])
                await asyncio.sleep(0)
            data = data[20:]
        writer.write(data)
        if dice.random() < 0.5:
            writer.write_eof()
            await reader.read(65536)
        else:
            await writer.drain()
    except (OSError, RuntimeError):  # the other end was gone: uvloop says RuntimeError for a write after that
        pass
    finally:
        writer.transport.abort()


class GoodClient:
    """Calls one request after the other until stopped. `latencies` in seconds."""

    def __init__(self, host: str, port: int, request: Callable[[], Frame], codes: frozenset[int]) -> None:
        self._address = host, port
        self._request = request
        self._codes = codes
        self.latencies: list[float] = []

    async def while_running(self, work: Awaitable[None]) -> float:
        """Call during `work`; the result is the p99 in seconds. Raises: whatever goes wrong for this client."""
        self.latencies = []
        connection = await connect(*self._address)
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                begin = time.perf_counter()
                answer = await connection.call(self._request(), seconds=5)
                self.latencies.append(time.perf_counter() - begin)
                assert answer.code in self._codes, answer
                await asyncio.sleep(0.002)
            await task
        finally:
            task.cancel()
            await connection.close()
        return sorted(self.latencies)[int(len(self.latencies) * 0.99)]


def anonymous_bytes(pid: int) -> int:
    """Memory of a process that is its own."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon line")


def open_sockets(pid: int) -> int:
    """Number of open sockets of a process: what a connection that was not let go of would hold."""
    count = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            count += os.readlink(entry).startswith("socket:")
    return count
