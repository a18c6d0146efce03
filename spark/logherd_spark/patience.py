"""How long something is tried again, and with which pauses."""

import random
import time
from dataclasses import dataclass

__all__ = ["Patience", "Retries"]

_FIRST_PAUSE_SECONDS = 0.05
_PAUSE_SECONDS_MAX = 2.0


@dataclass(frozen=True, slots=True)
class Patience:
    """`request_seconds` for one answer, `total_seconds` for all attempts at one thing together."""

    request_seconds: float = 5.0
    total_seconds: float = 120.0


class Retries:
    """The attempts at one thing, from the first failure in a row on."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._deadline: float | None = None
        self._pause = _FIRST_PAUSE_SECONDS

    def succeeded(self) -> None:
        """The time allowed begins anew with the next failure."""
        self._deadline = None
        self._pause = _FIRST_PAUSE_SECONDS

    def pause(self) -> bool:
        """After a failure: wait a little, longer each time, and say whether to try again."""
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._patience.total_seconds
        left = self._deadline - now
        if left <= 0:
            return False
        # Tasks that failed together should not come back together.
        time.sleep(min(left, self._pause * random.uniform(0.5, 1.0)))  # noqa: S311
        self._pause = min(self._pause * 2, _PAUSE_SECONDS_MAX)
        return True
