"""How long to wait before the child is started again. Pure; milliseconds."""

__all__ = ["CANNOT_START", "RestartDelays"]

CANNOT_START = frozenset({2, 3, 126, 127})
"""Exit codes that another start is not likely to change: wrong settings, 'cannot start', and a command that cannot be
executed."""

_FIRST_MS = 50
_FIRST_HOPELESS_MS = 1_000
_LONGEST_HOPELESS_MS = 60_000
_HEALTHY_MS = 10_000
_DOUBLINGS_MAX = 16


class RestartDelays:
    """Doubles from one quick death to the next, starts over after a child that served for a while; never ends."""

    def __init__(self, longest_ms: int = 10_000) -> None:
        self._longest_ms = longest_ms
        self._deaths = 0

    def after(self, code: int, served_ms: int) -> int:
        """The wait after an exit with `code` of a child that was ready for `served_ms`."""
        if served_ms >= _HEALTHY_MS:
            self._deaths = 0
        doublings = min(self._deaths, _DOUBLINGS_MAX)
        self._deaths += 1
        if code in CANNOT_START:
            return min(_FIRST_HOPELESS_MS << doublings, _LONGEST_HOPELESS_MS)
        return min(_FIRST_MS << doublings, self._longest_ms)
