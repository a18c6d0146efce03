"""The writing half against a transport that takes as much as the test says."""

import asyncio

from logherd.peers.options import LinkOptions
from logherd.peers.outgoing import Outgoing

OPTIONS = LinkOptions(buffer_bytes=100, unsent_bytes_max=1_000, unsent_urgent_bytes_max=100)


class Sink(asyncio.Transport):
    """Congested above its limit, as a real transport is; `drain` is what the peer reads."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.held = 0
        self.limit = 0
        self.outgoing: Outgoing | None = None
        self.ends: list[str] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limit = high or 0

    def get_write_buffer_size(self) -> int:
        return self.held

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))
        self.held += len(data)
        if self.held > self.limit and self.outgoing is not None:
            self.outgoing.pause()

    def writelines(self, list_of_data: object) -> None:
        self.write(b"".join(list_of_data))  # type: ignore[call-overload]

    def write_eof(self) -> None:
        self.ends.append("eof")

    def close(self) -> None:
        self.ends.append("close")

    def abort(self) -> None:
        self.ends.append("abort")

    def drain(self) -> None:
        self.held = 0
        assert self.outgoing is not None
        self.outgoing.resume()


def made() -> tuple[Outgoing, Sink]:
    sink = Sink()
    sink.outgoing = Outgoing(sink, OPTIONS, now=lambda: 5.0)
    return sink.outgoing, sink


async def test_what_a_pass_collects_is_one_write() -> None:
    outgoing, sink = made()
    for frame in (b"a", b"b", b"c"):
        assert outgoing.send(frame, bulk=False)
    assert sink.writes == []
    await asyncio.sleep(0)
    assert sink.writes == [b"abc"]
    assert outgoing.traffic.bytes_out == 3


async def test_what_waits_for_the_end_of_a_pass_may_be_written_before() -> None:
    outgoing, sink = made()
    assert outgoing.due is None
    outgoing.send(b"a", bulk=True)
    assert outgoing.due is not None
    outgoing.flush()
    assert (sink.writes, outgoing.due) == ([b"a"], None)
    outgoing.send(b"b", bulk=True)
    await asyncio.sleep(0)
    assert (sink.writes, outgoing.due) == ([b"a", b"b"], None)


async def test_only_a_buffer_full_lies_with_a_peer_that_does_not_read_and_heartbeats_go_next() -> None:
    outgoing, sink = made()
    for number in range(10):
        assert outgoing.send(bytes((number,)) * 60, bulk=True)
    await asyncio.sleep(0)
    assert sink.held == 120
    assert outgoing.unsent == 600
    assert outgoing.send(b"heartbeat", bulk=False)
    await asyncio.sleep(0)
    assert sink.held == 120
    sink.drain()
    assert b"".join(sink.writes)[120:130] == b"heartbeat\x02"
    assert outgoing.moved == 5.0


async def test_nothing_is_taken_after_the_end() -> None:
    for end, told in (("finish", ["eof"]), ("close", ["close"]), ("abort", ["abort"]), ("forget", [])):
        outgoing, sink = made()
        assert outgoing.send(b"last", bulk=False)
        getattr(outgoing, end)()
        assert sink.ends == told
        assert sink.writes == ([b"last"] if end in ("finish", "close") else [])
        assert not outgoing.send(b"more", bulk=False)
        assert not outgoing.send(b"more", bulk=True)
        assert not outgoing.has_bulk_room(1)
        await asyncio.sleep(0)
        assert b"more" not in b"".join(sink.writes)
        assert outgoing.unsent == 0
