"""Few buffers without copying large ones."""

from hypothesis import given
from hypothesis import strategies as st

from logherd.net.outbox import SEPARATE_SIZE_MIN, Outbox


def test_small_frames_leave_as_one_buffer() -> None:
    outbox = Outbox()
    outbox.add(b"ab")
    outbox.add(b"cd")
    outbox.add_slices(b"head", [memoryview(b"x"), memoryview(b"y")])
    assert outbox.size == 10
    assert outbox.take() == [b"abcdheadxy"]
    assert (outbox.size, outbox.take()) == (0, [])


def test_a_large_slice_is_not_copied() -> None:
    large = memoryview(bytes(SEPARATE_SIZE_MIN))
    outbox = Outbox()
    outbox.add(b"first")
    outbox.add_slices(b"head", [memoryview(b"small"), large, memoryview(b"tail")])
    outbox.add(b"last")
    buffers = outbox.take()
    assert len(buffers) == 3
    assert buffers[0] == b"firstheadsmall"
    assert buffers[1] is large
    assert buffers[2] == b"taillast"


def test_a_slice_below_the_threshold_is_joined() -> None:
    outbox = Outbox()
    outbox.add_slices(b"head", [memoryview(bytes(SEPARATE_SIZE_MIN - 1))])
    assert len(outbox.take()) == 1


@given(st.lists(st.tuples(st.binary(max_size=20), st.lists(st.sampled_from([0, 1, 8191, 8192, 9000]), max_size=4))))
def test_the_bytes_and_their_order_never_change(parts: list[tuple[bytes, list[int]]]) -> None:
    outbox, expected = Outbox(), b""
    for number, (head, sizes) in enumerate(parts):
        slices = [memoryview(bytes([number % 256]) * size) for size in sizes]
        if slices:
            outbox.add_slices(head, slices)
        else:
            outbox.add(head)
        expected += head + b"".join(slices)
    assert outbox.size == len(expected)
    assert b"".join(outbox.take()) == expected
