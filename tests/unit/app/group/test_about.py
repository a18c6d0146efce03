"""What replicas let each other know beside the hello: text of a peer, which is understood or passed over."""

import pytest

from logherd.app.group.about import About, decode_about, encode_about


def test_what_is_told_is_read_back() -> None:
    about = About(mode="raft", address="b1:10911", learner=True)
    assert decode_about(encode_about(about)) == about


@pytest.mark.parametrize("text", ["", "{", "[]", '{"mode":1}', '{"x":' + "[" * 4_000])
def test_what_is_not_understood_is_passed_over(text: str) -> None:
    assert decode_about(text) is None
