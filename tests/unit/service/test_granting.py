"""What writers may ask for: names are bounded, who does not come again is forgotten, a slow disk is waited for."""

from pathlib import Path

import pytest

from logherd.model.topic import TopicConfig
from logherd.service.producers import WriterOptions
from logherd.wire.codes import ResponseCode
from unit.service.rig import Rig, short_header
from unit.service.test_producers import OPEN, UNKNOWN, batch, chunk, opened

MINUTE_MS = 60_000


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    rig = Rig(tmp_path, writers=WriterOptions(expire_ms=20 * MINUTE_MS, writers_max=3))
    rig.metadata.topics.put(TopicConfig("orders", 4, 4))
    rig.end_pass()
    return rig


def known(rig: Rig) -> dict[str, bool]:
    """The writers, and whether they are still good."""
    return {name: not writer.expired for name, writer in rig.metadata.writers}


@pytest.mark.parametrize(
    ("writer", "run", "code"),
    [
        ("", "r", ResponseCode.INVALID_PARAMETER),
        ("w", "", ResponseCode.INVALID_PARAMETER),
        ("w" * 256, "r", ResponseCode.INVALID_PARAMETER),
        ("w", "r" * 256, ResponseCode.INVALID_PARAMETER),
        ("é" * 128, "r", ResponseCode.INVALID_PARAMETER),
        ("w" * 255, "é" * 127, 0),
    ],
)
def test_a_writer_and_a_run_have_names_of_a_bounded_length(rig: Rig, writer: str, run: str, code: int) -> None:
    assert rig.ask(OPEN, {"writer": writer, "run": run}).code == code
    assert len(rig.metadata.writers) == (code == 0)


def test_writers_that_nobody_asks_for_again_expire_when_another_one_opens(rig: Rig) -> None:
    opened(rig, writer="lasting")
    opened(rig, writer="passing", lasting=False)
    chunk(rig, 0, batch("a"), writer="lasting")
    chunk(rig, 0, batch("b"), writer="passing", part=1)
    rig.clock.advance(20 * MINUTE_MS)
    opened(rig, writer="other")
    assert known(rig) == {"lasting": True, "passing": True, "other": True}
    rig.clock.advance(MINUTE_MS)
    opened(rig, writer="other")
    for each in (rig, rig := rig.restart()):
        assert known(each) == {"lasting": False, "other": True}
        assert each.metadata.writers.chunk_count == 0
    end = rig.store.end_position
    for _ in range(3):
        rig.clock.advance(MINUTE_MS)
        opened(rig, writer="other")
    assert rig.store.end_position == end, "that they have expired is written down once"


def test_a_writer_that_was_to_be_forgotten_and_comes_too_late_begins_anew(rig: Rig) -> None:
    opened(rig, "run-1", lasting=False)
    chunk(rig, 0, batch("a"))
    rig.clock.advance(20 * MINUTE_MS + 1)
    assert chunk(rig, 1, batch("b")).code == UNKNOWN
    assert (known(rig), rig.metadata.writers.chunk_count) == ({}, 0)
    assert opened(rig, "run-2", lasting=False) == 1
    assert chunk(rig, 0, batch("c")).ext == {"queueOffsets": "1+1", "repeated": "false"}


def test_the_writer_that_expired_first_makes_room_for_a_new_one(rig: Rig) -> None:
    """Who is forgotten could store its rows a second time: so it is the one that least likely comes."""
    for name in ("b", "a", "c"):
        opened(rig, writer=name)
        rig.clock.advance(2 * MINUTE_MS)
    rig.clock.advance(20 * MINUTE_MS)
    opened(rig, writer="d")
    assert known(rig) == {"a": False, "c": False, "d": True}
    assert rig.ask(OPEN, {"writer": "a", "run": "run-2"}).code == UNKNOWN


def test_a_chunk_is_refused_while_too_much_waits_for_the_disk_and_taken_when_it_comes_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path, sends={"unwritten_bytes_max": 1000})
    rig.metadata.topics.put(TopicConfig("orders", 4, 4))
    rig.end_pass()
    opened(rig)
    rig.request(310, short_header("orders"), bytes(2000))  # its pass has not ended
    refused = chunk(rig, 0, batch("a"))
    assert (refused.code, "[OVERLOAD]" in (refused.remark or "")) == (ResponseCode.SYSTEM_BUSY, True)
    rig.end_pass()
    assert chunk(rig, 0, batch("a")).ext == {"queueOffsets": "1+1", "repeated": "false"}
