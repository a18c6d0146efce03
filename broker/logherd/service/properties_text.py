"""`name=value` lines, in which RocketMQ's tools read and write configurations.

The tools send what Java's Properties class understands, of which this reads: comments (# or !), blanks around the
name, `=` or `:` between name and value, backslash escapes (of `\\ : = # !`, and of t, n, r, uXXXX), and a backslash at
the end of a line that goes on in the next.
"""

import re
from collections.abc import Mapping

__all__ = ["TEXT_BYTES_MAX", "format_properties_text", "parse_properties_text"]

TEXT_BYTES_MAX = 256 << 10
"""Of a request: ten times what stock tools send. The loop waits while it is read, 3 s for the largest frame."""

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SEPARATOR = re.compile(r"(?<!\\)[=:]")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r"}


def parse_properties_text(text: str) -> dict[str, str]:
    """Name -> value; the last line wins when a name repeats. Without `=` or `:` a line is a name with no value."""
    found: dict[str, str] = {}
    for line in re.sub(r"\\\r?\n[ \t]*", "", text).splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        parts = _SEPARATOR.split(stripped, maxsplit=1)
        found[_unescape(parts[0].rstrip())] = _unescape(parts[1].lstrip()) if len(parts) > 1 else ""
    return found


def format_properties_text(values: Mapping[str, str]) -> bytes:
    """`name=value` lines in the given order, plain as RocketMQ writes them: tools print them as they are."""
    return "".join(f"{name}={value}\n" for name, value in values.items()).encode()


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    read = _ESCAPE.sub(_replacement, text)
    # Java writes a character beyond the first 65,536 as a pair; half of one is no character, and no text has it.
    return read.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _replacement(match: re.Match[str]) -> str:
    escaped = match[1]
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    return _ESCAPED.get(escaped, escaped)
