"""After waits in vain more and more are left out; what comes brings the waiting back."""

from logherd.kit.patience import SKIPPED_MAX, Patience


def left_out(patience: Patience) -> int:
    """How many times it is not waited from now on."""
    count = 0
    while not patience.left():
        count += 1
    return count


def test_twice_as_many_are_left_out_each_time_up_to_a_bound() -> None:
    patience = Patience()
    assert left_out(patience) == 0
    counts = []
    for _ in range(8):
        patience.missed()
        counts.append(left_out(patience))
    assert counts == [1, 3, 7, 15, 31, 63, SKIPPED_MAX, SKIPPED_MAX]


def test_what_comes_halves_how_many_are_left_out_after_the_next_miss() -> None:
    patience = Patience()
    for _ in range(3):
        patience.missed()
    patience.met()
    patience.missed()
    assert left_out(patience) == 7
