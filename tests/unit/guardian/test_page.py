"""The page: what is written is read, whatever is half-written is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd_guardian.page import (
    IDENTITY_BYTES_MAX,
    PAGE_BYTES,
    SLOT_BYTES,
    Identity,
    Page,
    decode_page,
    encode_slot,
)

WHO = Identity(cluster="DefaultCluster", group="bg", broker_id=2, store_id="0f" * 8)
U64 = st.integers(0, (1 << 64) - 1)
IDENTITIES = st.none() | st.builds(
    Identity, cluster=st.text(max_size=40), group=st.text(max_size=40), broker_id=U64, store_id=st.text(max_size=40)
)
PAGES = st.builds(
    Page, sequence=U64, ready=st.booleans(), registered=st.booleans(), epoch=U64,
    lease_end_ms=st.integers(-(1 << 63), (1 << 63) - 1), identity=IDENTITIES,
)  # fmt: skip


@given(PAGES)
def test_a_page_is_read_as_it_was_written(page: Page) -> None:
    assert decode_page(encode_slot(page).ljust(PAGE_BYTES, b"\0")) == page


def test_the_bytes_of_a_slot_are_these() -> None:
    page = Page(sequence=3, ready=True, registered=True, epoch=7, lease_end_ms=0x123456, identity=WHO)
    identity = b'{"cluster":"DefaultCluster","group":"bg","brokerId":"2","storeId":"0f0f0f0f0f0f0f0f"}'
    head = "4c484750 0001 0003 0000000000000003 0000000000000007 0000000000123456"
    slot = encode_slot(page)
    assert slot[:-4] == bytes.fromhex(head) + len(identity).to_bytes(2, "big") + identity


def test_an_empty_page_says_nothing() -> None:
    assert decode_page(bytes(PAGE_BYTES)) is None
    assert decode_page(b"") is None


def test_the_later_slot_counts() -> None:
    old, new = Page(sequence=8, epoch=1), Page(sequence=9, epoch=2)
    for first, second in ((old, new), (new, old)):
        data = encode_slot(first).ljust(SLOT_BYTES, b"\0") + encode_slot(second).ljust(SLOT_BYTES, b"\0")
        assert decode_page(data) == new


@given(st.data())
def test_a_write_that_stops_anywhere_leaves_what_was_said_before(data: st.DataObject) -> None:
    before = Page(sequence=4, epoch=1, lease_end_ms=50, identity=WHO)
    older, newer = encode_slot(Page(sequence=3, identity=WHO)), encode_slot(Page(sequence=5, epoch=2, identity=WHO))
    done = data.draw(st.integers(0, len(newer) - 1))
    torn = (newer[:done] + older[done:]).ljust(SLOT_BYTES, b"\0")
    assert decode_page(encode_slot(before).ljust(SLOT_BYTES, b"\0") + torn) == before


@given(st.binary(max_size=PAGE_BYTES + 10))
def test_any_bytes_are_a_page_or_none(data: bytes) -> None:
    assert decode_page(data) is None


@given(st.binary(max_size=60))
def test_a_sound_slot_with_a_senseless_identity_has_none(text: bytes) -> None:
    from logherd_guardian import page as module

    head = module._HEAD.pack(b"LHGP", 1, 1, 1, 1, 1, len(text))
    found = decode_page((head + text + module._CRC.pack(module.crc32(head + text))).ljust(PAGE_BYTES, b"\0"))
    assert found is not None
    assert found.ready
    assert found.identity is None


def test_the_longest_identity_fills_its_slot_and_not_the_other() -> None:
    def named(length: int) -> Page:
        return Page(identity=Identity(cluster="", group="x" * length, broker_id=1, store_id=""))

    room = SLOT_BYTES - len(encode_slot(named(0)))
    assert len(encode_slot(named(room))) == SLOT_BYTES
    assert decode_page(encode_slot(named(room)) + bytes(SLOT_BYTES)) == named(room)
    with pytest.raises(ValueError, match="an identity of 2011 bytes, allowed are 2010"):
        encode_slot(named(room + 1))


@given(st.integers(0, SLOT_BYTES), st.integers(0, (1 << 16) - 1))
def test_a_slot_that_is_cut_or_names_a_length_beyond_its_end_says_nothing(size: int, length: int) -> None:
    from logherd_guardian import page as module

    head = module._HEAD.pack(b"LHGP", 1, 1, 1, 1, 1, length)
    assert decode_page((head + bytes(SLOT_BYTES))[:size]) is None


@pytest.mark.parametrize("length", range(IDENTITY_BYTES_MAX - 2, IDENTITY_BYTES_MAX + 8))
def test_a_checksum_that_would_stand_behind_the_slot_is_none(length: int) -> None:
    from logherd_guardian import page as module

    assert decode_page(module._HEAD.pack(b"LHGP", 1, 1, 1, 1, 1, length) + bytes(PAGE_BYTES)) is None


def test_an_identity_that_does_not_fit_is_refused() -> None:
    for text, fits in (("x" * (IDENTITY_BYTES_MAX - 60), True), ("x" * IDENTITY_BYTES_MAX, False)):
        page = Page(identity=Identity(cluster="c", group=text, broker_id=1, store_id="s"))
        try:
            encode_slot(page)
        except ValueError:
            assert not fits
        else:
            assert fits
