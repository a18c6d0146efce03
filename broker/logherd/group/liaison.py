"""When the controllers hear of this process: its registration, its heartbeats, the release of its leadership."""

from typing import Final

from logherd.controller.commands import Register, Release
from logherd.controller.reports import Report, RoleView
from logherd.controller.values import BrokerId, Registration
from logherd.group.ground import Ground
from logherd.model.names import Epoch
from logherd.replication.epochs import Point

__all__ = ["Liaison"]

_ENDS_TOLD: Final = 32
"""Controllers that have forgotten more leaderships than that are not told all of them."""


class Liaison:
    """Asks again until it is answered, so nothing is lost with a message (R19)."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._asked_at: int | None = None
        self._heard_at = ground.now
        self._lease_ms: int | None = None
        self._number = self._answered = 0
        self._named_at = ground.now
        self._known = (ground.epoch, 0)
        """The latest epoch, and version of the in-sync set in it, that anybody has told."""
        self._known_at = ground.now
        self._numbers: dict[BrokerId, Registration] = {}
        """The latest process of each broker, as far as it was known when that was noted last."""
        self._numbers_at = ground.now

    @property
    def registered(self) -> bool:
        """Whether the controllers know this process."""
        return self._ground.me.registration != 0

    @property
    def missed(self) -> bool:
        """Whether two reports in a row were not answered: a lease lives for three."""
        return self._ground.now - self._heard_at >= 2 * self._beat_ms

    @property
    def _beat_ms(self) -> int:
        """As it is set, but a lease lives for three, whatever is set here: the controllers say how long that is."""
        beat_ms = self._ground.options.beat_ms
        return beat_ms if self._lease_ms is None else min(beat_ms, self._lease_ms // 3)

    def leased(self, lease_ms: int) -> None:
        """The controllers have given a lease of that length."""
        self._lease_ms = lease_ms

    def heard(self, sent: int, number: int) -> None:
        """The controllers have answered the report of this number, which left then."""
        self._heard_at = max(self._heard_at, sent)
        self._answered = max(self._answered, number)

    def on_tick(self, *, urgent: bool) -> None:
        """Register, or report."""
        options, now = self._ground.options, self._ground.now
        beat_ms = min(options.urgent_ms, self._beat_ms) if urgent else self._beat_ms
        wait = beat_ms if self.registered else options.retry_ms
        if self._asked_at is None or now - self._asked_at >= wait:
            self.speak()

    def hurry(self) -> None:
        """Somebody says that there is news: report now, unless that was done a moment ago."""
        asked_at, now = self._asked_at, self._ground.now
        if self.registered and (asked_at is None or now - asked_at >= self._ground.options.hurry_ms):
            self.speak()

    def registered_as(self, registration: Registration) -> None:
        """The controllers have given this process a number; 0: they have forgotten it, and maybe those of others, which
        they give anew then. Whose number counts they tell with the next lease."""
        self._ground.standing.register(registration)
        if not registration:
            self._ground.standing.processes.clear()
            self._numbers.clear()
        self._named_at = self._ground.now
        self.speak()

    def note(self) -> None:
        """There may be news of the group: since when that is known counts."""
        ground, view = self._ground, self._ground.standing.view
        known = (ground.epoch, view.version if view is not None and view.epoch == ground.epoch else 0)
        if known > self._known:
            self._known, self._known_at = known, ground.now
        if ground.standing.processes != self._numbers:
            self._numbers, self._numbers_at = dict(ground.standing.processes), ground.now

    def is_forgotten(self, view: RoleView, sent: int) -> bool:
        """Whether the controllers have lost what they decided: they answer with less than was known here when they were
        asked. Who answers with a view was confirmed as the quorum's leader since, so it is not merely behind. The set
        may be the same, and the numbers of its processes given anew: the real ones would pass for former ones."""
        if sent > self._known_at and (view.epoch, view.version) < self._known:
            return True
        if sent <= self._numbers_at:
            return False
        told = (*zip(view.members, view.processes, strict=True), *view.others)
        return any(process < self._numbers.get(broker, 0) for broker, process in told)

    def begin_again(self) -> None:
        """What the controllers say from now on is the latest, but for the epoch."""
        self._ground.standing.forget()
        self._numbers.clear()
        self._known, self._known_at = (self._ground.epoch, 0), self._ground.now

    def about_earlier_name(self, sent: int) -> bool:
        """Whether what was sent then went out under another number."""
        return sent < self._named_at

    def release(self, epoch: Epoch) -> None:
        """Give the lease of this epoch back. Each report says it, too: this message may be lost (R2)."""
        ground, seat = self._ground, self._ground.seat
        ground.ask(
            Release(
                group=seat.group, broker_id=seat.broker_id, store_id=seat.store_id, incarnation=seat.incarnation,
                exited=False, committed=ground.known_point(ground.commit), epoch=epoch,
            )
        )  # fmt: skip
        self.speak()

    def speak(self) -> None:
        """Register or report now."""
        self._asked_at = self._ground.now
        self._ground.ask(self._report() if self.registered else self._registration())

    def _registration(self) -> Register:
        ground, seat = self._ground, self._ground.seat
        return Register(
            group=seat.group, broker_id=seat.broker_id, store_id=seat.store_id, incarnation=seat.incarnation,
            address=seat.address, end=ground.known_point(ground.durable.position), epoch_seen=ground.epoch,
            trusted=seat.trusted, learner=seat.learner, rules=seat.rules,
        )  # fmt: skip

    def _report(self) -> Report:
        """Nothing in it is more than what is durable here: the controllers elect by it."""
        ground, seat, health = self._ground, self._ground.seat, self._ground.health
        self._number += 1
        return Report(
            group=seat.group, broker_id=seat.broker_id, registration=ground.me.registration, address=seat.address,
            end=ground.known_point(ground.durable.position), committed=ground.known_point(ground.shown),
            healthy=ground.fit, space=health.takes_messages and health.barrier, barrier=health.barrier,
            priority=seat.priority, resigned=ground.holder.resigned, number=self._number,
            answered=self._answered, epoch_ends=self._epoch_ends(),
        )  # fmt: skip

    def _epoch_ends(self) -> tuple[Point, ...]:
        """By which the controllers see whether the log has what others have committed; while somebody leads they do not
        need it."""
        ground, view = self._ground, self._ground.standing.view
        history, durable = ground.log.epochs, ground.durable.position
        if durable < history.base.position or (view is not None and view.master is not None):
            return ()
        return history.epoch_ends(durable)[-_ENDS_TOLD:]
