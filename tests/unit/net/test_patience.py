"""The clocks of a connection, each one sweep before its limit, at it, and after it."""

import pytest

from logherd.net.limits import PatienceLimits
from logherd.net.patience import Patience

LIMITS = PatienceLimits()


def test_the_defaults_are_those_of_the_limits_table() -> None:
    assert (LIMITS.first_frame_seconds, LIMITS.frame_seconds, LIMITS.frame_bytes_per_second_min) == (5, 10, 1024)
    assert LIMITS.idle_seconds == 120


class Sweeps:
    """Feeds a Patience with what a connection's counters would be."""

    def __init__(self) -> None:
        self.patience = Patience(LIMITS, 0.0)
        self.received = self.sent = self.frames = self.buffered = 0
        self.held = False

    def at(self, now: float) -> str | None:
        return self.patience.step(
            now, received=self.received, sent=self.sent, frames=self.frames, buffered=self.buffered, held=self.held
        )


@pytest.mark.parametrize(("seconds", "closed"), [(4.9, False), (5.0, True), (5.1, True)])
def test_the_first_frame_must_come_within_five_seconds(seconds: float, closed: bool) -> None:
    sweeps = Sweeps()
    sweeps.at(0)
    assert (sweeps.at(seconds) == "no frame within 5 s") is closed


def test_one_byte_does_not_buy_more_time_for_the_first_frame() -> None:
    sweeps = Sweeps()
    sweeps.received = sweeps.buffered = 1
    sweeps.at(4.5)
    sweeps.received = sweeps.buffered = 2
    assert sweeps.at(5.0) == "no frame within 5 s"


def test_who_is_not_read_has_the_time_for_its_first_frame_once_it_is() -> None:
    sweeps = Sweeps()
    sweeps.received = sweeps.buffered = 1
    sweeps.held = True
    assert sweeps.at(5.0) is None
    assert sweeps.at(9.0) is None
    sweeps.held = False
    sweeps.received = sweeps.buffered = 8_000
    assert sweeps.at(13.5) is None
    assert sweeps.at(14.0) == "no frame within 5 s"


@pytest.mark.parametrize(("seconds", "closed"), [(119.5, False), (120.0, True), (120.5, True)])
def test_a_connection_without_a_byte_either_way_is_idle_after_two_minutes(seconds: float, closed: bool) -> None:
    sweeps = Sweeps()
    sweeps.received, sweeps.frames = 100, 1
    assert sweeps.at(1) is None
    assert (sweeps.at(1 + seconds) == "idle for 120 s") is closed


@pytest.mark.parametrize("direction", ["received", "sent"])
def test_a_byte_in_either_direction_ends_idleness(direction: str) -> None:
    sweeps = Sweeps()
    sweeps.received, sweeps.frames = 100, 1
    sweeps.at(1)
    setattr(sweeps, direction, 101)
    assert sweeps.at(120.5) is None
    assert sweeps.at(240) is None
    assert sweeps.at(240.5) == "idle for 120 s"


@pytest.mark.parametrize(("seconds", "closed"), [(9.9, False), (10.0, True), (10.1, True)])
def test_a_begun_frame_must_be_whole_after_ten_seconds_however_fast_it_grows(seconds: float, closed: bool) -> None:
    sweeps = Sweeps()
    sweeps.received, sweeps.frames, sweeps.buffered = 100, 1, 10
    assert sweeps.at(1) is None
    sweeps.received = sweeps.buffered = 1_000_000
    assert (sweeps.at(1 + seconds) == "a begun frame was not whole after 10 s") is closed


@pytest.mark.parametrize(("arrived", "closed"), [(3071, True), (3072, False), (3073, False)])
def test_a_begun_frame_must_grow_by_a_kibibyte_a_second(arrived: int, closed: bool) -> None:
    sweeps = Sweeps()
    sweeps.received, sweeps.frames, sweeps.buffered = 100, 1, 10
    sweeps.at(1)
    sweeps.received += arrived
    sweeps.buffered += arrived
    assert (sweeps.at(4.0) is not None) is closed


def test_the_rate_is_not_asked_for_before_a_lost_packet_could_be_sent_again() -> None:
    sweeps = Sweeps()
    sweeps.received, sweeps.frames, sweeps.buffered = 100, 1, 10
    sweeps.at(1)
    assert sweeps.at(3.9) is None


def test_each_new_frame_starts_the_clock_again() -> None:
    sweeps = Sweeps()
    sweeps.buffered = 10
    for second in range(1, 60):
        sweeps.frames, sweeps.received = second, second * 100
        assert sweeps.at(second) is None


def test_the_frame_clock_stands_still_while_we_do_not_read() -> None:
    sweeps = Sweeps()
    sweeps.received, sweeps.frames, sweeps.buffered, sweeps.held = 100, 1, 10, True
    assert sweeps.at(1) is None
    assert sweeps.at(60) is None
    sweeps.held = False
    assert sweeps.at(62) is None
    assert sweeps.at(71) is not None
