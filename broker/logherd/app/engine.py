"""The log and the metadata in it, driven by one writer thread: what a broker is without its ports.

Nothing here knows a connection. Whoever appends says `schedule`, and hears of commits and of the one failure that ends
the process' writing life.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from logherd.app.adopting import adopt_files, adopting_ends, expect_adoption, is_adopting, open_metadata
from logherd.app.foreground import ServerFailed
from logherd.app.forwarding.leadership import SettableLeadership
from logherd.app.linger import Linger
from logherd.app.opening import open_store
from logherd.app.option_values import defaults_options
from logherd.app.pipeline import CommitPipeline
from logherd.app.writer import Writer
from logherd.kit.clock import Clock
from logherd.service.forwarding.roles import Leading
from logherd.service.metadata import Metadata
from logherd.service.metadata.defaults import ensure_defaults
from logherd.settings.options import BrokerOptions
from logherd.store import MessageStore, QueueLog, StoreError, WriteBatch
from logherd.store.files_os import OsFiles
from logherd.telemetry.log import Log
from logherd.telemetry.spread import RUN_BYTES, Spread

__all__ = ["BrokerFailed", "Engine", "Flushes"]

_log = Log("logherd.store")

_FLUSH_LOOK_SECONDS = 0.02


class BrokerFailed(ServerFailed):
    """The store failed while the broker ran; the process must end without writing."""


class Flushes(NamedTuple):
    """How long batches of the log took, and how large they were."""

    seconds: Spread
    bytes: Spread


class Engine:
    """An open store with its metadata. Belongs to the loop on which it was made."""

    def __init__(
        self,
        store: MessageStore,
        metadata: Metadata,
        options: BrokerOptions,
        *,
        on_commit: Callable[[list[QueueLog], int], None],
        on_failure: Callable[[], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.store = store
        self.leadership = SettableLeadership(Leading(metadata.epoch))
        self._segment_bytes = options.store.segment_bytes
        self.metadata = metadata
        self._failure: BrokerFailed | None = None
        self.segments_deleted = 0
        self._on_failure = on_failure
        self._writer: Writer[WriteBatch] = Writer(loop, on_done=self._written, background=store.background_work)
        self.flushes = Flushes(self._writer.seconds, Spread(RUN_BYTES))
        self.linger = Linger(self.schedule, loop.call_later)
        self._pipeline: CommitPipeline[WriteBatch, list[QueueLog]] = CommitPipeline(
            store,
            self._writer,
            hold=self.linger.hold,
            before_batch=self._before_batch,
            on_commit=on_commit,
            on_failure=self.fail,
            brief=WriteBatch.write_if_brief if options.flush == "async" else None,
        )

    @staticmethod
    def open(
        options: BrokerOptions,
        *,
        store_host: bytes,
        clock: Clock,
        cached_files: int,
        on_commit: Callable[[list[QueueLog], int], None],
        on_failure: Callable[[], None],
    ) -> "Engine":
        """Open and recover the store and rebuild the metadata; blocks. A store that RocketMQ wrote is adopted.

        Raises: StoreError, MetadataError, OSError; the store is closed then.
        """
        files, data_dir = OsFiles(), options.data_dir
        expect_adoption(files, data_dir)
        store = open_store(options, store_host=store_host, clock=clock, cached_files=cached_files)
        try:
            metadata = open_metadata(store, clock, host=store_host)
            metadata.topics.forget_deletions(store.min_position)
            adopt_files(files, data_dir, store, metadata)
        except BaseException:
            store.close()
            raise
        return Engine(store, metadata, options, on_commit=on_commit, on_failure=on_failure)

    def schedule(self) -> None:
        """Say that something may have been appended in this pass."""
        self._pipeline.schedule()

    @property
    def epoch(self) -> int:
        """The epoch of this start."""
        return self.metadata.epoch

    @property
    def store_id(self) -> str:
        """A broker alone has no other copies to be told from."""
        return ""

    @property
    def fault(self) -> str:
        """Why this broker cannot write; empty if it can."""
        failure = self._writer.failure
        return "" if failure is None else f"the store has failed: {failure}"

    @property
    def healthy(self) -> bool:
        """Whether writing goes on."""
        return self._writer.failure is None

    async def begin(self, options: BrokerOptions) -> None:
        """Start writing: the barrier of this epoch and all defaults are committed when this returns, and what was taken
        over of a RocketMQ store is durable.

        Raises: BrokerFailed, MetadataRefusedError.
        """
        self._writer.start()
        ensure_defaults(self.metadata, defaults_options(options))
        await self._pipeline.drained()
        self.check()
        files, position = OsFiles(), self.metadata.position
        while is_adopting(files, options.data_dir):
            if self.store.flushed_position >= position:
                adopting_ends(files, options.data_dir)
            else:  # with flush `async` it is only written
                await asyncio.sleep(_FLUSH_LOOK_SECONDS)
                self.check()

    def check(self) -> None:
        """Raises: BrokerFailed if the store has failed."""
        if self._failure is not None:
            raise self._failure

    def fail(self, error: BaseException) -> None:
        """End the writing life of this process: the store failed, or something broke that keeps it right."""
        if self._failure is None:
            self._failure = BrokerFailed(f"{type(error).__name__}: {error}")
            self._on_failure()

    def tick(self) -> None:
        """About once a second: what follows time instead of traffic."""
        self.store.tick()
        self.schedule()

    def follow_settings(self, _options: BrokerOptions) -> None:
        """Nothing of it changes while it runs."""

    def apply_retention(self, now_ms: int) -> None:
        """Every 2 s or so: let old segments go, and make room for that when metadata holds them (H2)."""
        store, metadata = self.store, self.metadata
        first = store.min_position
        count = store.apply_retention(now_ms, metadata.pinned_position)
        if count:
            self.segments_deleted += count
            metadata.topics.forget_deletions(store.min_position)
            _log.info("segments deleted", count=count, from_position=first, to_position=store.min_position)
        elif metadata.pinned_position < store.min_position + self._segment_bytes < store.end_position:
            metadata.request_snapshot()

    async def close(self, *, orderly: bool, seconds: float) -> None:
        """End the writer; with `orderly` flush everything first and mark the store as closed in order.

        A disk that fails at that is told by `check`.
        """
        if orderly:
            await self._pipeline.drained()
        ended = await asyncio.to_thread(self._writer.stop, seconds)
        if orderly and ended:
            try:
                self.store.close()
            except (StoreError, OSError) as error:
                self.fail(error)

    def _before_batch(self) -> None:
        self.metadata.end_pass()
        self.linger.left()

    def _written(self, batch: WriteBatch | None, error: BaseException | None) -> None:
        if batch is not None:
            self.flushes.bytes.observe(batch.end - batch.start)
        self._pipeline.done(batch, error)
