"""The life of a guardian's child: started, served, watched, killed, reported, started again, stopped. Pure.

    WAITING --due--> STARTING <--ready / not ready--> SERVING        STARTING, SERVING --asked--> STOPPING
       ^                |                                |           WAITING --asked--> LEAVING
       |                +--------- lease overdue --------+           STOPPING --lease overdue--> DOOMED
       +--- exited --- any of these three, and DOOMED <--+           STOPPING, DOOMED if asked --exited--> LEAVING
    LEAVING --reported, in time--> ENDED        LEAVING with peers --in time--> PARTING --parted, in time--> ENDED

Invariants: (1) an exit is reported only after it was seen, and only of a child that said who it is; (2) at most one
child at a time; (3) connections are taken exactly while no child says that it accepts them, also in its orderly stop;
(4) only a stop asked for from outside ends the guardian; (5) one with peers goes on taking connections for PARTING_MS
after its last child, whatever was reported, and lets them end for ENDING_MS at most then. Times are milliseconds on
CLOCK_BOOTTIME.
"""

from enum import Enum

from logherd_guardian.backoff import CANNOT_START, RestartDelays
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
from logherd_guardian.frames import Exit
from logherd_guardian.lease import LeaseWatch
from logherd_guardian.page import Page
from logherd_guardian.values import Value

__all__ = ["ENDING_MS", "PARTING_MS", "SIGKILL", "SIGNALS", "Duties", "Machine", "Phase", "exit_code"]

SIGKILL = 9
SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", SIGKILL: "SIGKILL",
    11: "SIGSEGV", 15: "SIGTERM", 31: "SIGSYS",
}  # fmt: skip
"""Those that end processes, as Linux numbers them where LogHerd runs; a machine asks no system."""
PARTING_MS = 1_000
"""How long a guardian that was told to end goes on when its child has exited: it reports that, and passes those on who
come by an address that is about to move."""
ENDING_MS = 3_000
"""How long those that are passed on may stay beyond that, until nothing is on its way there: a peer holds a send for
2.5 s at most while nobody leads."""
_SPAWN_FAILED = 1
"""Like a quick death, and no child that cannot start: what is wanting, as memory or room, may be there soon."""


class Phase(Enum):
    """Where the child is in its life."""

    WAITING = "waiting"
    STARTING = "starting"
    SERVING = "serving"
    DOOMED = "doomed"
    STOPPING = "stopping"
    LEAVING = "leaving"
    PARTING = "parting"
    ENDED = "ended"


_ALIVE = frozenset({Phase.STARTING, Phase.SERVING, Phase.DOOMED, Phase.STOPPING})
_BELIEVED = _ALIVE - {Phase.DOOMED}
"""What a doomed child has said counts no more, whoever wants it to stop: it may hang in the kernel for long."""


class Duties(Value):
    """What a guardian has to do. `reports`: there are controllers to tell; `passes`: there are peers to pass clients on
    to. `stop_ms`: what a child gets between a stop and SIGKILL; `restart_ms_max`: the longest wait before the next."""

    __slots__ = ("passes", "reports", "restart_ms_max", "stop_ms")

    def __init__(self, *, stop_ms: int, restart_ms_max: int = 10_000, reports: bool, passes: bool) -> None:
        self.stop_ms = stop_ms
        self.restart_ms_max = restart_ms_max
        self.reports = reports
        self.passes = passes


def exit_code(status: int) -> int:
    """What a shell makes of it: 128 + N for signal N."""
    return status if status >= 0 else 128 - status


class Machine:
    """Feed it what happens, do what it says.

    Invariant: a child is killed and its exit reported before anything is said of it. stderr may be a file on the disk
    for which the child hangs.
    """

    def __init__(self, duties: Duties, now: int) -> None:
        self.phase = Phase.WAITING
        self._duties = duties
        self._delays = RestartDelays(duties.restart_ms_max)
        self._watch = LeaseWatch(now)
        self._due = now
        self._incarnation = ""
        self._ready_since: int | None = None
        self._registered = False
        self._taking = False
        self._unreported = False
        self._stopping = False
        self._code = 0

    @property
    def has_child(self) -> bool:
        return self.phase in _ALIVE

    def step(self, event: Event, now: int) -> list[Action]:
        """What to do now. Raises: nothing; an event that cannot happen in this phase does nothing."""
        match event:
            case Tick():
                return self._tick(event, now)
            case Spawned():
                return self._spawned(event)
            case SpawnFailed():
                return self._spawn_failed(event, now)
            case Exited():
                return self._exited(event, now)
            case Asked():
                return self._asked(event, now)
            case Reported():
                return self._reported()
            case Parted():
                return self._leave() if self.phase is Phase.PARTING else []
        return []

    def _tick(self, event: Tick, now: int) -> list[Action]:
        overdue = self._watch.is_overdue(event.page, now)
        actions = self._heard(event.page, now) if self.phase in _BELIEVED and event.page is not None else []
        if overdue and self.phase in _BELIEVED:
            self.phase = Phase.DOOMED
            epoch = 0 if event.page is None else event.page.epoch
            said = Say(f"killed: lease over and not released, epoch={epoch}")
            return [Kill(SIGKILL), *actions, said, *self._take(on=True)]
        return actions + self._timers(now)

    def _heard(self, page: Page, now: int) -> list[Action]:
        actions: list[Action] = []
        if page.registered and not self._registered:
            self._registered = True
            actions.append(Superseded())
        if page.ready and self.phase is Phase.STARTING:
            self.phase, self._ready_since = Phase.SERVING, now
            actions.append(Say("the child serves"))
        elif not page.ready and self.phase is Phase.SERVING:
            self.phase = Phase.STARTING
            actions.append(Say("the child serves no more"))
        return actions + self._take(on=not page.ready)

    def _timers(self, now: int) -> list[Action]:
        if now < self._due:
            return []
        if self.phase is Phase.WAITING:
            self.phase = Phase.STARTING
            return [*self._take(on=True), Spawn()]
        if self.phase is Phase.STOPPING:
            self._due = now + self._duties.stop_ms
            return [Kill(SIGKILL), Say("killed: did not stop in time")]
        if self.phase is Phase.LEAVING and self._duties.passes:
            self.phase, self._due = Phase.PARTING, now + ENDING_MS
            return [*self._take(on=False), Part()]
        if self.phase in {Phase.LEAVING, Phase.PARTING}:
            return self._leave()
        return []

    def _spawned(self, event: Spawned) -> list[Action]:
        self._incarnation = event.incarnation
        self._ready_since, self._registered = None, False
        return []

    def _spawn_failed(self, event: SpawnFailed, now: int) -> list[Action]:
        if self.phase is not Phase.STARTING:
            return []
        return [Say(f"no child: {event.why}"), *self._wait(_SPAWN_FAILED, 0, now)]

    def _exited(self, event: Exited, now: int) -> list[Action]:
        if not self.has_child:
            return []
        self._code = exit_code(event.status)
        actions: list[Action] = []
        if self._duties.reports and event.page is not None and event.page.identity is not None:
            self._unreported = True
            actions.append(Report(Exit(event.page.identity, self._incarnation)))
        actions.append(Say(f"the child has exited: {_told(event.status)}"))
        if self._stopping:
            return actions + self._wind_up(now)
        served_ms = 0 if self._ready_since is None else now - self._ready_since
        return actions + self._wait(event.status, served_ms, now)

    def _wait(self, status: int, served_ms: int, now: int) -> list[Action]:
        delay_ms = self._delays.after(status, served_ms)
        self.phase, self._due = Phase.WAITING, now + delay_ms
        return [*self._take(on=True), Say(f"next start in {delay_ms} ms")]

    def _asked(self, event: Asked, now: int) -> list[Action]:
        if not event.stop:
            return [Kill(event.number)] if self.has_child else []
        if self.phase in {Phase.LEAVING, Phase.PARTING}:
            return self._leave()
        if self.phase is Phase.WAITING:
            return self._wind_up(now)
        if not self.has_child:
            return []
        if not self._stopping:
            self._stopping, self._due = True, now + self._duties.stop_ms
        if self.phase is not Phase.DOOMED:
            self.phase = Phase.STOPPING
        return [Kill(event.number)]

    def _reported(self) -> list[Action]:
        self._unreported = False
        return self._leave() if self.phase is Phase.LEAVING and not self._duties.passes else []

    def _wind_up(self, now: int) -> list[Action]:
        if not self._unreported and not self._duties.passes:
            return self._leave()
        self.phase, self._due = Phase.LEAVING, now + PARTING_MS
        return self._take(on=True)

    def _leave(self) -> list[Action]:
        self.phase = Phase.ENDED
        return [*self._take(on=False), Leave(self._code)]

    def _take(self, *, on: bool) -> list[Action]:
        if self._taking == on:
            return []
        self._taking = on
        return [Take(on=on)]


def _told(status: int) -> str:
    if status < 0:
        name = SIGNALS.get(-status)
        return f"signal={-status} ({name})" if name else f"signal={-status}"
    if status in CANNOT_START:
        return f"code={status}, which means that it cannot start"
    return f"code={status}"
