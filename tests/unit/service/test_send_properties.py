"""What is stored of a message's properties, whichever way the text took."""

from hypothesis import given
from hypothesis import strategies as st

from logherd.model.properties import find_property
from logherd.service.errors import RequestError
from logherd.service.send.properties import Stamper

NAMES = ["KEYS", "TAGS", "WAIT", "UNIQ_KEY", "DELAY", "CLUSTER", "MSG_REGION", "__CRC32#", "XUNIQ_KEY", "TRAN_MSG", "a"]
pairs = st.tuples(st.sampled_from(NAMES), st.sampled_from(["\x01", ""]), st.sampled_from(["A1", "0", "é", "", "DELAY"]))
texts = (
    st.lists(pairs, max_size=5)
    .map(lambda found: "\x02".join(map("".join, found)))
    .flatmap(lambda text: st.sampled_from([text, text + "\x02"]))
)


def stamper() -> Stamper:
    return Stamper(cluster="c", region="r", trace_on=True, new_key=lambda: "NEW")


def outcome(one: Stamper, text: str) -> tuple[bytes, bytes, bool] | str:
    try:
        return one.stamp(text)
    except RequestError as error:
        return f"{error.code} {error.remark}"


@given(st.lists(texts, min_size=1, max_size=6))
def test_what_was_stamped_before_changes_nothing(history: list[str]) -> None:
    old = stamper()
    for text in history:
        outcome(old, text)
    for text in history:
        assert outcome(old, text)[:2] == outcome(stamper(), text)[:2]


@given(texts)
def test_the_key_that_is_told_is_the_one_that_is_stored(text: str) -> None:
    one = stamper()
    for _ in range(2):
        stamped = outcome(one, text)
        if not isinstance(stamped, str):
            encoded, key, plain = stamped
            assert find_property(encoded, b"UNIQ_KEY") == key
            assert not plain or not (find_property(encoded, b"TAGS") or find_property(encoded, b"KEYS"))


def test_an_ending_that_was_seen_is_not_searched_again_and_stays_right() -> None:
    one = stamper()
    suffix = b"MSG_REGION\x01r\x02TRACE_ON\x01true\x02CLUSTER\x01c\x02"
    for key in ("K1", "K2", "K3"):
        text = f"KEYS\x01{key}\x02UNIQ_KEY\x01{key}\x02WAIT\x01true\x02"
        assert one.stamp(text)[:2] == (text.encode() + suffix, key.encode())


def test_many_different_endings_do_not_pile_up() -> None:
    one = stamper()
    for number in range(2000):
        one.stamp(f"UNIQ_KEY\x01K\x02n\x01{number}\x02")
    assert len(one._endings) <= 256


def test_only_a_text_that_begins_with_its_key_can_be_plain() -> None:
    one = stamper()
    texts = [
        "UNIQ_KEY\x01K\x02WAIT\x01true\x02",
        "KEYS\x01k\x02UNIQ_KEY\x01K\x02WAIT\x01true\x02",
        "UNIQ_KEY\x01K\x02TAGS\x01t\x02",
    ]
    for text in texts:
        one.stamp(text)
    assert [one.stamp(text)[2] for text in texts] == [True, False, False]
