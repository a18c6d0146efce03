"""What controllers and brokers have in common: a clock of their own, pauses, lives."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.consensus.streams import stream

if TYPE_CHECKING:
    from sim.leases.world import World

__all__ = ["Process"]


class Process:
    """A process under one name. Whatever is planned for one life does not happen in the next."""

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name
        self.draw = stream(world.seed, f"process:{name}")
        self._rate = 1_000_000 + world.rate_of(name)
        self._started_at = stream(world.seed, f"clock-start:{name}").randrange(1_000_000)
        self.life = 0
        self.alive = True
        self.retired = False
        self.paused_until = 0

    def now_ms(self) -> int:
        """The process's own clock: started at any number, it drifts, and goes on in a pause."""
        return self._started_at + self.world.now_us * self._rate // 1_000_000_000

    @property
    def active(self) -> bool:
        """Alive and not paused."""
        return self.alive and self.paused_until <= self.world.now_us

    def soon(self, wait_us: int, action: Callable[[], None]) -> None:
        """Do something later in this life; when paused, after the pause."""
        life = self.life

        def run() -> None:
            if self.life != life or not self.alive:
                return
            if self.paused_until > self.world.now_us:
                self.world.after(self.paused_until - self.world.now_us, run)
                return
            action()

        self.world.after(wait_us, run)

    def pause(self, lasts_us: int) -> None:
        """SIGSTOP and SIGCONT."""
        self.paused_until = max(self.paused_until, self.world.now_us + lasts_us)

    def crash(self, lasts_us: int) -> None:
        """The process ends, and another starts later."""
        if self.alive:
            self.alive = False
            self.life += 1
            self.paused_until = 0
            self.ended()
            life = self.life
            self.world.after(lasts_us, lambda: self._start(life))

    def retire(self) -> None:
        """The process ends, and no other is started under this name."""
        self.retired = True
        self.crash(0)

    def _start(self, life: int) -> None:
        if not self.alive and self.life == life and not self.retired:
            self.alive = True
            self.started()

    def heal(self) -> None:
        """The faults are over."""
        self.paused_until = 0
        self._start(self.life)

    def ended(self) -> None:
        """What a crash takes away."""

    def started(self) -> None:
        """What a new process does first."""
