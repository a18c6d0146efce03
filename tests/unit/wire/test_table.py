"""The table has a row for each code, and whatever a row names survives the way to the peer and back."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logherd.wire.bodies import decode_body, encode_body
from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.codes import SHORT_TO_FULL, RequestCode, ResponseCode, request_name, response_name
from logherd.wire.errors import BodyError, HeaderError
from logherd.wire.frame import Frame, Serialize
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.limits import WireLimits
from logherd.wire.table import REQUESTS
from unit.wire.struct_strategies import instances

HEADERS = sorted({t for row in REQUESTS.values() for t in (row.header, row.response) if t}, key=lambda t: t.__name__)
BODIES = sorted({t for row in REQUESTS.values() for t in (row.body, row.response_body) if t}, key=str)
LIMITS = WireLimits(key_bytes_max=255)


def test_every_code_has_one_row_and_no_other_code_has_one() -> None:
    assert set(REQUESTS) == set(map(int, RequestCode))
    assert all(row.code == code for code, row in REQUESTS.items())


def test_cut_codes_are_no_codes_of_their_own() -> None:
    assert len(SHORT_TO_FULL) == 8
    assert not set(SHORT_TO_FULL) & set(map(int, RequestCode))


def test_names_are_known_and_unknown_codes_print_as_numbers() -> None:
    assert (request_name(310), request_name(77777)) == ("SEND_MESSAGE_V2", "77777")
    assert (response_name(ResponseCode.TOPIC_NOT_EXIST), response_name(77777)) == ("TOPIC_NOT_EXIST", "77777")


@pytest.mark.parametrize("cls", HEADERS, ids=lambda cls: cls.__name__)
@given(data=st.data())
@settings(max_examples=15)
def test_a_header_comes_back_in_both_encodings(cls: type[msgspec.Struct], data: st.DataObject) -> None:
    header = data.draw(instances(cls))
    ext = encode_header(header)
    assert all(type(value) is str for value in ext.values())
    assert decode_header(cls, ext) == header
    for serialize in Serialize:
        (frame,) = FrameReader(LIMITS).feed(encode_frame(Frame(1, 2, ext=ext, serialize=serialize)))
        kept = {k: v for k, v in ext.items() if v} if serialize == Serialize.BINARY else ext
        assert frame.ext == kept


@pytest.mark.parametrize("cls", HEADERS, ids=lambda cls: cls.__name__)
def test_each_missing_required_field_is_named(cls: type[msgspec.Struct]) -> None:
    full = encode_header(msgspec.convert(_plain(cls), cls, strict=False))
    for field in msgspec.structs.fields(cls):
        if field.required:
            with pytest.raises(HeaderError, match="is missing") as caught:
                decode_header(cls, {k: v for k, v in full.items() if k != field.encode_name})
            assert caught.value.field == field.encode_name


@pytest.mark.parametrize("cls", HEADERS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("value", ["", "x", "1.5", "9" * 30, "9" * 5000, " 1", "0x10", "\x00", "[1]", "NaN", "1e999"])
def test_each_ill_typed_field_is_named(cls: type[msgspec.Struct], value: str) -> None:
    full = encode_header(msgspec.convert(_plain(cls), cls, strict=False))
    for field in msgspec.structs.fields(cls):
        if "str" not in str(field.type):
            with pytest.raises(HeaderError) as caught:
                decode_header(cls, {**full, field.encode_name: value})
            assert (caught.value.field, caught.value.value) == (field.encode_name, value)
            assert len(str(caught.value)) < 300


def _plain(cls: type[msgspec.Struct]) -> dict[str, str]:
    return {field.encode_name: "1" for field in msgspec.structs.fields(cls)}


def test_unknown_fields_of_a_header_are_ignored() -> None:
    header = REQUESTS[38].header
    assert header is not None
    ext = {"consumerGroup": "g", "ReqT": "0", "ns": "space", "Signature": "=="}
    assert encode_header(decode_header(header, ext)) == {"consumerGroup": "g"}


@pytest.mark.parametrize("cls", BODIES, ids=str)
@given(data=st.data())
@settings(max_examples=15)
def test_a_body_comes_back(cls: Any, data: st.DataObject) -> None:
    body = data.draw(instances(cls))
    encoded = encode_body(body)
    assert encode_body(decode_body(cls, encoded)) == encoded
    assert _flat(decode_body(cls, encoded)) == _flat(body)


def _flat(value: Any) -> Any:
    """Plain values, without the difference between a list that was given and a tuple that is a default."""
    match msgspec.to_builtins(value, enc_hook=bytes):
        case dict(members):
            return {key: _flat(member) for key, member in members.items()}
        case list(items) | tuple(items):
            return [_flat(item) for item in items]
        case scalar:
            return scalar


WRONG_BODIES = [
    b"", b"\xff", b"5", b'"x"', b"[[[", b"{" * 200_000, b"[" * 200_000, b'{"a":' * 100_000, b'{"x":1e999}}', b"{]",
    b'{"topic":"\xff","group":"\xff","clientID":"\xff"', b'{"x":"\\ud800"', b"nul", b"{:}", b"}", b"{,,,:::}",
]  # fmt: skip


@pytest.mark.parametrize("cls", BODIES, ids=str)
def test_a_body_that_is_no_object_is_one_kind_of_error(cls: Any) -> None:
    for data in WRONG_BODIES:
        with pytest.raises(BodyError):
            decode_body(cls, data)
