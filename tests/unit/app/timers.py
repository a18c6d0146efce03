"""Timers of a loop that runs only when a test says so."""

from collections.abc import Callable


class Timer:
    def __init__(self, seconds: float, run_out: Callable[[], None]) -> None:
        self.seconds = seconds
        self.run_out = run_out
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Timers:
    """All that were asked for, in their order."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def later(self, seconds: float, run_out: Callable[[], None]) -> Timer:
        self.timers.append(Timer(seconds, run_out))
        return self.timers[-1]
