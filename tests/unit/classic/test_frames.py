"""Bytes of the classic HA protocol that no RocketMQ sends, and the largest that one may."""

import pytest

from logherd.classic.frames import ClassicError, Piece, ReportReader, TransferReader, encode_head, encode_report


@pytest.mark.parametrize(("position", "size"), [(-1, 0), (0, -1), (0, (64 << 20) + 1)])
def test_a_head_that_cannot_be_ends_the_stream(position: int, size: int) -> None:
    with pytest.raises(ClassicError, match=f"sends {size} bytes from position {position} on"):
        TransferReader().feed(encode_head(position, size))


def test_the_most_bytes_behind_one_head_are_taken() -> None:
    reader = TransferReader()
    assert reader.feed(encode_head(7, 64 << 20)) == []
    assert reader.feed(b"ab") == [Piece(7, b"ab")]
    assert reader.feed(b"c") == [Piece(9, b"c")]


def test_a_report_that_cannot_be_is_none_whatever_comes_with_it() -> None:
    with pytest.raises(ClassicError, match="a slave reports position -1"):
        ReportReader().feed(encode_report(5) + encode_report(-1) + encode_report(0))
