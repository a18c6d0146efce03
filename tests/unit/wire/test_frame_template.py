"""An answer that is encoded once is, for every opaque, the frame that encoding it anew gives."""

from hypothesis import given
from hypothesis import strategies as st

from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.frame import Flag, Frame
from logherd.wire.frame_template import FrameTemplate

OPAQUES = st.integers(-(1 << 31), (1 << 31) - 1)
TEXTS = st.text() | st.just('"opaque":-2000000000') | st.just("opaque")


@given(OPAQUES, st.dictionaries(TEXTS, TEXTS, max_size=3), st.binary(max_size=50), TEXTS | st.none())
def test_a_template_gives_what_encoding_anew_gives(
    opaque: int, ext: dict[str, str], body: bytes, remark: str | None
) -> None:
    def frame(number: int) -> Frame:
        return Frame(2010, number, flag=Flag.RESPONSE, ext=ext, remark=remark, body=body)

    template = FrameTemplate(frame(0))
    assert template.encode(opaque) == encode_frame(frame(opaque))


def test_one_template_answers_many_requests() -> None:
    template = FrameTemplate(Frame(0, 7, flag=Flag.RESPONSE, ext={"a": "b"}, body=b"body"))
    read = FrameReader().feed(b"".join(template.encode(opaque) for opaque in (1, -1, 1 << 30)))
    assert [(frame.opaque, frame.ext, frame.body) for frame in read] == [
        (opaque, {"a": "b"}, b"body") for opaque in (1, -1, 1 << 30)
    ]
