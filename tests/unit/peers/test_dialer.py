"""Pauses between tries: short at first, growing to a limit, and never the same for all."""

from logherd.peers.dialer import _pause_seconds
from logherd.peers.options import LinkOptions

OPTIONS = LinkOptions(backoff_ms_min=50, backoff_ms_max=1_000)


def test_pauses_grow_to_their_limit_and_lie_between_half_and_all_of_it() -> None:
    for failures, full in ((0, 50), (1, 100), (2, 200), (3, 400), (4, 800), (5, 1_000), (6, 1_000), (10_000, 1_000)):
        drawn = {round(_pause_seconds(failures, OPTIONS) * 1000, 1) for _ in range(300)}
        assert full / 2 <= min(drawn)
        assert max(drawn) <= full
        assert len(drawn) > 20
