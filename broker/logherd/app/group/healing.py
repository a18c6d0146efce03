"""How a replica heals: its log is read in full, and what is damaged is fetched from the others of its group.

Meanwhile it is no replica: it has no name among them, acknowledges nothing, cannot be elected and does not vote. So to
the group it is down, and what it once acknowledged stays owed: if it is the only one left that could lead, nobody
leads until another one is back. Once healed it holds again what it acknowledged, byte for byte, and is the store that
it was.

Two kinds of damage cannot be healed so, and make it another store, of which nothing that it acknowledged counts:

* above what is known here to be committed nobody can say which bytes belong there: the log is cut before them (a copy
  stays in `dropped/`), and the leader ships it again;
* if no file of the log is left, or the leader's log is another one here or begins behind its committed end, all is set
  aside and copied anew.

What others have deleted, because it was old, need not be mended, and maybe nobody has it any more. If nobody that
answers gives it, and the leader has deleted it, this log begins where the leader's does. Without a leader it begins
where one of the others does if all of them are there (`muster.py` says who they are), and none may hold it.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from msgspec.structs import replace

from logherd.app.group.beginning import set_aside
from logherd.app.group.muster import Muster
from logherd.app.group.replica_file import ReplicaFile
from logherd.peers.errors import PeerError
from logherd.peers.pieces import Asked, Given
from logherd.store import RawRefused, StoreDamaged, begin_later
from logherd.store.damage_note import forget_damage, noted_damage
from logherd.store.files import Files
from logherd.store.mending import Damage, Survey, further_behind, mend, restore_files, survey
from logherd.store.pieces import PieceAsk, PieceState
from logherd.store.repair import repair_files
from logherd.telemetry.log import Log

__all__ = ["Healer", "Progress", "Source"]

_log = Log("logherd.group")

_BYTES_PER_SECOND = 32 << 20
"""At most so fast, so that whoever gives is not hurt."""
_ROUND_SECONDS = 0.5
_DELETED_SECONDS = 5.0
"""So long all must have said that it is gone: somebody may be about to lead, or to come back."""
_MENDS_MAX = 3
_UNKEPT_SECONDS = 600.0
"""What was mended so often and is damaged again the disk does not keep: then all else is mended first, and after that
the log is read in full, and mended, only as often as this."""
_DERIVED = ("consumequeue", "index", "queues")
_ANSWERS = frozenset(str(each) for each in PieceState)
_REFUSED = "gives what does not belong there"


class Source(Protocol):
    """Another replica."""

    name: str

    async def ask(self, asked: Asked) -> tuple[Given, bytes]:
        """Raises: PeerError."""


@dataclass(slots=True)
class Progress:
    """For GET /status and metrics. Bytes and positions of the log.

    `doing`: reading the log, fetching damaged ranges, waiting for somebody who has them or a disk that may keep them by
    then, or opening what is whole.
    `said`: what each broker said when it was last asked in vain. `nobody_has`: all were asked, and what is damaged
    here at `at` is damaged there, too, or not there; without bytes from elsewhere that stays so.
    `unkept`: what is damaged again each time it was mended, for people; "" if nothing is.
    """

    doing: Literal["reading", "fetching", "waiting", "opening"] = "reading"
    read_bytes: int = 0
    log_bytes: int = 0
    damaged_ranges: int = 0
    damaged_bytes: int = 0
    fetched_bytes: int = 0
    at: int | None = None
    said: dict[str, str] = field(default_factory=dict)
    nobody_has: bool = False
    unkept: str = ""

    def read(self, done: int, whole: int) -> None:
        """So far the log was read. Called on another thread."""
        self.read_bytes, self.log_bytes = done, whole

    @property
    def in_vain(self) -> str:
        """What who was asked says of the place that is waited for, for people; "" if nobody is waited for."""
        asked = {name: words for name, words in self.said.items() if name.isdecimal()}
        if self.doing != "waiting" or not asked:
            return ""
        told = [f"broker {name}: {words}" for name, words in asked.items() if _is_answer(words)]
        silent = [name for name, words in asked.items() if not _is_answer(words)]
        return "; ".join([*told, f"no answer from {', '.join(silent)}"] if silent else told)


def _is_answer(words: str) -> bool:
    return words in _ANSWERS or words.startswith(_REFUSED)


class _Stopped(Exception):
    """Nobody waits any more for what a thread reads."""


class _Superseded(Exception):
    """The group's leader holds another log, or one that begins behind this one."""


class Healer:
    """Heals the closed store of one replica. Belongs to a loop; what blocks runs on threads, one at a time."""

    def __init__(
        self, files: Files, root: str, cluster: str, broker_id: int, sources: Sequence[Source], *,
        identity: Callable[[], ReplicaFile], unlock: Callable[[], None], try_open: Callable[[], None],
    ) -> None:  # fmt: skip
        """`identity` reads the replica's file; `unlock` lets go of the store's lock, for whoever takes it next;
        `try_open` opens the store and closes it again, or raises StoreDamaged."""
        self._files = files
        self._root = root
        self._asker = (cluster, str(broker_id))
        self._sources = list(sources)
        self._identity = identity
        self._unlock = unlock
        self._try_open = try_open
        self._committed = 0
        self._stopped = False
        self.muster = Muster(broker_id, None)
        """Set before it runs, if more is known."""
        self.progress = Progress()
        self.found: Survey | None = None
        """What the latest survey saw."""

    async def run(self) -> None:
        """Until the store can be opened. Raises: StoreError, ReplicaFileError, OSError: a person has to look."""
        try:
            await self._mend_all()
            await self._settle()
        except asyncio.CancelledError:
            self._stopped = True
            raise
        except (StoreDamaged, _Superseded) as error:
            _log.warning("this store is not to be mended", reason=error)
            await asyncio.to_thread(self._set_aside, str(error))
        await asyncio.to_thread(forget_damage, self._files, self._root)
        _log.info("the log is whole again", fetched_bytes=self.progress.fetched_bytes)

    # ---- what is committed ---------------------------------------------------------------------------------------

    async def _mend_all(self) -> None:
        for path in await asyncio.to_thread(restore_files, self._files, self._root):
            _log.warning("a file of the log was missing, short or too long; what is lacking is fetched", file=path)
        mended: Counter[int] = Counter()
        while True:
            self.progress.doing = "reading"
            found = self.found = await asyncio.to_thread(
                survey, self._files, self._root, progress=self._read
            )  # fmt: skip
            self._committed, damages = found.committed, found.mendable
            unkept = [each for each in damages if mended[each.start] >= _MENDS_MAX]
            self.progress.unkept = _unkept(unkept[0]) if unkept else ""
            if not damages:
                return
            self.progress.damaged_ranges = len(damages)
            self.progress.damaged_bytes = sum(each.end - each.start for each in damages)
            others = [each for each in damages if each not in unkept]
            if not others:
                _log.error("the disk does not keep what mends the log", reason=self.progress.unkept)
                self.progress.doing, self.progress.said = "waiting", {}
                await asyncio.sleep(_UNKEPT_SECONDS)
            for damage in others or unkept:
                if not await self._mend(damage):
                    break  # the log begins later by now, maybe behind more of them
                mended[damage.start] += 1

    def _read(self, done: int, whole: int) -> None:
        """On another thread, with each file of the log. Raises: _Stopped, for the process ends when its threads do."""
        if self._stopped:
            raise _Stopped
        self.progress.read(done, whole)

    async def _mend(self, damage: Damage) -> bool:
        """Whether the range is whole now; else it is no part of the log any more."""
        at, end = damage.start, min(damage.end, self._committed)
        _log.warning(
            "damage in the log", file=damage.path, from_position=at, to_position=end, bytes=end - at, what=damage.what
        )
        progress, after = self.progress, damage.after
        if after is not None and after.end > self._committed:
            after = None  # others may have another record there, and this one proves nothing
        while at < end:
            progress.at = at
            ask = PieceAsk(start=at, end=end, before=damage.before, after=after)
            fetched = await self._fetch(ask)
            if fetched is None:
                return False
            source, given, data = fetched
            progress.doing = "fetching"
            try:
                await asyncio.to_thread(mend, self._files, self._root, at, data, end=given.end)
            except RawRefused as error:
                refused = f"{_REFUSED}: {error}"
                if progress.said.get(source.name) != refused:  # it may be the only one, and give nothing else
                    _log.warning("what a peer gave was refused", peer=source.name, reason=error)
                progress.doing, progress.said[source.name] = "waiting", refused
                self._sources.remove(source)
                self._sources.append(source)  # another one may have what belongs there
                await asyncio.sleep(_ROUND_SECONDS)
                continue
            progress.fetched_bytes += len(data)
            at = given.end
            await asyncio.sleep(len(data) / _BYTES_PER_SECOND)
        progress.at = None
        _log.info("range mended", from_position=damage.start, to_position=at, peer=source.name)
        return True

    async def _fetch(self, ask: PieceAsk) -> tuple[Source, Given, bytes] | None:
        """From whoever has it; waits for as long as nobody does. None: it is deleted, here too. Raises: _Superseded."""
        told: tuple[dict[str, str], bool] | None = None
        deleted_since, further = _now(), False
        while True:
            said: dict[str, str] = {}
            answers: dict[str, Given] = {}
            for source in tuple(self._sources):
                fetched = await self._ask(source, ask, said, answers)
                if fetched is not None:
                    return fetched
            if not further and any(each.state is PieceState.NOT_YET for each in answers.values()):
                further, ask = True, await self._asking_further(ask)
                continue
            leader = next((name for name, each in answers.items() if each.leads and each.state is PieceState.GONE), "")
            if leader:
                if await asyncio.to_thread(self._begin_later, answers[leader]):
                    return None
                raise _Superseded(f"the log of the leader, broker {leader}, begins behind what is committed here")
            self.progress.doing, self.progress.said = "waiting", said
            nowhere, begins = _is_nowhere(answers.values()), _deleted(answers.values(), ask.start)
            everybody = (nowhere or begins is not None) and await self._have_all_answered(answers, ask)
            self.progress.nobody_has = everybody and nowhere
            if told != (said, self.progress.nobody_has):
                told = said, self.progress.nobody_has
                _tell_vain(ask, *told)
            if begins is None or not everybody:
                deleted_since = _now()
            elif _now() - deleted_since >= _DELETED_SECONDS:
                deleted_since, sure = _now(), await self._have_all_answered(answers, ask, anew=True)
                if sure and await asyncio.to_thread(self._begin_later, begins):
                    return None
            await asyncio.sleep(_ROUND_SECONDS)

    async def _asking_further(self, ask: PieceAsk) -> PieceAsk:
        """Who may have it may lack all that stands beside it: then records further behind show that its log is the
        same."""
        if ask.after is None:
            return ask
        return replace(ask, further=await asyncio.to_thread(further_behind, self._files, self._root, ask.after))

    async def _ask(
        self, source: Source, ask: PieceAsk, said: dict[str, str], answers: dict[str, Given]
    ) -> tuple[Source, Given, bytes] | None:
        """What it has of that. None: nothing, and what it says instead is noted. Raises: _Superseded."""
        try:
            cluster, broker = self._asker
            given, data = await source.ask(Asked(cluster=cluster, broker=broker, ask=ask, epoch=self.muster.epoch))
        except PeerError as error:
            said[source.name] = str(error)
            return None
        if given.state is PieceState.WHOLE:
            self.progress.nobody_has = False
            self._sources.remove(source)
            self._sources.insert(0, source)
            return source, given, data
        said[source.name], answers[source.name] = str(given.state), given
        if given.leads and given.state is PieceState.DIFFERS:
            raise _Superseded(f"the leader, broker {source.name}, says of position {ask.start}: {given.state}")
        return None

    async def _have_all_answered(self, answers: dict[str, Given], ask: PieceAsk, *, anew: bool = False) -> bool:
        """Whether nobody is away who may hold it: all places have answered, or all that are not empty."""
        all_places = len(answers) == len(self._sources)
        return await self.muster.complete(answers, ask.start, all_places=all_places, anew=anew)

    def _begin_later(self, begins: Given) -> bool:
        """Delete what another replica has deleted; whether that is possible here. Blocks."""
        try:
            begin_later(self._files, self._root, position=begins.start, epoch=begins.epoch)
        except RawRefused as error:
            self.progress.said["here"] = str(error)
            return False
        _log.warning("what is damaged is deleted elsewhere: the log begins later", position=begins.start)
        return True

    # ---- the rest ------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """All that is committed is whole. See that the store opens, with what that takes."""
        self.progress.doing = "opening"
        self._unlock()
        places = await asyncio.to_thread(noted_damage, self._files, self._root)
        if self.found is not None and self.found.damages:
            await asyncio.to_thread(self._repair)  # first: any repair would cut the log, and not as another store
        if any(place.path.startswith(_DERIVED) for place in places):
            _log.info("queues and index are derived from the log again")
            await asyncio.to_thread(repair_files, self._files, self._root, apply=True, derive=True)
        try:
            await asyncio.to_thread(self._try_open)
        except StoreDamaged:
            await asyncio.to_thread(self._repair)
            await asyncio.to_thread(self._try_open)

    def _repair(self) -> None:
        """Repair what is no part of the log, or drop the uncommitted end from its damage on, as another store. Blocks.
        Raises: StoreDamaged."""
        plan = repair_files(self._files, self._root, apply=False)
        if not plan.steps or plan.end_position < self._committed:
            raise StoreDamaged(f"{self._root}/commitlog", 0, "it does not open, and no repair is known", self._root)
        if not plan.changes_log:
            repair_files(self._files, self._root, apply=True)
            given_up = "; ".join(each.path for each in plan.steps)
            _log.warning("what is damaged beside the log is given up", files=given_up)
            return
        self._identity().renew()
        plan = repair_files(self._files, self._root, apply=True)
        _log.warning(
            "the uncommitted end of the log was damaged and is dropped", position=plan.end_position,
            records=plan.dropped_records, kept_in="dropped/",
        )  # fmt: skip

    def _set_aside(self, reason: str) -> None:
        set_aside(self._files, self._identity(), reason)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _tell_vain(ask: PieceAsk, said: dict[str, str], nobody_has: bool) -> None:
    if nobody_has:
        _log.error(
            "no broker of this group has what is damaged here: bring back what has it, or give it up; "
            'see "Damage that all have" in docs/stores.md',
            from_position=ask.start, to_position=ask.end,
            said="; ".join(f"broker {name}: {each}" for name, each in said.items() if each in _ANSWERS),
        )  # fmt: skip
    else:
        _log.warning("nobody gives what is damaged here", position=ask.start, **said)


def _unkept(damage: Damage) -> str:
    return (
        f"its disk does not keep what is written: {damage.path} is damaged at position {damage.start} again "
        f"({damage.what}) each time it was mended; replace the disk"
    )


def _is_nowhere(answers: Collection[Given]) -> bool:
    """Whether none of them can give it later, either: it is damaged there, too, and nobody says that another log is
    there, whose leader would have this one copied. The muster knows who only waits to hear that it is committed."""
    states = {each.state for each in answers}
    return PieceState.DAMAGED in states and PieceState.DIFFERS not in states


def _deleted(answers: Collection[Given], position: int) -> Given | None:
    """Who has deleted least of those that have deleted this position, if nobody has it, or another log."""
    if any(each.state not in (PieceState.GONE, PieceState.NOT_YET) for each in answers):
        return None
    gone = [each for each in answers if each.state is PieceState.GONE and each.start > position]
    return min(gone, key=lambda each: each.start, default=None)
