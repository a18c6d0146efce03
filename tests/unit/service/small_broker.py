"""A store on a temporary disk with metadata in it, and messages that the test puts there."""

from pathlib import Path

from logherd.model.host import encode_host
from logherd.service.identity import BrokerIdentity
from logherd.service.metadata import Metadata
from logherd.service.metadata.store_log import StoreLog
from logherd.store import MessageStore
from logherd.store.options import DerivedOptions, LogOptions, StoreOptions
from sim.left_files import LeftFiles
from unit.service.client_fakes import FakeClock

HOST = encode_host("127.0.0.1", 10911)
IDENTITY = BrokerIdentity("C", "a", 0, "127.0.0.1:10911")
OPTIONS = StoreOptions(
    store_host=HOST,
    log=LogOptions(segment_bytes=1 << 20, zero_ahead_bytes=0, reserve_bytes=0),
    derived=DerivedOptions(index_slots=100, index_entries=1000, queue_file_units=100),
)


class SmallBroker:
    """Store, metadata and clock; `commit()` does what the writer thread does, at once."""

    def __init__(self, directory: Path) -> None:
        self.clock = FakeClock()
        self.store = MessageStore.open(directory, OPTIONS, LeftFiles(), clock=self.clock)
        self.metadata = Metadata.open(StoreLog(self.store, self.clock, host=HOST), self.clock)
        self.commit()

    def commit(self) -> None:
        self.metadata.end_pass()
        while (batch := self.store.take_batch()) is not None:
            batch.write_and_flush()
            self.store.flushed(batch)
            self.store.advance(batch.end)

    def put(self, topic: str, queue_id: int = 0, body: bytes = b"hello", properties: bytes = b"") -> int:
        """Store one message durably; returns its position."""
        _, position = self.store.append(
            self.store.queue(topic, queue_id), body, properties, born_timestamp=self.clock.now_ms(), born_host=HOST,
            store_timestamp=self.clock.now_ms(),
        )  # fmt: skip
        self.commit()
        return position

    def close(self) -> None:
        self.store.close()
