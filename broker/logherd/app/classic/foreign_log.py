"""A log that another broker writes: an open store with a writer thread, and nothing that serves it."""

import asyncio
from collections.abc import Callable

from logherd.app.classic.side_files import SideFiles
from logherd.app.data_dir import make_data_dir
from logherd.app.engine import BrokerFailed
from logherd.app.opening import open_store
from logherd.app.option_values import host_of, store_options
from logherd.app.pipeline import CommitPipeline
from logherd.app.writer import Writer
from logherd.classic.master_feed import FollowOptions
from logherd.classic.runs import Run
from logherd.kit.clock import Clock
from logherd.settings.options import BrokerOptions
from logherd.store import MessageStore, QueueLog, StoreError, WriteBatch, begin_at
from logherd.store.files_os import OsFiles
from logherd.telemetry.spread import Spread

__all__ = ["ForeignLog"]

_UNWRITTEN_BYTES_MAX = 16 << 20
_OVERLAP_BYTES = 256 << 10
_CACHED_FILES = 256


class ForeignLog:
    """Belongs to the loop. All that is flushed is committed."""

    def __init__(
        self, store: MessageStore, options: FollowOptions, *, on_commit: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:  # fmt: skip
        self.store = store
        self.options = options
        """What a connection is to compare and take; the overlap covers what the last crash may have spoiled."""
        self._on_commit = on_commit
        self._room = asyncio.Event()
        self._writer: Writer[WriteBatch] = Writer(
            asyncio.get_running_loop(), on_done=self._written, background=store.background_work
        )
        self._pipeline: CommitPipeline[WriteBatch, list[QueueLog]] = CommitPipeline(
            store, self._writer, hold=lambda: False, before_batch=lambda: None, on_commit=self._committed,
            on_failure=on_failure,
        )  # fmt: skip
        self._writer.start()

    @staticmethod
    def exists(options: BrokerOptions) -> bool:
        """Whether there is a log already, of ours or RocketMQ's."""
        return bool(OsFiles().list(f"{options.data_dir}/commitlog"))

    @staticmethod
    def open(
        options: BrokerOptions, clock: Clock, *, begin: int, on_commit: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> "ForeignLog":  # fmt: skip
        """Open and recover the store; a new one begins at `begin`. Blocks.

        Raises: NoDataDir, FollowerFileError, StoreError, OSError.
        """
        directory = make_data_dir(options.data_dir)
        SideFiles(OsFiles(), directory).begin(f"{options.cluster_name}/{options.broker_group}")
        if begin and not ForeignLog.exists(options):
            begin_at(directory, OsFiles(), position=begin)
        host = host_of(options.listen.host, options.listen.port)
        store = open_store(options, store_host=host, clock=clock, cached_files=_CACHED_FILES, bare=True)
        log = store_options(options, store_host=host, disk_bytes=0, cached_files=0).log
        following = FollowOptions(
            segment_bytes=log.segment_bytes, overlap_bytes=max(log.window_bytes, _OVERLAP_BYTES),
            record_bytes_max=max(log.record_bytes_limit, log.batch_bytes_max),
        )  # fmt: skip
        return ForeignLog(store, following, on_commit=on_commit, on_failure=on_failure)

    @property
    def flush_seconds(self) -> Spread:
        """How long batches took to be on the disk."""
        return self._writer.seconds

    def append(self, runs: tuple[Run, ...]) -> None:
        """Take records as they came. Raises: RawRefused, StoreFull, StoreStopped; those before are appended then."""
        for run in runs:
            self.store.append_raw(run.data, run.after, end=run.end)
        if runs:
            self._pipeline.schedule()

    async def room(self) -> None:
        """Wait while much is not written yet."""
        while self.store.unwritten_bytes > _UNWRITTEN_BYTES_MAX and self._writer.failure is None:
            self._room.clear()
            await self._room.wait()

    async def settled(self) -> None:
        """Wait until everything appended is on the disk."""
        await self._pipeline.drained()

    def tick(self, now_ms: int) -> None:
        """About once a second."""
        self.store.tick()
        self.store.apply_retention(now_ms, self.store.committed_position)
        self._pipeline.schedule()

    async def close(self, *, orderly: bool, seconds: float) -> None:
        """End the writer; with `orderly` flush everything first. Raises: BrokerFailed if that did not work."""
        if orderly:
            await self._pipeline.drained()
        ended = await asyncio.to_thread(self._writer.stop, seconds)
        if orderly and ended:
            try:
                self.store.close()
            except (StoreError, OSError) as error:
                raise BrokerFailed(str(error)) from error

    def _written(self, batch: WriteBatch | None, error: BaseException | None) -> None:
        self._room.set()
        self._pipeline.done(batch, error)

    def _committed(self, touched: list[QueueLog], position: int) -> None:
        del touched, position
        self._on_commit()
