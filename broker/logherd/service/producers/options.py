"""What is configured about idempotent writers."""

from dataclasses import dataclass

__all__ = ["WriterOptions"]

_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """`expire_ms`: a writer that stored and asked for nothing for so long expires, and is refused when it comes again.

    `chunks_max` bounds what is remembered of all writers together, about 0.4 KiB each; `writers_max` how many names,
    expired ones included: the longest expired is forgotten first. `earlier_runs_max` runs of a writer are still known
    as older than the newest; a run before those would be taken for a new one.
    """

    expire_ms: int = 7 * _DAY_MS
    chunks_max: int = 250_000
    writers_max: int = 20_000
    earlier_runs_max: int = 64
    name_bytes_max: int = 255
