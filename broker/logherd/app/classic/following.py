"""The task that follows a RocketMQ master: ask what it is, compare, append, take its metadata; again when it ends.

What it cannot follow is told once in the log and always in the status, and tried again every few seconds: most of it
ends when a person has changed a setting or started the master. Only the log itself decides what may be appended.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from logherd.aiokit.tasks import TaskGuard
from logherd.app.classic.foreign_log import ForeignLog
from logherd.app.classic.master import Extent, Master, MasterUnfit
from logherd.app.classic.side_files import FollowerFileError, Pulled, SideFiles
from logherd.classic.master_feed import FollowOutput, MasterFeed
from logherd.client.errors import ClientError
from logherd.client.peers import Peers
from logherd.kit.clock import Clock
from logherd.net.errors import NetError
from logherd.service.metadata.rocketmq import AdoptionError
from logherd.settings.options import BrokerOptions
from logherd.store import RawRefused, StoreFull, StoreStopped
from logherd.store.files_os import OsFiles
from logherd.telemetry.log import Log
from logherd.wire.errors import WireError

__all__ = ["Following", "Progress"]

_RETRY_SECONDS = 3.0
_REFUSED_SECONDS = 60.0
"""What a log holds does not change soon."""
_CONNECT_SECONDS = 5.0
_STEP_SECONDS = 0.5
_READ_BYTES = 256 << 10
_EXPECTED = (
    AdoptionError, ClientError, FollowerFileError, MasterUnfit, NetError, OSError, StoreFull, ValueError, WireError,
)  # fmt: skip

_log = Log("logherd.classic")


class Progress(msgspec.Struct, kw_only=True, rename="camel"):
    """What `GET /status` tells. `master_position` is as of the last look at the master."""

    state: str = "asking"
    reason: str = ""
    master_position: int = -1
    metadata_ms: int = 0


class Following:
    """Belongs to the loop. `on_failure` hears of what must end the process."""

    def __init__(self, options: BrokerOptions, clock: Clock, *, on_failure: Callable[[BaseException], None]) -> None:
        self._options = options
        self._clock = clock
        self._on_failure = on_failure
        self._peers = Peers()
        self._master = Master(self._peers, str(options.replication.classic_ha.master))
        self._side = SideFiles(OsFiles(), Path(options.data_dir))
        self._feed: MasterFeed | None = None
        self._wire: asyncio.StreamWriter | None = None
        self._guard = TaskGuard(on_end=lambda ended: on_failure(ended.error or RuntimeError(f"{ended.name} ended")))
        self.log: ForeignLog | None = None
        self.progress = Progress()

    @property
    def follows(self) -> bool:
        """Whether the master's log is known to continue this one, and arrives."""
        return self._feed is not None and self._feed.compared

    def start(self) -> None:
        """Open a store that is there already, so that a wrong one is told at once; then follow.

        Raises: FollowerFileError, StoreError, OSError.
        """
        if ForeignLog.exists(self._options):
            self._open(0)
        self._guard.start("follow", self._follow())
        self._guard.start("ticks", self._ticks())

    async def close(self, *, orderly: bool, seconds: float) -> None:
        """Stop following. Raises: BrokerFailed if the last flush fails."""
        await self._guard.stop(seconds)
        await self._peers.close()
        if self.log is not None:
            await self.log.close(orderly=orderly, seconds=seconds)

    # ---- tasks

    async def _follow(self) -> None:
        while True:
            pause = _RETRY_SECONDS
            try:
                await self._follow_once()
            except _EXPECTED as error:
                self._tell("waiting", str(error))
            except RawRefused as error:
                self._tell("refused", str(error))
                pause = _REFUSED_SECONDS
            await asyncio.sleep(pause)

    async def _ticks(self) -> None:
        """Retention, and the master's metadata, which fails on its own: the log goes on without."""
        due = 0
        while True:
            await asyncio.sleep(1)
            now = self._clock.monotonic_ms()
            if self.log is None:
                continue
            self.log.tick(self._clock.now_ms())
            if now >= due and self.follows:
                due = now + self._options.replication.classic_ha.metadata_interval_ms
                try:
                    await self._pull()
                except _EXPECTED as error:
                    _log.warning("metadata of the master not taken", master=self._master.address, cause=error)

    async def _pull(self) -> None:
        feed = self._feed
        extent = await self._master.extent()
        files = await self._master.config()
        if feed is not self._feed:  # another process may have answered, whose log is not known to be this one
            raise MasterUnfit("the connection was lost meanwhile")
        now = self._clock.now_ms()
        pulled = Pulled(pulled_ms=now, master_end=extent.end, files=files)
        await asyncio.to_thread(self._side.keep_pulled, pulled)
        self.progress.master_position, self.progress.metadata_ms = extent.end, now

    # ---- one connection

    async def _follow_once(self) -> None:
        options = self._options
        told = await self._master.settings(
            cluster=options.cluster_name, group=options.broker_group, segment_bytes=options.store.segment_bytes
        )
        extent = await self._master.extent()
        if extent.begin % told.segment_bytes:
            raise MasterUnfit(f"the master's log begins at {extent.begin}, where none of its files can")
        self.progress.master_position = extent.end
        log = self.log or self._open(extent.begin)
        await log.settled()
        _check_extent(log, extent)
        host = self._master.address.rpartition(":")[0].strip("[]")
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(host, told.ha_port, limit=_READ_BYTES)
        try:
            await self._transfer(log, extent.begin, reader, writer)
        finally:
            self._feed = self._wire = None
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _transfer(
        self, log: ForeignLog, begin: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        feed = self._feed = MasterFeed(log.store, log.options, self._clock.monotonic_ms(), master_begin=begin)
        self._wire = writer
        self._tell("following" if feed.compared else "comparing")
        self._carry_out(feed.begin(self._clock.monotonic_ms()))
        while True:
            data = await _arrived(reader)
            if data is None:
                raise ConnectionError(f"the master {self._master.address} closed the connection")
            self._carry_out(feed.step(data, self._clock.monotonic_ms()))
            if feed.compared and self.progress.state == "comparing":
                self._tell("following")
            await log.room()

    def _carry_out(self, output: FollowOutput) -> None:
        if self.log is not None:
            self._append(self.log, output)
        if output.report and self._wire is not None:
            self._wire.write(output.report)
        if output.diverged:
            raise RawRefused(output.fault)
        if output.fault:
            raise MasterUnfit(output.fault)

    def _append(self, log: ForeignLog, output: FollowOutput) -> None:
        try:
            log.append(output.runs)
        except StoreStopped as error:
            self._on_failure(error)
            raise MasterUnfit(str(error)) from error

    def _committed(self) -> None:
        """Records are on the disk now: say so."""
        if self._feed is not None and self._wire is not None:
            self._wire.write(self._feed.written(self._clock.monotonic_ms()))

    def _open(self, begin: int) -> ForeignLog:
        log = ForeignLog.open(
            self._options, self._clock, begin=begin, on_commit=self._committed, on_failure=self._on_failure
        )
        self.log = log
        return log

    def _tell(self, state: str, reason: str = "") -> None:
        progress = self.progress
        again = (state, _words(reason)) == (progress.state, _words(progress.reason))
        progress.state, progress.reason = state, reason
        if again:
            return
        end = self.log.store.end_position if self.log is not None else None
        say = _log.warning if reason else _log.info
        say("following a master", master=self._master.address, state=state, position=end, reason=reason or None)


def _words(reason: str) -> str:
    """Without its numbers, which are others each time where a master's log grows."""
    return "".join(filter(lambda each: not each.isdigit(), reason))


def _check_extent(log: ForeignLog, extent: Extent) -> None:
    """Raises: MasterUnfit where the protocol would be silent for ever."""
    end = log.store.end_position
    if extent.end < end:
        raise MasterUnfit(
            f"the master's log ends at {extent.end}, this one at {end}: it lost its end in a crash, or is another log. "
            "Promote this store, or begin with an empty one"
        )
    if extent.begin > end:
        raise MasterUnfit(
            f"the master's log begins at {extent.begin}, this one ends at {end}: what lies between was deleted. Begin "
            "with an empty store"
        )
    if extent.begin == end > log.store.min_position:
        raise MasterUnfit(
            f"the master's log begins at {extent.begin}, where this one ends: nothing is left to compare. Begin "
            "with an empty store"
        )


async def _arrived(reader: asyncio.StreamReader) -> bytes | None:
    """What the master has sent, nothing if it is silent for a moment, None at the end."""
    try:
        async with asyncio.timeout(_STEP_SECONDS):
            return await reader.read(_READ_BYTES) or None
    except TimeoutError:
        return b""
