"""Wall clocks of processes that tests can move; see wall_clock/sitecustomize.py. Other clocks go on as they do."""

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

from system.faults import prove_within
from system.wall_clock.sitecustomize import VARIABLE

__all__ = ["Moved", "WallClock"]

_FOLDER = Path(__file__).with_name("wall_clock")
_NUMBERS = struct.Struct("=qq")
_NEAR_NS = 60_000_000_000
_SHOWN_SECONDS = 15.0


class WallClock:
    """One node's, for all its processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_bytes(_NUMBERS.pack(0, 0))

    @property
    def under(self) -> tuple[str, ...]:
        """What a command is started by to have this clock."""
        return self.under_release(None)

    def under_release(self, checkout: Path | None) -> tuple[str, ...]:
        """The same for a command of another release."""
        release = "" if checkout is None else str(checkout / "broker")
        path = os.pathsep.join(filter(None, (str(_FOLDER), release, os.environ.get("PYTHONPATH"))))
        return ("env", f"{VARIABLE}={self._path}", f"PYTHONPATH={path}")

    def move(self, seconds: int) -> None:
        """Have it be off by so much from now on."""
        with self._path.open("r+b") as file:
            file.write(struct.pack("=q", seconds * 1_000_000_000))

    def off_ns(self) -> int:
        """How far off it was when it was last looked at, by at most the time since."""
        return int(_NUMBERS.unpack(self._path.read_bytes())[1]) - time.time_ns()


class Moved:
    """A fault: the wall clock of a node is off by so many seconds. `stir` has a process of that node look at it."""

    def __init__(self, clock: WallClock, whose: str, seconds: int, *, stir: Callable[[], None]) -> None:
        self.name = f"the wall clock of {whose} is off by {seconds} s"
        self._clock = clock
        self._seconds = seconds
        self._stir = stir

    def inject(self) -> None:
        self._clock.move(self._seconds)

    def prove(self) -> None:
        """A process of that node has seen it."""
        prove_within(_SHOWN_SECONDS, self.name, lambda: self._is_off(self._seconds))

    def heal(self) -> None:
        self._clock.move(0)

    def prove_healed(self) -> None:
        prove_within(_SHOWN_SECONDS, f"{self.name}, ended", lambda: self._is_off(0))

    def _is_off(self, seconds: int) -> bool:
        if abs(self._clock.off_ns() - seconds * 1_000_000_000) < _NEAR_NS:
            return True
        self._stir()
        return False
