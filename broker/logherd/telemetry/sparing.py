"""Lines that anybody on the network can cause, written so that they can neither fill a disk nor hide other lines."""

from collections.abc import Callable

from logherd.telemetry.log import FieldValue, Log

__all__ = ["SparingLog"]

_LINES_MAX = 10
_SECONDS = 60.0
_KINDS_MAX = 64
_OTHERS = ("too many kinds of warnings", "", "")

_Kind = tuple[str, str, str, str]


class _Window:
    """What came of one kind since its first line, at `opened`."""

    __slots__ = ("lines", "opened")

    def __init__(self, opened: float) -> None:
        self.opened = opened
        self.lines = 0


class SparingLog:
    """At most ten lines of a kind within a minute of the first of them, then one that says how many more there were.

    A kind is a severity, a message and its reason, or another field of few values. 64 are kept apart; what is of more
    kinds within a minute is counted together.
    `now` reads a monotonic clock in seconds. Writes at once, like its log.
    """

    __slots__ = ("_log", "_now", "_windows", "_writers")

    def __init__(self, log: Log, now: Callable[[], float]) -> None:
        self._log = log
        self._now = now
        self._windows: dict[_Kind, _Window] = {}
        self._writers: dict[str, Callable[..., None]] = {
            "error": log.error, "warning": log.warning, "info": log.info,
        }  # fmt: skip

    def error(self, message: str, by: str = "reason", /, **fields: FieldValue) -> None:
        """As `Log.error` without a cause, or only counted, with those of the same value of the field `by`."""
        self._write(("error", message, by, str(fields.get(by, ""))), fields)

    def warning(self, message: str, by: str = "reason", /, **fields: FieldValue) -> None:
        """As `Log.warning`, or only counted, in the same way."""
        self._write(("warning", message, by, str(fields.get(by, ""))), fields)

    def info(self, message: str, by: str = "reason", /, **fields: FieldValue) -> None:
        """As `Log.info`, or only counted, in the same way."""
        self._write(("info", message, by, str(fields.get(by, ""))), fields)

    def debug(self, message: str, **fields: FieldValue) -> None:
        """As `Log.debug`."""
        self._log.debug(message, **fields)

    def tell(self, *, ending: bool = False) -> None:
        """Say how many lines were left out of each minute that is over, and with `ending` of those that are not.

        For who looks at its clocks now and then: otherwise it is said with the next warning.
        """
        now = self._now()
        over = [kind for kind, window in self._windows.items() if ending or now - window.opened >= _SECONDS]
        for kind in over:
            window = self._windows.pop(kind)
            if window.lines > _LINES_MAX:
                severity, message, by, value = kind
                told: dict[str, FieldValue] = {by: value} if value else {}
                more, seconds = window.lines - _LINES_MAX, round(now - window.opened)
                self._writers[severity](message, **told, left_out=more, seconds=seconds)

    def _write(self, kind: _Kind, fields: dict[str, FieldValue]) -> None:
        self.tell()
        severity, message, _, _ = kind
        if kind not in self._windows and len(self._windows) >= _KINDS_MAX:
            kind = (severity, *_OTHERS)
        window = self._windows.get(kind)
        if window is None:
            window = self._windows[kind] = _Window(self._now())
        window.lines += 1
        if window.lines <= _LINES_MAX:
            self._writers[severity](message, **fields)
