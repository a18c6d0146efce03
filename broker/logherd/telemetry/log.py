"""The log adapter: a fixed message and named fields, written as a text line or as one JSON object.

A message never holds data, so that lines can be counted and searched by it; what varies goes into fields. Bytes are
replaced by their length (message bodies are never logged), long values are cut, and control characters are escaped,
so that a peer cannot forge lines.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, TextIO

__all__ = ["FieldValue", "JsonFormatter", "Log", "TextFormatter", "configure", "set_level"]

FieldValue = str | int | float | bool | bytes | bytearray | memoryview | BaseException | None
VALUE_LENGTH_MAX = 300


class Log:
    """A named source of log lines with fields that every line of it carries."""

    __slots__ = ("_bound", "_logger")

    def __init__(self, name: str, **bound: FieldValue) -> None:
        self._logger = logging.getLogger(name)
        self._bound = bound

    def bind(self, **fields: FieldValue) -> "Log":
        """The same source with more fields on every line."""
        return Log(self._logger.name, **{**self._bound, **fields})

    @property
    def debugging(self) -> bool:
        """Whether a debug line would be written; ask before computing costly fields."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def debug(self, message: str, **fields: FieldValue) -> None:
        """For a developer who follows one exchange."""
        self._write(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: FieldValue) -> None:
        """A change of state that an operator wants to find later."""
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, **fields: FieldValue) -> None:
        """Something was refused or cut short; the product goes on."""
        self._write(logging.WARNING, message, fields)

    def error(self, message: str, *, cause: BaseException | None = None, **fields: FieldValue) -> None:
        """A person must act. `cause` adds its traceback."""
        self._write(logging.ERROR, message, fields, cause)

    def _write(
        self, level: int, message: str, fields: Mapping[str, FieldValue], cause: BaseException | None = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            shown = {name: _shown(value) for name, value in (self._bound | dict(fields)).items()}
            self._logger.log(level, "%s", message, exc_info=cause, extra={"fields": shown})


class TextFormatter(logging.Formatter):
    """`2026-01-02T03:04:05.678Z WARNING net: connection closed remote=127.0.0.1:9 reason="frame too long"`."""

    def format(self, record: logging.LogRecord) -> str:
        parts = [f"{_timestamp(record)} {record.levelname} {record.name}: {record.getMessage()}"]
        parts.extend(f"{name}={_quoted(value)}" for name, value in _fields(record).items())
        line = " ".join(parts)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, source, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _timestamp(record), "level": record.levelname, "source": record.name,
            "message": record.getMessage(),
        }  # fmt: skip
        entry.update({name: value for name, value in _fields(record).items() if name not in entry})
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure(stream: TextIO, *, style: Literal["text", "json"] = "text", level: int = logging.INFO) -> None:
    """Send every LogHerd line (loggers below `logherd`) to `stream`, and nowhere else. Safe to call again."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    root = logging.getLogger("logherd")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False


def set_level(name: str) -> None:
    """Write lines from this severity on (debug, info, warning, error)."""
    logging.getLogger("logherd").setLevel(logging.getLevelNamesMapping()[name.upper()])


def _shown(value: FieldValue) -> str | int | float | bool | None:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if value is None or isinstance(value, int | float):
        return value
    text = str(value)
    if len(text) > VALUE_LENGTH_MAX:
        text = text[:VALUE_LENGTH_MAX] + "..."
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, dict) else {}


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or " " in text or '"' in text or "=" in text else text


def _timestamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
