"""The platform's part, which on Kubernetes others play: at every place that is to be there a guardian runs, and one
that ended is started again, later each time. Guardians care for the processes behind them.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from logherd_operator.local.checking import Checking
from logherd_operator.local.errors import LocalError
from logherd_operator.local.files import STOP_SECONDS, Files
from logherd_operator.local.folder import Folder
from logherd_operator.local.look import TOLD_SECONDS, child_of
from logherd_operator.local.nursery import Adopted, Nursery
from logherd_operator.local.processes import is_alive, lives, signal_process, start_process, started_ticks
from logherd_operator.local.signals import undivided
from logherd_operator.local.state import GroupState, PlaceState, Process
from logherd_operator.local.words import was_killed
from logherd_operator.observed.slots import Component
from logherd_operator.spec.errors import SpecError

__all__ = ["Ended", "Places"]

_FIRST_SECONDS = 0.5
_LONGEST_SECONDS = 15.0
_HEALTHY_SECONDS = 20.0
_DOUBLINGS_MAX = 6
_MANY = 2
_ADDRESSES = ("listen", "nameService", "guardian")
"""Of a configuration: what the guardian has to know, too."""


class Ended(NamedTuple):
    """How a process that was to stop has ended; as text a sentence."""

    name: str
    pid: int
    outcome: Literal["stopped", "killed", "wasNotRunning"]

    def __str__(self) -> str:
        said = {"killed": "did not stop in time and was killed", "wasNotRunning": "was not running"}
        return f"{self.name} (pid {self.pid}) {said.get(self.outcome, self.outcome)}"


class Places:
    """Holds the state of a group; each change of it is written before it is acted on. Blocks for files only."""

    def __init__(
        self, folder: Folder, state: GroupState, checking: Checking | None = None, nursery: Nursery | None = None
    ) -> None:
        self.state = state
        self._folder = folder
        self._checking = checking
        self._nursery = nursery
        self._own: dict[int, subprocess.Popen[bytes] | Adopted] = {}
        self._asked = set[Process]()
        self._told_at = dict[Process, float]()
        self._unwritten = False
        self._ending = False

    def remember(self, state: GroupState) -> None:
        """Go on from this state. Raises: LocalError if it cannot be written, which the next call tries again."""
        if state != self.state or self._unwritten:
            self.state, self._unwritten = state, True
            try:
                self._folder.write(state)
                self._unwritten = False
            except LocalError:
                if not self._ending:  # a full disk keeps nobody from stopping; pids and start times tell who is gone
                    raise

    # ---- what is to be there ---------------------------------------------------------------------------------------

    def add(self, component: Component, count: int, files: Files) -> None:
        """Let there be so many places. Places that come to a group with data begin as learners."""
        state = self.state
        if component == "broker":
            began = state.began if state.began.founded else replace(state.began, founders=count)
            state = replace(state, brokers=count, began=began)
        else:
            state = replace(state, controllers=count)
        learner = component == "broker" and state.began.founded
        for ordinal in range(count):
            known = state.place(component, ordinal)
            if known is None:
                known = PlaceState(
                    component=component, ordinal=ordinal, learner=learner, revision=files.revision(component)
                )  # fmt: skip
            # One that is being taken away, and wanted again: who stops there now is followed by another.
            state = state.having(replace(known, leaving=False, learner=learner) if known.leaving else known)
        self.remember(state)

    def take_away(self, place: PlaceState, count: int) -> None:
        """Stop the highest broker for good; its data stays."""
        self.remember(replace(self.state.having(replace(place, leaving=True)), brokers=count))
        self._stop_guardian(place)

    def start_anew(self, place: PlaceState, files: Files) -> None:
        """Have what stands here end in order, and its successor begin with the configuration of now.

        The guardian stays, and with it the port of clients, unless what it was told has changed or it is of no use.
        """
        before = self._folder.document(self._folder.of(place, ".json").name) or {}
        document = files.render(place)
        child = child_of(place, self._folder)
        stays = child is not None and all(before.get(each) == document.get(each) for each in _ADDRESSES)
        self._folder.write_document(self._folder.of(place, ".json").name, document)
        fresh = replace(
            place, revision=files.revision(place.component), started_at=time.time(), told=child, starts=0,
            log_begin=self._log_size(place),
        )  # fmt: skip
        self.remember(self.state.having(fresh))
        if stays and child is not None:
            signal_process(child.pid, child.ticks, signal.SIGTERM)
        else:
            self._stop_guardian(place)

    def refresh(self, files: Files) -> None:
        """Write down what a place would be started from, where that needs no restart: whoever restarts by itself, as
        after a crash, then begins with it."""
        for place in self.state.places:
            path = self._folder.of(place, ".json")
            if place.revision == files.revision(place.component) and self._folder.document(path.name):
                document = files.render(place)
                if self._folder.document(path.name) != document:
                    self._folder.write_document(path.name, document)

    # ---- what is there ---------------------------------------------------------------------------------------------

    def tend(self, files: Files) -> Iterator[str]:
        """Start what does not run and should; forget what has gone and was to go. Yields a sentence for each start
        that is not a first one, and for each kill. Raises: SpecError if none of the first ones would start as the file
        says."""
        self.remember(self.state)
        self._reap()
        self._check_first_starts(files)
        for place in self.state.places:
            if lives(place.guardian):
                yield from self._end_again(place)
                continue
            if place.leaving:
                self.remember(self.state.without(place))
            elif not 0 <= time.time() - place.started_at < _delay(place):  # the clock may have been set back
                yield from self._start(place, files)
        if self._nursery is not None and self.state.places:
            self._nursery.close()  # what starts later may be another version, and somebody else's
            self._nursery = None

    def _end_again(self, place: PlaceState) -> Iterator[str]:
        """That somebody is to end is noted first: the signal may never have been sent. For a child another one changes
        nothing; a guardian that hears two leaves at once. A child that hangs is killed, as a pod would be: its guardian
        was told nothing, and waits for it. Yields a sentence then."""
        if place.leaving:
            if place.guardian not in self._asked:
                self._stop_guardian(place)
        elif (told := place.told) is not None:
            now = time.monotonic()
            hangs = now - self._told_at.setdefault(told, now) > TOLD_SECONDS
            if not signal_process(told.pid, told.ticks, signal.SIGKILL if hangs else signal.SIGTERM):
                del self._told_at[told]
            elif hangs:
                yield f"{place.name}: its process (pid {told.pid}) did not stop in {TOLD_SECONDS:.0f} s and is killed"

    def _check_first_starts(self, files: Files) -> None:
        """Have the settings of several places checked together: each process would do that for itself, at length."""
        fresh = [each for each in self.state.places if each.guardian is None and not each.leaving]
        if len(fresh) < _MANY:
            return
        for place in fresh:
            self._folder.write_document(self._folder.of(place, ".json").name, files.render(place))
        checking, self._checking = self._checking, None
        wrong = (checking or Checking()).check([(each.component, self._folder.of(each, ".json")) for each in fresh])
        if wrong and checking is not None:  # later on, what was saved has been checked before it was accepted
            raise SpecError(f"{self.state.file}: a broker would not start with this\n{wrong}")

    def _start(self, place: PlaceState, files: Files) -> Iterator[str]:
        if place.guardian is not None and place.told is None:
            yield f"{place.name}: its guardian (pid {place.guardian.pid}) has ended and is started again"
        ordered = place.told is not None
        lived = place.guardian is not None and time.time() - place.started_at > _HEALTHY_SECONDS
        config, ready = self._folder.of(place, ".json"), self._folder.of(place, ".ready")
        self._folder.write_document(config.name, files.render(place))
        ready.unlink(missing_ok=True)
        log = self._folder.of(place, ".log")
        begin = self._log_size(place)
        fresh = replace(
            place, log_begin=begin, told=None, starts=0 if lived or ordered else place.starts + 1,
            revision=files.revision(place.component),
        )  # fmt: skip
        if self._nursery is not None:
            self._nursery.await_ready()  # not where Ctrl-C has to wait
        with undivided():  # whom nobody remembers, nobody stops
            process = self._forked(place, config, ready, log) or start_process(
                [
                    sys.executable, "-P", "-m", "logherd", place.component, "--guarded", "--config", str(config),
                    "--ready-file", str(ready),
                ],
                output=log,
            )  # fmt: skip
            self._own[process.pid] = process
            guardian = Process(process.pid, started_ticks(process.pid) or 0)
            self.remember(self.state.having(replace(fresh, guardian=guardian, started_at=time.time())))

    def _forked(self, place: PlaceState, config: Path, ready: Path, log: Path) -> Adopted | None:
        order = {"kind": place.component, "config": str(config), "ready_file": str(ready), "output": str(log)}
        return None if self._nursery is None else self._nursery.fork(order)

    def _log_size(self, place: PlaceState) -> int:
        try:
            return self._folder.of(place, ".log").stat().st_size
        except OSError:
            return 0

    def _reap(self) -> None:
        """Our own children leave an exit code behind, for which nobody else waits."""
        for pid in [pid for pid, process in self._own.items() if process.poll() is not None]:
            code = self._own.pop(pid).returncode
            for place in self.state.places:
                if place.guardian is not None and place.guardian.pid == pid:
                    self.remember(self.state.having(replace(place, ended=code)))

    # ---- the end ---------------------------------------------------------------------------------------------------

    def stop(self, seconds: float) -> Iterator[Ended]:
        """Stop everything, in order: brokers at once, so that nobody waits for one that stops, too; then the
        controllers. Yields the end of each process. Raises: LocalError if one is another user's."""
        self._ending = True
        for component in ("broker", "controller"):
            places = [each for each in self.state.places if each.component == component]
            yield from self._stop_all(places, seconds)
        staying = [each for each in self.state.places if not each.leaving]
        ended = tuple(replace(each, guardian=None, told=None, starts=0) for each in staying)
        self.remember(replace(self.state, places=ended, keeper=None))

    def _stop_all(self, places: list[PlaceState], seconds: float) -> Iterator[Ended]:
        said = {each.name: child_of(each, self._folder) for each in places}
        begins = {each.name: self._log_size(each) for each in places}
        asked = {each.name for each in places if self._stop_guardian(each)}
        patience = time.monotonic() + max(seconds, 0)
        for place in places:
            guardian, child = place.guardian, said[place.name]
            if guardian is None:
                continue
            pid = child.pid if child is not None else guardian.pid
            if place.name not in asked:
                yield Ended(place.name, pid, "wasNotRunning")
                continue
            while is_alive(guardian.pid, guardian.ticks) and time.monotonic() < patience:
                self._reap()
                time.sleep(0.01)
            if signal_process(guardian.pid, guardian.ticks, signal.SIGKILL):
                yield Ended(place.name, pid, "killed")
                _await_end([guardian, *([child] if child is not None else [])])
            else:  # by itself; but its patience may be shorter than ours
                killed = was_killed(self._folder.of(place, ".log"), begins[place.name])
                yield Ended(place.name, pid, "killed" if killed else "stopped")
        self._reap()

    def _stop_guardian(self, place: PlaceState) -> bool:
        guardian = place.guardian
        if guardian is None:
            return False
        self._asked.add(guardian)
        return signal_process(guardian.pid, guardian.ticks, signal.SIGTERM)


def _await_end(processes: list[Process]) -> None:
    """The kernel kills a process with its guardian, which takes it a moment."""
    patience = time.monotonic() + STOP_SECONDS
    while any(is_alive(each.pid, each.ticks) for each in processes) and time.monotonic() < patience:
        time.sleep(0.01)


def _delay(place: PlaceState) -> float:
    if place.guardian is None or place.told is not None:
        return 0.0
    return float(min(_FIRST_SECONDS * 2 ** min(place.starts, _DOUBLINGS_MAX), _LONGEST_SECONDS))
