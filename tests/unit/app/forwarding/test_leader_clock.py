"""How far a leader's clock is ahead, as far as is known for sure."""

from typing import cast

from logherd.app.forwarding.links import _Link
from logherd.net.connection import Connection


def test_the_best_reading_of_a_clock_counts_less_what_the_clocks_may_have_drifted_apart_since() -> None:
    link = _Link(1, 1, cast("Connection", None), pause=0)
    link.measure(50_000, 10_000, first=True)
    assert link.ahead_ms == 40_000
    link.measure(50_900, 11_000)  # the answer was 100 ms on its way
    assert link.ahead_ms == 40_000 - 1 - 1
    link.measure(52_005, 12_000)  # a better one
    assert link.ahead_ms == 40_005


def test_the_first_reading_of_a_clock_counts_as_it_is() -> None:
    link = _Link(1, 1, cast("Connection", None), pause=0)
    link.measure(1_000, 10_000, first=True)
    assert link.ahead_ms == -9_000
