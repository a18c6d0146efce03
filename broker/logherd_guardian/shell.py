"""The guardian's loop: carries out what `machine` and `reporter` decide, and tells them what came of it.

One thread, one selector; each watched descriptor's data is the function to call. Ticks come ten times as often while
something waits for them.
"""

import os
import selectors
import signal
from collections.abc import Mapping

from logherd_guardian.brood import FORWARDED, STOPPING, Brood
from logherd_guardian.child import lent_environment
from logherd_guardian.clock import clock_ms
from logherd_guardian.door import Door
from logherd_guardian.events import (
    Action,
    Asked,
    Event,
    Exited,
    Kill,
    Leave,
    Part,
    Parted,
    Report,
    Reported,
    Say,
    Spawn,
    Spawned,
    SpawnFailed,
    Superseded,
    Take,
    Tick,
)
from logherd_guardian.machine import Duties, Machine, Phase
from logherd_guardian.options import Options
from logherd_guardian.page_file import PageFile
from logherd_guardian.reports import Reports
from logherd_guardian.sayings import say

__all__ = ["Shell", "dispatch"]

_TICK_MS = 200
_BUSY_TICK_MS = 20
_INCARNATION_BYTES = 16


def dispatch(selector: selectors.BaseSelector, timeout_ms: int) -> None:
    """Wait for something to be ready and call whom it concerns; not those who were unregistered by a call before."""
    for key, mask in selector.select(timeout_ms / 1000):
        current = selector.get_map().get(key.fd)
        if current is not None and current.data == key.data:
            key.data(mask)


class Shell:
    """Runs until the machine says to leave."""

    def __init__(
        self, options: Options, doors: Mapping[str, Door], reports: Reports, *, selector: selectors.BaseSelector,
        brood: Brood, environment: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._options = options
        self._doors = doors
        self._reports = reports
        self._selector = selector
        self._brood = brood
        self._environment = environment
        duties = Duties(
            stop_ms=options.stop_ms, restart_ms_max=options.restart_ms_max, reports=bool(options.controllers),
            passes=any(lent.peers for lent in options.lent),
        )  # fmt: skip
        self._machine = Machine(duties, clock_ms())
        self._page = PageFile(options.state_file)
        self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._left: int | None = None
        self._reporting = False
        """Whether the machine waits to hear that nothing is left to be reported."""

    def run(self) -> int:
        """The exit code. Blocks until the guardian's end. Signal handlers are left as they are then."""
        self._listen_to_signals()
        dispatch(self._selector, 0)  # who was told to stop already starts nobody
        tick_at = clock_ms()
        while self._left is None:
            now = clock_ms()
            if now >= tick_at or now < tick_at - _TICK_MS:
                self._tick(now)
                tick_at = clock_ms() + (_BUSY_TICK_MS if self._is_busy() else _TICK_MS)
            if self._left is None:
                dispatch(self._selector, max(0, tick_at - clock_ms()))
        for door in self._doors.values():
            door.close()
        return self._left

    def _listen_to_signals(self) -> None:
        # The numbers come through the pipe, written by the interpreter's own handler in C.
        signal.set_wakeup_fd(self._wakes[1], warn_on_full_buffer=False)
        self._selector.register(self._wakes[0], selectors.EVENT_READ, self._woken)
        for number in (*STOPPING, *FORWARDED, signal.SIGCHLD):
            # What was ignored from outside, as SIGHUP by nohup, stays so, for the child too.
            if number == signal.SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda *_: None)
        # Held back until now by the first process of a container, or by whoever started us.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*STOPPING, signal.SIGCHLD))

    def _is_busy(self) -> bool:
        settled = self._machine.phase is Phase.SERVING and self._reports.is_done
        return not settled or any(door.is_busy for door in self._doors.values())

    def _woken(self, mask: int) -> None:
        for number in os.read(self._wakes[0], 4096):
            if number != signal.SIGCHLD:
                self._step(Asked(number, stop=number in STOPPING))
        self._reap()

    def _reap(self) -> None:
        status = self._brood.reap()
        if status is not None:
            self._step(Exited(status, self._page.read() or self._page.last))

    def _tick(self, now: int) -> None:
        self._reap()
        self._step(Tick(self._page.read() if self._machine.has_child else None))
        for door in self._doors.values():
            door.tick(now)
        self._reports.tick(now)
        if self._reporting and self._reports.is_done:  # an answer comes between two ticks
            self._reporting = False
            self._step(Reported())
        if self._machine.phase is Phase.PARTING and not any(door.is_busy for door in self._doors.values()):
            self._step(Parted())

    def _step(self, event: Event) -> None:
        for action in self._machine.step(event, clock_ms()):
            self._act(action)

    def _act(self, action: Action) -> None:
        match action:
            case Spawn():
                self._spawn()
            case Kill():
                try:
                    self._brood.kill(action.number)
                except PermissionError as error:
                    say(f"cannot send the child signal {action.number}: {error.strerror}")
            case Take():
                for door in self._doors.values():
                    door.take(clock_ms(), on=action.on)
            case Part():
                for door in self._doors.values():
                    door.part()
            case Report():
                self._reporting = True
                self._reports.add(action.exit, clock_ms())
            case Superseded():
                self._reports.superseded(clock_ms())
            case Say():
                say(action.text)
            case Leave():
                self._left = action.code

    def _spawn(self) -> None:
        incarnation = os.urandom(_INCARNATION_BYTES).hex()
        lent = {name: door.listener.fileno() for name, door in self._doors.items()}
        try:
            page = self._page.renew()
            if not self._brood.wake(incarnation, lent, page):
                own = lent_environment(os.getpid(), incarnation, lent, page)
                self._brood.spawn(self._options.command, {**self._environment, **own}, [*lent.values(), page])
        except OSError as error:
            self._step(SpawnFailed(error.strerror or str(error)))
            return
        say(f"child started: pid={self._brood.child}")
        self._step(Spawned(incarnation))
