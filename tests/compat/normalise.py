"""What `mqadmin` printed, without what must differ between any two servers: ports, times, ids, sizes of the moment."""

import re
from collections.abc import Mapping

from compat.history import Answer
from compat.server import Server

__all__ = ["normalise"]

# (pattern, replacement); applied in order.
VOLATILE = [
    (r"(?m)^\d\d:\d\d:\d\d,\d{3} \|-.*\n", ""),  # the tool's own logger starting up
    (r"(?m)^\s+at .*\n", ""),  # stack trace
    (r"(?m)^\s+\.\.\. \d+ more\n", ""),
    (r"(?m)^(For more information, please visit the url, \S+|See https\S+ for further details\.)\n?", ""),
    # A remark says in words what the code says already, and ours are meant to be clearer (issue 3).
    (r"CODE: (\d+)  ?DESC: [^\n]*", r"CODE: \1"),
    (r"\S+@(\w+)-\d+", r"<client \1>"),
    (r"/tmp/rocketmq/msgbodys/\S+", "<body file>"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d{3})?", "<time>"),
    (r"\b1\d{12}\b", "<ms>"),
    (r"\b[0-9A-F]{32}\b", "<id>"),
    (r"\b[0-9.]+\.[0-9.]+\b(?=\s+(?:0|\d+)\s+0\s+0\s+0)", "<ip>"),
    # The tools' columns are padded to the width of the values.
    (r"[ \t]+", " "),
    (r"(?m) $", ""),
    (r"\n+", "\n"),
]


def normalise(answer: Answer, server: Server, ids: Mapping[str, str]) -> str:
    """Comparable text of one answer; an error is its exceptions without their stack traces."""
    text = answer.out + answer.err
    for port, name in ((server.broker_port, "<broker>"), (server.name_server_port, "<name server>")):
        text = text.replace(f"127.0.0.1:{port}", name)
    for name, meaning in ids.items():
        text = text.replace(name, meaning)
    text = re.sub(r"127\.0\.0\.1:\d+", "<client address>", text)
    for pattern, replacement in VOLATILE:
        text = re.sub(pattern, replacement, text)
    return text.strip()
