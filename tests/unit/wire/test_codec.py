"""Frames survive the round trip in both encodings and any cut of the input; each limit holds at its exact value."""

from collections import deque
from collections.abc import Iterable
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logherd.model.properties import PROPERTIES_BYTES_MAX
from logherd.wire.codec import FrameReader, encode_frame, encode_head
from logherd.wire.errors import FrameError, LimitError, WireError
from logherd.wire.frame import Flag, Frame, Serialize
from logherd.wire.language import LANGUAGES
from logherd.wire.limits import WireLimits

INT32 = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@st.composite
def frames(draw: st.DrawFn, serialize: Serialize) -> Frame:
    binary = serialize == Serialize.BINARY
    return Frame(
        draw(st.integers(0, 3000) if binary else INT32),
        draw(INT32),
        flag=draw(INT32),
        ext=draw(st.dictionaries(TEXT, TEXT if binary else TEXT | st.just(""), max_size=8)),
        body=draw(st.binary(max_size=60)),
        remark=draw(st.none() | TEXT),
        language=draw(st.sampled_from(LANGUAGES)),
        version=draw(st.integers(-(2**15), 2**15 - 1)),
        serialize=serialize,
    )


def raw_frame(header: bytes, body: bytes = b"", *, kind: int = 0) -> bytes:
    return pack(">II", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


def read(data: bytes, limits: WireLimits | None = None) -> Frame:
    reader = FrameReader(limits or WireLimits())
    (frame,) = reader.feed(data)
    assert not reader.mid_frame
    return frame


@given(st.sampled_from(Serialize).flatmap(frames))
def test_a_frame_comes_back_as_it_was_sent(frame: Frame) -> None:
    assert read(encode_frame(frame)) == frame


@given(st.lists(st.sampled_from(Serialize).flatmap(frames), min_size=1, max_size=6), st.data())
@settings(max_examples=60)
def test_any_cut_of_the_input_gives_the_same_frames(sent: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(map(encode_frame, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    reader = FrameReader()
    received: list[Frame] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += reader.feed(data.draw(st.sampled_from((bytes, bytearray, memoryview)))(stream[start:end]))
    assert received == sent
    assert reader.buffered == 0


@pytest.mark.parametrize("serialize", Serialize)
def test_one_byte_at_a_time_is_enough(serialize: Serialize) -> None:
    sent = [Frame(310, n, ext={"a": "group"}, body=b"x" * n, serialize=serialize) for n in range(3)]
    reader = FrameReader()
    received: list[Frame] = []
    for byte in b"".join(map(encode_frame, sent)):
        assert reader.needed > 0
        received += reader.feed(bytes((byte,)))
    assert received == sent


def test_needed_and_mid_frame_tell_where_the_reader_stands() -> None:
    reader = FrameReader()
    data = encode_frame(Frame(34, 1, body=b"heartbeat"))
    assert (reader.mid_frame, reader.needed) == (False, 8)
    reader.feed(data[:3])
    assert (reader.mid_frame, reader.buffered, reader.needed) == (True, 3, 5)
    reader.feed(data[3:12])
    assert (reader.mid_frame, reader.needed) == (True, len(data) - 12)
    assert len(reader.feed(data[12:] + data[:1])) == 1
    assert (reader.mid_frame, reader.needed) == (True, 7)


def test_the_head_goes_before_a_body_that_is_not_joined() -> None:
    frame = Frame(0, 7, flag=Flag.RESPONSE, ext={"nextBeginOffset": "5"})
    parts = [b"one", b"two"]
    received = read(encode_head(frame, 6) + b"".join(parts))
    assert (received.body, received.ext) == (b"onetwo", frame.ext)


def test_the_json_header_is_the_one_that_java_writes() -> None:
    java = (
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":0,'
        b'"serializeTypeCurrentRPC":"JSON","version":477}'
    )
    frame = read(raw_frame(java))
    assert frame == Frame(105, 0, ext={"topic": "T"}, language="JAVA", version=477)
    assert encode_frame(frame) == raw_frame(java)


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ('"k":5', {"k": "5"}),
        ('"k":true', {"k": "true"}),
        ('"k":null', {}),
        ('"k":-1.5', {"k": "-1.5"}),
        ('"k":""', {"k": ""}),
        ('"k":1,"l":"\\u0001\\""', {"k": "1", "l": '\x01"'}),
        ('"k":"1","k":"2"', {"k": "2"}),
        ('"k":1,"k":"2"', {"k": "2"}),
    ],
)
def test_scalars_in_header_fields_are_read_as_text(written: str, read_as: dict[str, str]) -> None:
    assert read(raw_frame(b'{"code":34,"opaque":1,"extFields":{%b}}' % written.encode())).ext == read_as


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ('"i":"cut \\ud83d"', {"i": "cut \ufffd"}),
        ('"i":"\\uDE00 cut"', {"i": "\ufffd cut"}),
        ('"i":"\\ud83d\\ude00"', {"i": "\U0001f600"}),
        ('"i":"\\ud83d\\ud83d\\ude00\\u0001"', {"i": "\ufffd\U0001f600\x01"}),
        ('"i":"\\\\ud83d and \\ud83d"', {"i": "\\ud83d and \ufffd"}),
        ('"d":4,"i":"TAGS\\u0001a\\ud83d\\u0002","m":null', {"d": "4", "i": "TAGS\x01a\ufffd\x02"}),
    ],
)
def test_half_a_character_in_a_header_is_read_as_the_sign_for_none(written: str, read_as: dict[str, str]) -> None:
    """JavaScript cuts texts between the halves, and writes one half as it writes both."""
    frame = read(raw_frame(b'{"code":310,"opaque":1,"extFields":{%b},"remark":"\\udc00"}' % written.encode()))
    assert (frame.ext, frame.remark) == (read_as, "\ufffd")


@pytest.mark.parametrize(
    ("written", "language"),
    [('"GO"', "GO"), ("9", "GO"), ('"KLINGON"', "OTHER"), ("null", "OTHER"), ("99", "OTHER"), ("-1", "OTHER")],
)
def test_languages_are_known_names_or_other(written: str, language: str) -> None:
    assert read(raw_frame(b'{"code":34,"opaque":1,"language":%b}' % written.encode())).language == language


def test_missing_header_keys_get_defaults() -> None:
    frame = read(raw_frame(b'{"code":34}'))
    assert (frame.code, frame.opaque, frame.flag, frame.ext, frame.remark) == (34, 0, 0, {}, None)


def test_a_header_cannot_set_the_body_or_the_encoding() -> None:
    frame = read(raw_frame(b'{"code":34,"opaque":1," body":"eHh4"," serialize":1}', b"real"))
    assert (frame.body, frame.serialize) == (b"real", Serialize.JSON)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"code"',
        b"{}",
        b'{"code":"34"}',
        b'{"code":34} x',
        b'{"code":34,"x":NaN}',
        b'{"code":1e999}',
        b'{"code":34.5}',
        b'{"code":2147483648}',
        b'{"code":34,"opaque":-2147483649}',
        b'{"code":' + b"1" * 5000 + b"}",
        b'{"code":34,"extFields":{"k":[1]}}',
        b'{"code":34,"extFields":{"k":{}}}',
        b'{"code":34,"extFields":[]}',
        b'{"code":34,"extFields":{"k":"\xff"}}',
        b'{"code":34,"extFields":{"k":"\\ud800abcd\xff"}}',
        b'{"code":34,"extFields":{"k":"\\ud800abcd\\x"}}',
        b'{"code":34,"extFields":{"k":"\\ud80"}}',
        b'{"code":34,"remark":"\xc3"}',
        b'{"code":34,"remark":5}',
        b'{"code":34,"x":' + b"[" * 100_000,
        b'{"code":34,"extFields":{"k":' + b'{"k":' * 30_000,
        b'{"code":34,"extFields":{"k":"a\x01"}}',
        b'\xef\xbb\xbf{"code":34}',
        b'{"code":34,"extFields":{"k":1,"l":"\xff"}}',
        b'{"code":34,"extFields":{"k":1e999999,"l":nul}}',
    ],
)
def test_a_wrong_json_header_is_one_kind_of_error(header: bytes) -> None:
    with pytest.raises(FrameError):
        FrameReader().feed(raw_frame(header))


BINARY = encode_frame(Frame(310, 7, ext={"a": "group", "b": "topic"}, remark="r", serialize=Serialize.BINARY))[8:]


@pytest.mark.parametrize("size", range(len(BINARY)))
def test_a_binary_header_cut_short_is_refused(size: int) -> None:
    with pytest.raises(FrameError):
        FrameReader().feed(raw_frame(BINARY[:size], kind=1))


@pytest.mark.parametrize("at", [13, 18, 22, 25])
@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\x00\x63"])
def test_a_wrong_length_in_a_binary_header_is_refused(at: int, length: bytes) -> None:
    with pytest.raises(FrameError):
        FrameReader().feed(raw_frame(BINARY[:at] + length + BINARY[at + 4 :], kind=1))


def test_a_binary_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(FrameError, match="UTF-8"):
        FrameReader().feed(raw_frame(BINARY.replace(b"group", b"gr\xffup"), kind=1))


@pytest.mark.parametrize("code", [200050, 200051, 200052, 200053, 200054, 200055, 200056, 200151, 310])
def test_codes_that_the_binary_header_cuts_are_mapped_back(code: int) -> None:
    data = encode_frame(Frame(code, 1, serialize=Serialize.BINARY))
    assert int.from_bytes(data[8:10], "big") == code & 0xFFFF
    assert read(data).code == code


def test_a_code_of_a_binary_response_is_left_alone() -> None:
    assert read(encode_frame(Frame(3442, 1, flag=Flag.RESPONSE, serialize=Serialize.BINARY))).code == 3442


@pytest.mark.parametrize("frame", [
    Frame(99999, 1, serialize=Serialize.BINARY), Frame(1, 1, version=40000, serialize=Serialize.BINARY),
    Frame(1, 1, ext={"k" * 32768: "v"}, serialize=Serialize.BINARY), Frame(1, 1, remark="\ud800"),
    Frame(1, 1, remark="\ud800", serialize=Serialize.BINARY), Frame(1, 1, body=bytes(16 * 1024 * 1024)),
])  # fmt: skip
def test_a_frame_that_no_peer_would_accept_is_not_sent(frame: Frame) -> None:
    with pytest.raises(FrameError):
        encode_frame(frame)


def test_frames_before_the_damage_are_delivered_and_nothing_after_it() -> None:
    good = Frame(34, 1)
    reader = FrameReader()
    with pytest.raises(FrameError) as caught:
        reader.feed(encode_frame(good) + raw_frame(b"{}") + encode_frame(good))
    assert caught.value.frames == (good,)
    with pytest.raises(FrameError, match="code") as again:
        reader.feed(encode_frame(good))
    assert again.value.frames == ()
    assert reader.buffered == 0


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01", b"\xff\xff\xff\xff", b"SSH-2.0"])
def test_another_protocol_is_refused_at_its_first_bytes(start: bytes) -> None:
    with pytest.raises(LimitError, match="starts"):
        FrameReader().feed(start[:4])


@pytest.mark.parametrize("kind", [2, 77, 255])
def test_an_unknown_header_type_is_refused(kind: int) -> None:
    with pytest.raises(FrameError, match=f"header type is {kind}"):
        FrameReader().feed(raw_frame(b'{"code":1}', kind=kind))


@pytest.mark.parametrize("length", [0, 1, 3, 13])
def test_a_header_that_ends_after_its_frame_is_refused(length: int) -> None:
    with pytest.raises(FrameError, match="after the frame"):
        FrameReader().feed(pack(">II", length, 10) + bytes(20))


def test_what_is_only_announced_takes_no_memory() -> None:
    reader = FrameReader()
    reader.feed(pack(">II", 16 * 1024 * 1024 - 4, 100) + b"0123456789")
    assert reader.buffered == 18


LIMITS = WireLimits(
    frame_bytes_max=2000,
    header_bytes_max=1000,
    fields_max=4,
    key_bytes_max=30,
    value_bytes_max=300,
    remark_bytes_max=200,
)


def sized(part: str, size: int, serialize: Serialize, *, character: str = "x") -> bytes:
    """A frame whose `part` has exactly `size` bytes (or fields)."""
    text = character * (size // len(character.encode()))
    frame = Frame(34, 1, serialize=serialize)
    if part == "frame":
        frame.body = bytes(size - len(encode_frame(frame)))
    elif part == "header":
        frame.ext = {f"k{n}": "v" * 250 for n in range(3)} | {"k": ""}
        frame.ext["k"] = "v" * (size - len(encode_frame(frame)) + 8 - (7 if serialize == Serialize.BINARY else 0))
    elif part == "fields":
        frame.ext = {f"k{n}": "v" for n in range(size)}
    elif part == "key":
        frame.ext = {text: "v"}
    elif part == "value":
        frame.ext = {"k": text}
    else:
        frame.remark = text
    return encode_frame(frame)


PARTS = {"frame": 2000, "header": 1000, "fields": 4, "key": 30, "value": 300, "remark": 200}


@pytest.mark.parametrize("serialize", Serialize)
@pytest.mark.parametrize("part", PARTS)
def test_a_limit_holds_at_its_exact_value(part: str, serialize: Serialize) -> None:
    limit = PARTS[part]
    for size in (limit - 1, limit):
        assert read(sized(part, size, serialize), LIMITS).code == 34
    with pytest.raises(LimitError, match=rf"is {limit + 1}, the limit is {limit}$"):
        FrameReader(LIMITS).feed(sized(part, limit + 1, serialize))


@pytest.mark.parametrize("serialize", Serialize)
@pytest.mark.parametrize("part", ["key", "value", "remark"])
def test_limits_of_texts_count_bytes_not_characters(part: str, serialize: Serialize) -> None:
    limit = PARTS[part]
    assert read(sized(part, limit, serialize, character="é"), LIMITS).code == 34
    with pytest.raises(LimitError):
        FrameReader(LIMITS).feed(sized(part, limit + 2, serialize, character="é"))


@pytest.mark.parametrize("serialize", Serialize)
def test_default_limits_hold_at_their_exact_values(serialize: Serialize) -> None:
    default = WireLimits()
    for part, limit in {"fields": default.fields_max, "key": default.key_bytes_max, "value": default.value_bytes_max,
                        "remark": default.remark_bytes_max, "frame": default.frame_bytes_max}.items():  # fmt: skip
        for size in (limit - 1, limit):
            assert read(sized(part, size, serialize)).code == 34
        if part != "frame":
            with pytest.raises(LimitError):
                FrameReader().feed(sized(part, limit + 1, serialize))


@pytest.mark.parametrize("serialize", Serialize)
def test_properties_that_no_record_holds_come_through_to_be_refused_by_name(serialize: Serialize) -> None:
    properties = "K\x01" + "v" * 2 * PROPERTIES_BYTES_MAX
    assert read(encode_frame(Frame(310, 1, ext={"i": properties}, serialize=serialize))).ext["i"] == properties


def test_a_frame_or_header_one_byte_too_large_is_refused_before_it_arrives() -> None:
    default = WireLimits()
    too_long_header = default.header_bytes_max + 1
    for length, header in ((default.frame_bytes_max - 3, 10), (too_long_header + 4, too_long_header)):
        with pytest.raises(LimitError):
            FrameReader().feed(pack(">II", length, header))
    reader = FrameReader()
    assert reader.feed(pack(">II", default.header_bytes_max + 4, default.header_bytes_max)) == []
    assert reader.needed == default.header_bytes_max


def in_pieces(data: bytes, size: int) -> Iterable[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def test_a_refusal_does_not_depend_on_the_cut() -> None:
    data = sized("value", 301, Serialize.JSON)
    messages = set()
    for size in (1, 7, len(data)):
        reader = FrameReader(LIMITS)
        with pytest.raises(WireError) as caught:
            deque(map(reader.feed, in_pieces(data, size)))
        messages.add(str(caught.value))
    assert len(messages) == 1
