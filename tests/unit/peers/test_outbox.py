"""Two lanes with limits of their own."""

from logherd.peers.outbox import Outbox


def outbox() -> Outbox:
    return Outbox(bulk_bytes_max=100, urgent_bytes_max=30)


def test_urgent_frames_overtake_and_order_is_kept_within_a_lane() -> None:
    box = outbox()
    for frame in (b"b1", b"b2"):
        assert box.add_bulk(frame)
    for frame in (b"u1", b"u2"):
        assert box.add_urgent(frame)
    assert box.size == 8
    assert box.take(5) == [b"u1", b"u2", b"b1"]
    assert box.take(5) == [b"b2"]
    assert box.take(5) == []
    assert box.size == 0


def test_no_more_is_taken_than_was_wanted() -> None:
    box = outbox()
    for frame in (b"b1", b"b2", b"b3"):
        box.add_bulk(frame)
    assert box.take(4) == [b"b1", b"b2"]


def test_each_lane_holds_its_limit() -> None:
    box = outbox()
    assert box.add_bulk(b"x" * 99)
    assert box.add_bulk(b"x")
    assert not box.add_bulk(b"x")
    assert box.add_urgent(b"x" * 29)
    assert box.add_urgent(b"x")
    assert not box.add_urgent(b"x")
    assert box.size == 130


def test_one_frame_larger_than_the_limit_travels_alone() -> None:
    box = outbox()
    assert box.add_bulk(b"x" * 101)
    assert not box.add_bulk(b"x")
    assert box.add_urgent(b"x" * 31)
    assert not box.add_urgent(b"x")


def test_what_has_left_makes_room() -> None:
    box = outbox()
    box.add_bulk(b"x" * 100)
    box.add_urgent(b"x" * 30)
    assert len(box.take(1_000)) == 2
    assert box.add_bulk(b"y" * 100)
    assert box.add_urgent(b"y" * 30)
    assert box.take(1_000) == [b"y" * 30, b"y" * 100], "each leaves once"


def test_a_lost_connection_takes_everything_with_it() -> None:
    box = outbox()
    box.add_bulk(b"x")
    box.add_urgent(b"x")
    box.clear()
    assert box.size == 0
    assert box.take(10) == []
    box.add_urgent(b"y")
    box.add_bulk(b"y")
    assert box.take(10) == [b"y", b"y"]
