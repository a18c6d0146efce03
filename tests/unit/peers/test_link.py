"""One link on a transport and a clock that the test moves: what time does to it, and what it says when it has ended."""

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from logherd.peers.codec import encode_envelope
from logherd.peers.frames import FrameReader, Kind, make_frame
from logherd.peers.hello import Hello, Refusal, RefusalCode, encode_hello, encode_refusal
from logherd.peers.link import Link, Stage
from logherd.peers.options import LinkOptions
from logherd.peers.pieces import Asked
from logherd.replication.messages import Envelope
from unit.peers.fakes import QUICK, beat, hello_of
from unit.peers.test_outgoing import Sink


class Wire(Sink):
    """From 10.0.0.7:1234, over a socket that goes nowhere."""

    def __init__(self, wire: socket.socket | None, peername: tuple[str, int] | None = ("10.0.0.7", 1234)) -> None:
        super().__init__()
        self._extra = {"socket": wire, "peername": peername}

    def kinds(self) -> list[int]:
        """What was written so far, frame by frame."""
        return [frame[0] for frame in FrameReader(1 << 20).feed(b"".join(self.writes))]


class Owner:
    """Takes everybody, unless told otherwise."""

    def __init__(self) -> None:
        self.options: LinkOptions = QUICK
        self.time = 100.0
        self.takes = True
        self.refusal: Refusal | None = None
        self.heard: list[Envelope] = []
        self.gone: list[str] = []

    def now(self) -> float:
        return self.time

    def made(self, link: Link) -> bool:
        del link
        return self.takes

    def greeting(self) -> Hello:
        return hello_of("a")

    def judge(self, link: Link, theirs: Hello | int) -> Refusal | None:
        del link, theirs
        return self.refusal

    def greeted(self, link: Link, *, first: bool) -> None:
        del link, first

    def received(self, envelopes: list[Envelope]) -> None:
        self.heard += envelopes

    def asked(self, link: Link, asked: Asked) -> None:
        del link, asked

    def ended(self, link: Link) -> None:
        self.gone.append(link.reason)


@pytest.fixture
def wire() -> Iterator[Wire]:
    with socket.socket() as made:
        yield Wire(made)


HELLO = make_frame(encode_hello(hello_of("b", to="a")))


async def linked(owner: Owner, wire: Wire, *, dialled: str | None) -> Link:
    link = Link(owner, dialled=dialled)
    link.connection_made(wire)
    link.data_received(HELLO)
    await asyncio.sleep(0)
    assert (link.stage, link.clocks.linked) == (Stage.LINKED, owner.time)
    return link


async def test_the_time_for_hellos_begins_with_the_connection(wire: Wire) -> None:
    owner = Owner()
    link = Link(owner, dialled="b")
    owner.time += 3600
    link.connection_made(wire)
    hello = owner.options.hello_ms / 1000
    link.sweep(owner.time + hello - 0.01)
    assert link.stage is Stage.GREETING
    link.sweep(owner.time + hello)
    assert (link.stage, link.reason) == (Stage.ENDED, f"no hello within {owner.options.hello_ms} ms")
    assert wire.ends == ["abort"]


async def test_a_refused_peer_has_a_second_to_read_why(wire: Wire) -> None:
    owner = Owner()
    owner.refusal = Refusal(RefusalCode.CLUSTER, "go away")
    link = Link(owner, dialled=None)
    link.connection_made(wire)
    owner.time += 5
    link.data_received(HELLO)
    assert (link.stage, wire.kinds(), wire.ends) == (Stage.PARTING, [Kind.REFUSAL], ["eof"])
    link.data_received(HELLO)
    link.sweep(owner.time + 0.99)
    assert wire.ends == ["eof"]
    link.sweep(owner.time + 1.0)
    assert (link.stage, link.reason, wire.ends) == (Stage.ENDED, "refused by us: go away", ["eof", "abort"])


@pytest.mark.parametrize("dialled", ["b", None])
async def test_who_has_dialled_says_four_times_in_the_time_out_that_it_lives(wire: Wire, dialled: str | None) -> None:
    owner = Owner()
    link = await linked(owner, wire, dialled=dialled)
    quarter, began = owner.options.idle_ms / 4000, owner.time
    for passed in (0.0, quarter - 0.01, quarter + 0.01, quarter + 0.02, 2 * quarter, 2 * quarter + 0.02):
        link.sweep(began + passed)
    await asyncio.sleep(0)
    wanted = [Kind.HELLO, *([Kind.PING] * 3 if dialled else [])]
    assert wire.kinds() == wanted, "the first at once"


@pytest.mark.parametrize("dialled", ["b", None])
@pytest.mark.parametrize("progress", ["said", "read"])
async def test_silence_ends_a_link_and_progress_of_either_kind_is_none(
    wire: Wire, dialled: str | None, progress: str
) -> None:
    owner = Owner()
    link = await linked(owner, wire, dialled=dialled)
    idle = owner.options.idle_ms / 1000
    owner.time += idle - 0.01
    if progress == "said":
        link.data_received(make_frame(bytes((Kind.PONG if dialled else Kind.PING,))))
    else:
        link.resume_writing()
    link.sweep(owner.time + idle - 0.01)
    assert link.stage is Stage.LINKED
    link.sweep(owner.time + idle)
    assert (link.stage, link.reason) == (Stage.ENDED, f"silent for {owner.options.idle_ms} ms")


async def test_a_pong_is_said_to_who_pings_and_by_nobody_else(wire: Wire) -> None:
    owner = Owner()
    link = await linked(owner, wire, dialled=None)
    link.data_received(make_frame(b"\x03") * 2)
    await asyncio.sleep(0)
    assert wire.kinds() == [Kind.HELLO, Kind.PONG, Kind.PONG]
    link.data_received(make_frame(b"\x04"))
    assert link.reason == "bytes that are no message: frame: of kind 4 and 1 bytes, not at this point"


async def test_a_sign_of_life_overtakes_the_records_that_wait(wire: Wire) -> None:
    link = await linked(Owner(), wire, dialled=None)
    link.pause_writing()
    link.outgoing.send(make_frame(b"\x05"), bulk=True)
    link.data_received(make_frame(b"\x03"))
    link.resume_writing()
    assert wire.kinds() == [Kind.HELLO, Kind.PONG, Kind.ENVELOPE]


async def test_what_came_in_one_read_is_handed_on_once_and_in_order(wire: Wire) -> None:
    owner = Owner()
    link = await linked(owner, wire, dialled=None)
    envelopes = [beat("b", "a", number) for number in range(4)]
    parts = [make_frame(encode_envelope(envelope)) for envelope in envelopes]
    link.data_received(parts[0] + parts[1] + make_frame(b"\x03") + parts[2] + HELLO + parts[3])
    assert owner.heard == envelopes


@pytest.mark.parametrize(
    ("dialled", "frame"),
    [
        ("b", b"\x03"), ("b", b"\x04?"), ("b", b"\xee"), ("b", encode_hello(hello_of("b", to="a"))), (None, b"\x03?"),
        (None, b"\x04"),
    ],
    ids=["ping", "long pong", "unknown", "second hello", "long ping", "pong"],
)  # fmt: skip
async def test_whoever_says_what_is_not_for_its_end_to_say_is_cut_off(
    wire: Wire, dialled: str | None, frame: bytes
) -> None:
    link = await linked(Owner(), wire, dialled=dialled)
    link.data_received(make_frame(frame))
    assert link.stage is Stage.ENDED
    assert link.reason == (
        f"bytes that are no message: frame: of kind {frame[0]} and {len(frame)} bytes, not at this point"
    )


@pytest.mark.parametrize(
    "end", [b"\x05", b"\xee", encode_refusal(Refusal(RefusalCode.TWIN, "go away"))], ids=["damaged", "no", "refused"]
)
async def test_of_one_read_what_came_before_the_end_is_handed_on_and_nothing_after_it(wire: Wire, end: bytes) -> None:
    owner = Owner()
    link = await linked(owner, wire, dialled=None)
    before, after = (make_frame(encode_envelope(beat("b", "a", number))) for number in (1, 2))
    link.data_received(before + make_frame(end) + after)
    assert (link.stage, owner.heard) == (Stage.ENDED, [beat("b", "a", 1)])


async def test_time_that_we_have_slept_is_not_counted_and_no_clock_runs_ahead(wire: Wire) -> None:
    owner = Owner()
    link = await linked(owner, wire, dialled=None)
    clocks = link.clocks
    clocks.opened, clocks.heard, clocks.parted = 90.0, 95.0, 99.5
    link.forgive(3.0)
    assert (clocks.opened, clocks.heard, clocks.parted) == (93.0, 98.0, 100.0)
    link.forgive(3600.0)
    assert (clocks.opened, clocks.heard, clocks.parted) == (100.0, 100.0, 100.0)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(None, "closed by the peer"), (OSError("reset"), "reset"), (ConnectionResetError(), "ConnectionResetError")],
)
async def test_a_connection_that_is_lost_says_why_once(wire: Wire, error: Exception | None, reason: str) -> None:
    owner = Owner()
    link = await linked(owner, wire, dialled=None)
    assert (link.remote, link.outgoing.traffic.bytes_in) == ("10.0.0.7:1234", len(HELLO))
    for _ in range(2):
        link.connection_lost(error)
    assert (link.stage, link.gone.is_set(), owner.gone) == (Stage.ENDED, True, [reason])
    link.data_received(HELLO)
    assert not link.outgoing.send(b"frame", bulk=False)


async def test_the_first_reason_stays(wire: Wire) -> None:
    owner = Owner()
    link = await linked(owner, wire, dialled=None)
    link.close("stopped")
    link.end("later")
    link.connection_lost(OSError("reset"))
    assert (owner.gone, wire.ends) == (["stopped"], ["close", "abort"])


async def test_what_is_closed_takes_nothing_in_meanwhile(wire: Wire) -> None:
    owner = Owner()
    link = await linked(owner, wire, dialled=None)
    link.close("stopped")
    link.data_received(make_frame(b"\x03"))
    assert (link.stage, link.outgoing.traffic.bytes_in) == (Stage.ENDED, len(HELLO))


@pytest.mark.parametrize("dialled", ["b", None])
async def test_whoever_is_not_taken_is_cut_off_without_a_word(wire: Wire, dialled: str | None) -> None:
    owner = Owner()
    owner.takes = False
    link = Link(owner, dialled=dialled)
    link.connection_made(wire)
    link.data_received(HELLO)
    link.connection_lost(None)
    await asyncio.sleep(0)
    assert (wire.writes, wire.ends, owner.gone) == ([], ["abort"], [])
    assert link.gone.is_set()


async def test_a_peer_that_has_left_already_is_one_all_the_same() -> None:
    owner = Owner()
    with socket.socket() as gone:
        pass
    link = Link(owner, dialled=None)
    link.connection_made(Wire(gone, None))
    assert (link.stage, link.remote) == (Stage.GREETING, "unknown:0")


async def test_a_connection_that_is_given_up_is_over_for_its_owner(wire: Wire) -> None:
    owner = Owner()
    link = Link(owner, dialled="b")
    link.give_up()
    assert owner.gone == [], "there was none"
    link.connection_made(wire)
    link.give_up()
    assert (owner.gone, wire.ends) == (["not made in time"], ["abort"])


async def test_after_the_hello_larger_frames_are_taken(wire: Wire) -> None:
    owner = Owner()
    owner.options = replace(QUICK, frame_bytes_max=20_000)
    link = await linked(owner, wire, dialled=None)
    link.data_received(make_frame(b"\x05" + bytes(19_999)))
    assert "envelope: kind 5 version 0" in link.reason
    link = Link(owner, dialled=None)
    link.connection_made(wire)
    link.data_received(make_frame(b"\x05" + bytes(19_999)))
    assert "a frame of 20000 bytes" in link.reason
