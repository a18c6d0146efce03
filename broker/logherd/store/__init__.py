"""The log on disk: segments, commit log, consume queues, key index, checkpoint, recovery.

Synchronous, single owner, reaches files only through the Files protocol. Knows no socket, event loop or wire header.
"""

from logherd.store.append_run import RunMessage
from logherd.store.begin_again import accept_bare, begin_again, begin_at, begin_later
from logherd.store.consume_queue import QueueLog
from logherd.store.errors import (
    RawRefused,
    RecordTooLarge,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreInUse,
    StoreStopped,
    StoreVersionError,
)
from logherd.store.options import FOLLOWER_CACHED_BYTES, DerivedOptions, LogOptions, RetentionOptions, StoreOptions
from logherd.store.read import ReadResult, ReadStatus
from logherd.store.reader import NOT_NOW
from logherd.store.store import DiskState, MessageStore
from logherd.store.writer import WriteBatch

__all__ = [
    "FOLLOWER_CACHED_BYTES", "NOT_NOW", "DerivedOptions", "DiskState", "LogOptions", "MessageStore", "QueueLog",
    "RawRefused", "ReadResult", "ReadStatus", "RecordTooLarge", "RetentionOptions", "RunMessage", "StoreDamaged",
    "StoreError", "StoreFull", "StoreInUse", "StoreOptions", "StoreStopped", "StoreVersionError", "WriteBatch",
    "accept_bare", "begin_again", "begin_at", "begin_later",
]  # fmt: skip
