"""Idempotent writers: epochs for their runs, chunks that are stored once however often they come (H19).

Decides what is stored and what is answered; never sees how that is remembered in the log (`metadata.writers`)."""

from logherd.service.producers.handler import WriterHandler
from logherd.service.producers.options import WriterOptions

__all__ = ["WriterHandler", "WriterOptions"]
