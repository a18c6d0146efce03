"""The log and the metadata of one replica of a group: what a replicated broker is without its ports.

It is to the broker what `app.engine.Engine` is to one that is alone. Here it is decided what each event of the replica
means for everything that is derived from the log, and for clients.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from logherd.aiokit.tasks import TaskGuard
from logherd.app.binding import bind
from logherd.app.clock import boot_ms
from logherd.app.engine import BrokerFailed, Flushes
from logherd.app.group import news
from logherd.app.group.beginning import (
    LogContradicted,
    MustAcceptBare,
    MustStartAgain,
    begin_anew,
    failure_of,
    renew_if_lost,
)
from logherd.app.group.damages import Damages, MustHeal
from logherd.app.group.giving import Giving
from logherd.app.group.leadership import GroupLeadership
from logherd.app.group.links import GroupLinks
from logherd.app.group.making import Opened, make_mode
from logherd.app.group.mode import Host, Mode
from logherd.app.group.replica import Replica
from logherd.app.group.replica_file import ReplicaFile
from logherd.app.group.scrubbing import scrub_forever
from logherd.app.group.standing import Standing
from logherd.app.group.unflushed import Unflushed
from logherd.app.guarded.keeper import LeaseKeeper
from logherd.app.linger import Linger
from logherd.app.opening import open_store
from logherd.app.option_values import defaults_options
from logherd.controller.values import BrokerId, GroupKey, Rules
from logherd.group.inputs import ReadWanted
from logherd.group.output import (
    Cut,
    Drained,
    Draining,
    Event,
    Fenced,
    Following,
    Leading,
    MustRebuild,
    Resumed,
    Serving,
)
from logherd.group.seat import Seat
from logherd.kit.clock import Clock
from logherd.model.names import Epoch, Position
from logherd.peers.options import PeerView
from logherd.service.metadata import Metadata, MetadataRefusedError, StoreLog, barriers
from logherd.service.metadata.defaults import ensure_defaults
from logherd.settings.options import BrokerOptions
from logherd.store import MessageStore, QueueLog, StoreDamaged, StoreError, StoreFull, accept_bare
from logherd.store.files_os import OsFiles
from logherd.telemetry.log import Log

__all__ = ["GroupEngine"]

_log = Log("logherd.group")

_FILES = OsFiles()
_HAND_OVER_SECONDS = 10.0
_ACCOUNT_SECONDS = 1.0


class _Owner(NamedTuple):
    """What the broker around it wants to hear."""

    on_answer: Callable[[int], None]
    on_commit: Callable[[list[QueueLog]], None]
    on_failure: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Kept:
    """What a replica remembers beside its log."""

    file: ReplicaFile
    unflushed: Unflushed


class GroupEngine:
    """Belongs to the loop on which it was made. It is the `Duties` of its replica."""

    def __init__(
        self, options: BrokerOptions, store: MessageStore, kept: Kept, *, address: str,
        store_host: bytes, clock: Clock, keeper: LeaseKeeper, on_answer: Callable[[int], None],
        on_commit: Callable[[list[QueueLog]], None], on_failure: Callable[[], None],
    ) -> None:  # fmt: skip
        self.store = store
        self._options = options
        self._kept = kept
        file = kept.file
        log = StoreLog(store, clock, host=store_host)
        self.metadata = Metadata.follow(log, clock, committed=store.committed_position)
        seat = Seat(
            group=file.group, broker_id=BrokerId(file.broker_id), store_id=file.store_id,
            incarnation=keeper.incarnation, address=address, learner=options.replication.learner,
            trusted=kept.unflushed.trusted, priority=options.replication.priority,
            rules=Rules(replicas=options.replication.replicas, min_in_sync=options.replication.min_in_sync),
        )  # fmt: skip
        made = make_mode(options, seat, file, Opened(store, barriers(log), clock, store_host), keeper=keeper)
        self.replica = Replica(made.mode, made.log, file, duties=self, flush=options.flush)
        self.linger = Linger(self.replica.schedule, asyncio.get_running_loop().call_later)
        self.standing = Standing(GroupLeadership(self._expire), keeper, store, made.mode)
        giving = Giving(_FILES, options.data_dir, store, made.mode, epochs=lambda: made.log.epochs)
        made.log.on_damage = giving.damages.withheld
        self._links = GroupLinks(self.replica, options.replication, store, options.store.segment_bytes, giving)
        self._owner = _Owner(on_answer, on_commit, on_failure)
        self._failure: BrokerFailed | None = None
        self.segments_deleted = 0
        self._drained = asyncio.Event()

    @staticmethod
    def open(
        options: BrokerOptions, *, address: str, store_host: bytes, clock: Clock, cached_files: int,
        keeper: LeaseKeeper, on_answer: Callable[[int], None], on_commit: Callable[[list[QueueLog]], None],
        on_failure: Callable[[], None],
    ) -> "GroupEngine":  # fmt: skip
        """Open and recover the store and what is committed of the metadata; blocks.

        Raises: StoreError, ReplicaFileError, MetadataError, OSError; the store is closed then. A damaged one is for
        `healing` if there are others to fetch from.
        """
        group = GroupKey(options.cluster_name, options.broker_group)
        renew_if_lost(_FILES, options.data_dir)
        store = open_store(options, store_host=store_host, clock=clock, cached_files=cached_files)
        try:
            file = ReplicaFile.open(
                _FILES, options.data_dir, group, options.broker_id,
                log_empty=store.end_position == store.min_position == 0, mode=options.replication.mode,
            )  # fmt: skip
            unflushed = Unflushed.open(_FILES, options.data_dir, flush=options.flush)
            if not unflushed.trusted:
                _log.warning("the machine went down before all of this store was flushed", flush=options.flush)
            return GroupEngine(
                options, store, Kept(file, unflushed), address=address, store_host=store_host, clock=clock,
                keeper=keeper, on_answer=on_answer, on_commit=on_commit, on_failure=on_failure,
            )  # fmt: skip
        except BaseException:
            store.close()
            raise

    # ---- life -----------------------------------------------------------------------------------------------------

    @property
    def store_id(self) -> str:
        """What the data directory drew when it was made."""
        return self._kept.file.store_id

    @property
    def fault(self) -> str:
        """Why this replica cannot write; empty if it can."""
        if self.replica.failure is not None:
            return f"the store has failed: {self.replica.failure}"
        return "a flush has been waiting for too long" if self.mode.stalled else ""

    @property
    def healthy(self) -> bool:
        """Whether writing goes on."""
        return self.replica.failure is None and not self.mode.stalled

    @property
    def mode(self) -> Mode:
        """What differs between the modes of a group."""
        return self.replica.mode

    @property
    def damages(self) -> Damages:
        """What of the store is not as it was written."""
        return self._links.giving.damages

    @property
    def leadership(self) -> GroupLeadership:
        """This replica's role, for forwarding."""
        return self.standing.leadership

    def schedule(self) -> None:
        """Say that something may have been appended in this pass."""
        self.replica.schedule()

    @property
    def epoch(self) -> int:
        """The highest epoch that is known here."""
        return self.replica.machine.epoch

    @property
    def flushes(self) -> Flushes:
        """How long batches of the log took, and how large they were."""
        return self.replica.disk.flushes

    def peers(self) -> tuple[PeerView, ...]:
        """The other replicas as their links are now."""
        return self._links.views()

    async def begin(self, guard: TaskGuard) -> None:
        """Listen for the other replicas and look for whoever tells who leads. Raises: CannotListen."""
        links, replica = self._links, self.replica
        await links.open(bind(self._options.replication.peer_listen, "replication.peerListen"), guard)
        self.mode.start(Host(replica.step, replica.fail, links.join, links.announce, links.linked), guard)
        replica.start()
        guard.start("heal", self._leave_to_heal())
        guard.start("unflushed", self._account(), eternal=False)
        guard.start("scrub", scrub_forever(_FILES, self._options.data_dir, self.store, self.damages))

    @property
    def peer_address(self) -> str:
        """Where the other replicas reach this one, as it was bound."""
        return self._links.address

    def check(self) -> None:
        """Raises: BrokerFailed if the store has failed, or this replica has to begin anew."""
        if self._failure is not None:
            raise self._failure

    def fail(self, error: BaseException) -> None:
        """End the writing life of this process."""
        self.replica.fail(error)
        self._settle_failure(self.replica.failure)

    def tick(self) -> None:
        """About once a second: what follows time instead of traffic."""
        self.store.tick()
        if self.metadata.is_late and self.replica.failure is None:
            self._read_on()
        self.mode.tick()
        self.schedule()
        news.complaints.tell()

    def follow_settings(self, options: BrokerOptions) -> None:
        """Go by the settings of these options that can change while a replica runs."""
        self._options = options
        self.mode.retime(options.replication)

    def apply_retention(self, now_ms: int) -> None:
        """Every 2 s or so: let old segments go, and make room for that when metadata holds them (H2)."""
        log, metadata = self.replica.log, self.metadata
        first = self.store.min_position
        needed, pinned = metadata.pinned_position, self.mode.pinned
        count = log.apply_retention(now_ms, Position(needed) if pinned is None else min(Position(needed), pinned))
        if count:
            self.segments_deleted += count
            metadata.topics.forget_deletions(self.store.min_position)
            _log.info("segments deleted", count=count, from_position=first, to_position=self.store.min_position)
        elif metadata.pinned_position < first + self._options.store.segment_bytes < self.store.end_position:
            metadata.request_snapshot()

    async def hand_over(self, seconds: float) -> None:
        """Before a planned stop: give leadership to somebody, or leave the in-sync set, and wait for it that long."""
        if self.replica.failure is None:
            self.replica.drain()
            try:
                async with asyncio.timeout(seconds):
                    await self._drained.wait()
            except TimeoutError:
                _log.warning("stopping although the group has not let this replica go", seconds=seconds)

    async def close(self, *, orderly: bool, seconds: float) -> None:
        """End the writer; with `orderly` flush everything first and mark the store as closed in order.

        A disk that fails at that is told by `check`.
        """
        await self._links.stop()
        news.complaints.tell(ending=True)
        flushed = False
        if orderly and self.replica.failure is None:
            try:
                async with asyncio.timeout(seconds):
                    await self.replica.flushed()
                flushed = self.replica.failure is None
            except TimeoutError:
                _log.warning("stopping although not everything here is flushed", seconds=seconds)
        self.standing.keeper.release()
        ended = await self.replica.stop(seconds)
        self._settle_failure(self.replica.disk.failure)  # the replica, which was stopped, did not hear of it
        again = self._failure if isinstance(self._failure, MustStartAgain | MustAcceptBare) else None
        if ended and (orderly or again is not None):
            try:
                self.store.close()
                if flushed and self._failure is None:
                    self._kept.unflushed.end(accounted=self.mode.accounted)
                if isinstance(again, MustAcceptBare):
                    accept_bare(Path(self._options.data_dir), _FILES, end=again.end)
                elif again is not None:
                    begin_anew(_FILES, self._kept.file, again)
            except (StoreError, OSError) as error:
                self._failure = BrokerFailed(f"{type(error).__name__}: {error}")
        elif ended:
            self.store.abandon()

    # ---- duties ---------------------------------------------------------------------------------------------------

    def before_batch(self) -> None:
        """See Duties."""
        self.metadata.end_pass()
        self.linger.left()

    def hold(self) -> bool:
        """See Duties."""
        return self.linger.hold()

    @property
    def unfinished(self) -> bool:
        """See Duties."""
        return self.metadata.unfinished

    @property
    def may_lead(self) -> bool:
        """See Duties."""
        return not self.metadata.is_late

    def answer(self, position: int) -> None:
        """See Duties."""
        self._owner.on_answer(position)

    def committed(self, touched: list[QueueLog], position: Position) -> None:
        """See Duties: what is derived first, then whoever waits."""
        self.metadata.advance(position)
        if self.standing.shut:
            self.standing.reconsider()
        self._owner.on_commit(touched)

    def may_answer(self) -> bool:
        """Whether an answer about something committed may leave at this moment (R1)."""
        return self.replica.serving() is not None

    def readable(self) -> int | None:
        """Up to where this follower may answer pulls itself at this moment; None: the leader must."""
        replica = self.replica
        if replica.failure is not None or self.metadata.is_late:
            return None
        position = replica.machine.readable(boot_ms())
        replica.step(ReadWanted())
        return position if position is not None and self.store.committed_position >= position else None

    def take(self, event: Event) -> bool:
        """See Duties."""
        news.log_event(event)
        match event:
            case Leading():
                return self._lead(event.epoch)
            case Serving():
                self.standing.will_serve(event.epoch)
            case Resumed():
                self.standing.will_resume(event.epoch)
            case Fenced():
                self.standing.fence()
                if self.replica.machine.leads != event.epoch:  # none, or a later one, of which it hears next
                    self.metadata.demote()
            case Draining():
                self.standing.drain(event.epoch)
            case Following():
                self.standing.will_follow(event)
            case Cut():
                self.metadata.cut(event.at)
            case MustRebuild():
                raise LogContradicted(event.committed, event.leader)
            case Drained():
                self._drained.set()
            case _:
                pass
        return False

    def settle(self) -> None:
        """See Duties: the role of which the step told, once what it stands on is in place."""
        if self.replica.failure is not None:
            self._settle_failure(self.replica.failure)
            return
        self.standing.settle()

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _lead(self, epoch: Epoch) -> bool:
        """Append the barrier, and the defaults of a new group behind it. What finds no room is left out, and so is all
        where metadata cannot be read now: the machine gives a leadership without a barrier up."""
        self.replica.log.begin_epoch(epoch)
        try:
            self.metadata.promote(epoch, incarnation=self._kept.file.store_id)
            ensure_defaults(self.metadata, defaults_options(self._options))
        except MetadataRefusedError as error:
            if not isinstance(error.__cause__, StoreFull | OSError):
                raise
            self.replica.log.give_epoch_up()
            _log.warning("what a leader appends first was not appended", epoch=epoch, reason=str(error))
        return True

    async def _account(self) -> None:
        """After a crash of the machine: once it is known what that has cost, only the next one matters."""
        if self._kept.unflushed.trusted:
            return
        done = False
        while not done:
            await asyncio.sleep(_ACCOUNT_SECONDS)
            if self.mode.accounted:
                with suppress(StoreFull, OSError):  # the mark of before is right, too; that disk fails its writer first
                    await asyncio.to_thread(self._kept.unflushed.account)
                    done = True

    async def _leave_to_heal(self) -> None:
        await self.damages.time_to_heal()
        if self.damages.stopped is None:
            await self.hand_over(_HAND_OVER_SECONDS)
        self.fail(self.damages.stopped or MustHeal(f"damage was met at {self.damages.count} places of its store"))
        await asyncio.Event().wait()

    def _read_on(self) -> None:
        try:
            self.metadata.advance(self.store.committed_position)
        except Exception as error:  # a log that cannot go on; nothing may be raised in the loop's tick
            self.fail(error)

    def _expire(self) -> None:
        if not self.may_answer():
            self.replica.look()

    def _settle_failure(self, error: BaseException | None) -> None:
        if self._failure is not None or error is None:
            return
        if isinstance(error, StoreDamaged):
            self.damages.found(error)
            error = self.damages.stopped or error
        self._failure = failure_of(error)
        self.standing.fence()
        self._owner.on_failure()
