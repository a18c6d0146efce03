"""Up to where a follower must be to keep up."""

from logherd.app.group.lately import Lately
from logherd.model.names import Position


def test_who_has_what_was_committed_a_second_ago_or_two_keeps_up() -> None:
    lately = Lately()
    assert lately.position is None
    for now, committed, needed in [
        (5_000, 10, None), (5_999, 20, None), (6_000, 30, 10), (6_500, 40, 10), (7_000, 50, 30), (7_999, 60, 30),
        (9_500, 70, 50),
    ]:  # fmt: skip
        lately.note(now, Position(committed))
        assert lately.position == needed
