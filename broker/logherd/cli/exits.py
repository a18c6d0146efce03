"""Exit codes of every command. Scripts may rely on them; `docs/operations.md` prints them."""

__all__ = ["DAMAGED", "FAILED", "INTERRUPTED", "OK", "STORE_FAILED", "USAGE"]

OK = 0
FAILED = 1
"""It was understood and did not work; one sentence on standard error says why."""
USAGE = 2
"""The command line or a configuration file is wrong; nothing was done."""
DAMAGED = 3
"""A store is damaged or not what it should be, or a broker cannot start; nothing was changed."""
STORE_FAILED = 4
"""A running broker's disk failed; it stopped rather than go on with an unknown state."""
INTERRUPTED = 130
"""Ended by Ctrl-C before it was done."""
