"""A broker process whose store is damaged: no port for clients, no part in its group, until the store is healed.

At the peers' port it gives what is whole here: others may be damaged, too, at other places.
It ends then, to be started again: no process goes on over files that were changed under it.
"""

import asyncio
import os
from collections.abc import Callable

from logherd.aiokit.tasks import TaskEnded, TaskGuard
from logherd.app.admin_http import AdminHttp
from logherd.app.admin_routes import Routes
from logherd.app.binding import CannotListen, bind
from logherd.app.clock import SystemClock
from logherd.app.engine import BrokerFailed
from logherd.app.group.enrolled import ask_enrolled
from logherd.app.group.giving import PIECE_BYTES
from logherd.app.group.healing import Healer
from logherd.app.group.muster import Muster
from logherd.app.group.replica_file import ReplicaFile, ReplicaFileError
from logherd.app.group.roster import read_roster
from logherd.app.metrics.healing import read_healing
from logherd.app.metrics.parts import read_build
from logherd.app.metrics.text import scrape_of
from logherd.app.opening import open_store
from logherd.controller.values import GroupKey
from logherd.model.host import encode_host
from logherd.peers.options import LinkOptions
from logherd.peers.pieces import Asked, Given, PieceServer, PieceSource, encode_piece
from logherd.settings.options import BrokerOptions
from logherd.store.damage_note import noted_damage
from logherd.store.errors import StoreDamaged, StoreFull, StoreInUse
from logherd.store.files import Lock
from logherd.store.files_os import OsFiles
from logherd.store.pieces import Kept, PieceState, read_piece
from logherd.telemetry.log import Log
from logherd.telemetry.metrics import Readings

__all__ = ["Healed", "Healing", "can_heal", "must_heal"]

_log = Log("logherd.group")

_STOP_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
_CACHED_FILES = 64


class Healed(BrokerFailed):
    """The store is whole, or another one: the next process goes on with it."""

    starts_again = True


def can_heal(options: BrokerOptions) -> bool:
    """Whether there are others to fetch from."""
    replication = options.replication
    return replication.mode != "alone" and any(number != options.broker_id for number in replication.peers)


def must_heal(options: BrokerOptions) -> bool:
    """Whether an earlier process has met damage."""
    return can_heal(options) and bool(noted_damage(OsFiles(), options.data_dir))


class Healing:
    """Made by `start`; belongs to the loop on which it was started."""

    def __init__(self, options: BrokerOptions, on_failure: Callable[[], None]) -> None:
        self._options = options
        self._on_failure = on_failure
        self._failure: BrokerFailed | None = None
        self._started_ms = SystemClock().now_ms()
        self._guard = TaskGuard(on_end=self._ended)
        self._lock: Lock | None = None
        self._reading = asyncio.Lock()
        """However many ask, one piece is read at a time: the healing needs threads, too."""
        links = LinkOptions()
        self._pieces = PieceServer(self._give, seconds=_ANSWER_SECONDS, connections_max=links.accepted_max)
        self._sources = [
            PieceSource(
                str(number), (each.host, each.port), frame_bytes_max=links.frame_bytes_max, seconds=_ANSWER_SECONDS
            )
            for number, each in options.replication.peers.items() if number != options.broker_id
        ]  # fmt: skip
        self._group = GroupKey(options.cluster_name, options.broker_group)
        self._healer = Healer(
            OsFiles(), options.data_dir, str(self._group), options.broker_id, self._sources,
            identity=self._identity, unlock=self._unlock, try_open=self._try_open,
        )  # fmt: skip
        pages = {"/status": self.status, "/health": lambda: (200, {"healthy": True}), "/ready": self._ready}
        self._admin = AdminHttp(Routes(pages, scrape=scrape_of(self._collect)))

    @staticmethod
    async def start(options: BrokerOptions, *, on_failure: Callable[[], None]) -> "Healing":
        """Begin. `on_failure` hears once that it has ended; `check` then tells how.

        Raises: CannotListen, StoreInUse, OSError; nothing is left open or running then.
        """
        healing, admin = Healing(options, on_failure), options.admin_listen
        lock = OsFiles().lock(f"{options.data_dir}/lock")
        if lock is None:
            raise StoreInUse(f"another process holds {options.data_dir}/lock")
        healing._lock = lock
        try:
            await healing._admin.start(admin.host, admin.port)
        except OSError as error:
            lock.release()
            raise CannotListen(f"adminListen {admin}: {error.strerror}") from error
        try:
            listening = bind(options.replication.peer_listen, "replication.peerListen")
            await healing._pieces.listen_on(listening)
        except BaseException:
            await healing.abandon()
            raise
        healing._guard.start("heal", healing._run())
        return healing

    def addresses(self) -> dict[str, str]:
        """None: nobody is to come here."""
        return {}

    def check(self) -> None:
        """Raises: Healed, or BrokerFailed if a person has to look."""
        if self._failure is not None:
            raise self._failure

    def fail(self, error: BaseException) -> None:
        """It cannot go on."""
        self._end(BrokerFailed(f"{type(error).__name__}: {error}"))

    async def stop(self) -> None:
        """Stop in the middle: what is mended stays so, and the next process goes on."""
        await self.abandon()

    async def abandon(self) -> None:
        """Let go of everything."""
        self._admin.close()
        self._pieces.close()
        await self._guard.stop(_STOP_SECONDS)
        for source in self._sources:
            source.close()
        self._unlock()

    # ---- inside ----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        places = noted_damage(OsFiles(), self._options.data_dir)
        _log.warning(
            "this replica heals: it takes no part in its group until its log is whole",
            damage="; ".join(f"{each.path} at byte {each.offset}: {each.what}" for each in places),
        )
        self._healer.muster = await asyncio.to_thread(self._muster)
        await self._healer.run()
        self._end(Healed(f"its log is whole again, {self._healer.progress.fetched_bytes} bytes were fetched"))
        await asyncio.Event().wait()

    def _end(self, how: BrokerFailed) -> None:
        if self._failure is None:
            self._failure = how
            self._on_failure()

    def _ended(self, ended: TaskEnded) -> None:
        self.fail(ended.error or RuntimeError(f"the task {ended.name} ended"))

    async def _give(self, asked: Asked) -> tuple[bytes, bytes] | None:
        found = self._healer.found
        if found is None or asked.cluster != str(self._group):
            return None
        kept = Kept(found.log_start, found.committed, found.log_end)
        try:
            async with self._reading:
                piece = await asyncio.to_thread(
                    read_piece, OsFiles(), self._options.data_dir, asked.ask, kept, bytes_max=PIECE_BYTES
                )
        except (StoreDamaged, OSError):
            return None
        log_end = found.log_end if piece.state is PieceState.NOT_YET else None
        known = self._healer.muster.known
        return encode_piece(Given(state=piece.state, end=piece.end, log_end=log_end, knows=known)), piece.data

    def _muster(self) -> Muster:
        """Who belongs to the group, as far as an earlier process knew. Blocks."""
        options, replication = self._options, self._options.replication
        try:
            roster = read_roster(OsFiles(), options.data_dir)
            epoch = self._identity().promise.epoch
        except (ReplicaFileError, StoreFull, OSError) as error:  # it may heal all the same
            _log.warning("this replica heals without knowing who belongs to the group", reason=error)
            return Muster(options.broker_id, None)
        if replication.mode != "controller":
            return Muster(options.broker_id, roster, epoch=epoch)
        return Muster(
            options.broker_id, roster, enrolled=lambda: ask_enrolled(replication.controllers, self._group), epoch=epoch
        )  # fmt: skip

    def _identity(self) -> ReplicaFile:
        options = self._options
        return ReplicaFile.open(
            OsFiles(), options.data_dir, self._group, options.broker_id, log_empty=False, mode=options.replication.mode
        )  # fmt: skip

    def _try_open(self) -> None:
        store = open_store(
            self._options, store_host=encode_host("127.0.0.1", 0), clock=SystemClock(), cached_files=_CACHED_FILES
        )
        store.close()

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    # ---- pages -----------------------------------------------------------------------------------------------------

    def status(self) -> tuple[int, object]:
        """What is damaged, what is being fetched, how far it is."""
        options, progress, found = self._options, self._healer.progress, self._healer.found
        committed = found.committed if found is not None else 0
        return 200, {
            "group": options.broker_group,
            "cluster": options.cluster_name,
            "epoch": 0,
            "brokerId": options.broker_id,
            "role": "healing",
            "address": "",
            "pid": os.getpid(),
            "ready": False,
            "endPosition": committed,
            "committedPosition": committed,
            "startedAt": self._started_ms,
            "fault": self._fault(),
            "recoveringBytes": max(progress.log_bytes - progress.read_bytes, 0),
            "replication": None,
            "healing": {
                "doing": progress.doing,
                "readBytes": progress.read_bytes,
                "logBytes": progress.log_bytes,
                "damagedRanges": progress.damaged_ranges,
                "damagedBytes": progress.damaged_bytes,
                "fetchedBytes": progress.fetched_bytes,
                "position": progress.at,
                "said": progress.said,
                "nobodyHas": progress.nobody_has,
                "unkept": progress.unkept,
            },
        }

    def _fault(self) -> str:
        progress = self._healer.progress
        if progress.unkept:
            return progress.unkept
        if not progress.nobody_has:
            mends, vain = "its log is damaged and is being mended", progress.in_vain
            return f"{mends}; nobody gives what is at position {progress.at} yet ({vain})" if vain else mends
        return (
            f"its log is damaged at position {progress.at}, and no broker of its group has that whole; it waits until "
            'what has it is brought back, or it is given up: see "Damage that all have" in docs/stores.md'
        )

    def _ready(self) -> tuple[int, object]:
        return 503, {"ready": False}

    def _collect(self) -> Readings:
        readings = Readings()
        read_build(readings, ready=False, healthy=True)
        read_healing(readings, self._healer.progress.damaged_bytes, self._healer.progress.fetched_bytes)
        return readings
