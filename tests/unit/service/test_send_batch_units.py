"""A batch's messages are stored as each would be alone: what is remembered of one changes nothing of another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.service.errors import RequestError
from logherd.service.send.batch import split_batch
from logherd.service.send.properties import Stamper
from logherd.wire.batch import BatchMessage, encode_batch

NAMES = ["UNIQ_KEY", "XUNIQ_KEY", "WAIT", "KEYS", "TAGS", "CLUSTER", "MSG_REGION", "a", ""]
VALUES = st.one_of(
    st.sampled_from(["", "0A", "0B", "true", "CLUSTER", "UNIQ_KEY", "x y", "\u00e4"]), st.text("AB01", max_size=3)
)  # fmt: skip
PAIRS = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5)
TEXTS = st.builds(
    lambda pairs, end: "\x02".join(f"{name}\x01{value}" for name, value in pairs) + end,
    PAIRS,
    st.sampled_from(["", "\x02"]),
)


def stamper() -> Stamper:
    return Stamper(cluster="c", region="r", trace_on=True, new_key=lambda: "NEW")


def split(texts: list[str], shared: str) -> list[tuple[int, bytes, bytes]]:
    body = encode_batch([BatchMessage(7, b"body", text.encode()) for text in texts])
    return split_batch(body, shared, stamper())[0]


@given(st.lists(TEXTS, min_size=1, max_size=8), TEXTS)
def test_messages_of_a_batch_are_stored_as_each_would_be_alone(texts: list[str], shared: str) -> None:
    assert split(texts, shared) == [unit for text in texts for unit in split([text], shared)]


@given(st.lists(st.text("0123456789ABCDEF", min_size=1, max_size=8), min_size=2, max_size=8), PAIRS, PAIRS)
def test_messages_that_differ_by_their_key_are_stored_with_their_own(
    keys: list[str], before: list[tuple[str, str]], after: list[tuple[str, str]]
) -> None:
    texts = ["".join(f"{name}\x01{value}\x02" for name, value in [*before, ("UNIQ_KEY", key), *after]) for key in keys]
    assert split(texts, "WAIT\x01true\x02") == [unit for text in texts for unit in split([text], "WAIT\x01true\x02")]


def test_a_message_whose_key_makes_its_properties_too_long_is_refused_also_after_one_that_fits() -> None:
    rest = "\x02a\x01" + "x" * 32_450 + "\x02"
    with pytest.raises(RequestError, match="at most"):
        split([f"UNIQ_KEY\x01A{rest}", f"UNIQ_KEY\x01{'A' * 270}{rest}"], "")
