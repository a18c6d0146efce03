"""Recorded frames decode to what stands beside them, and go out again as they came in.

`golden/sheet` holds the examples of the protocol sheet, written by hand; other directories hold what real clients and
brokers sent. Each `NAME.bin` is one frame, `NAME.json` what it should decode to, worked out without our codec.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from logherd.wire.batch import decode_batch, encode_batch
from logherd.wire.bodies import decode_body, encode_body
from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.codes import SHORT_TO_FULL
from logherd.wire.frame import Frame, Serialize
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.message import decode_messages
from logherd.wire.table import REQUESTS, RequestSpec

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.rglob("*.bin"))
NAMES = [str(path.relative_to(GOLDEN)) for path in FILES]
SERIALIZE = {"JSON": Serialize.JSON, "ROCKETMQ": Serialize.BINARY}
golden = pytest.mark.parametrize("path", FILES, ids=NAMES)


def load(path: Path) -> tuple[bytes, Frame, dict[str, Any], RequestSpec]:
    raw = path.read_bytes()
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    (frame,) = FrameReader().feed(raw)
    code = expected["requestCode"]
    return raw, frame, expected, REQUESTS[_full(code, expected["serialize"])]


def _full(code: int, serialize: str) -> int:
    return SHORT_TO_FULL.get(code, code) if serialize == "ROCKETMQ" else code


def test_there_are_golden_frames_and_each_has_its_expectation() -> None:
    assert len(FILES) >= 18
    assert {path.with_suffix(".json") for path in FILES} == set(GOLDEN.rglob("*.json"))


@golden
def test_a_recorded_frame_decodes_to_what_was_recorded(path: Path) -> None:
    _, frame, expected, _ = load(path)
    code = expected["code"]
    if expected["direction"] == "request":
        code = _full(code, expected["serialize"])
    assert (frame.code, frame.opaque, frame.flag) == (code, expected["opaque"], expected["flag"])
    assert (frame.language, frame.version) == (expected["language"], expected["version"])
    assert (frame.remark, frame.ext) == (expected["remark"], expected["extFields"])
    assert (frame.serialize, len(frame.body)) == (SERIALIZE[expected["serialize"]], expected["bodyLength"])
    assert frame.is_response == (expected["direction"] == "response")


@golden
def test_a_recorded_frame_goes_out_as_it_came_in(path: Path) -> None:
    raw, frame, _, _ = load(path)
    again = encode_frame(frame)
    if frame.serialize == Serialize.BINARY:
        # An empty value and an absent field are one thing in the binary header; Java writes the former.
        assert again == raw or len(raw) - len(again) == _empty_field_bytes(raw) > 0
    elif frame.language == "JAVA" and b'"extFields":{}' not in raw:
        assert again == raw
    assert FrameReader().feed(again) == [frame]


def _empty_field_bytes(raw: bytes) -> int:
    """Bytes that fields with an empty value take in a binary header, read without our codec."""
    at = 8 + 13
    at += 4 + int.from_bytes(raw[at : at + 4], "big")
    end = at + 4 + int.from_bytes(raw[at : at + 4], "big")
    at, empty = at + 4, 0
    while at < end:
        key = 2 + int.from_bytes(raw[at : at + 2], "big")
        value = int.from_bytes(raw[at + key : at + key + 4], "big")
        empty += key + 4 if value == 0 else 0
        at += key + 4 + value
    return empty


@golden
def test_a_recorded_header_is_understood_in_full(path: Path) -> None:
    _, frame, expected, spec = load(path)
    cls = spec.response if frame.is_response else spec.header
    if cls is None or (frame.is_response and frame.code != 0):
        return  # a refusal carries what its sender had filled in when it refused, often nothing
    typed = encode_header(decode_header(cls, frame.ext))
    for field, value in expected["extFields"].items():
        if field in cls.__struct_encode_fields__:
            assert typed[field] == value
    assert decode_header(cls, typed) == decode_header(cls, frame.ext)


@golden
def test_a_recorded_body_is_understood(path: Path) -> None:
    _, frame, expected, spec = load(path)
    form = expected["bodyForm"]
    if form in ("json", "fastjson"):
        cls = spec.response_body if frame.is_response else spec.body
        if cls is not None:
            body = decode_body(cls, frame.body)
            assert decode_body(cls, encode_body(body)) == body
    elif form == "records":
        messages = decode_messages(frame.body)
        assert messages
        assert all(message.topic for message in messages)
    elif form == "batch":
        assert encode_batch(decode_batch(frame.body)) == frame.body
