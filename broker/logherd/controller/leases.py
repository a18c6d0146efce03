"""How long a leadership lasts without word from the controllers, by two clocks that nobody has compared.

The broker counts from the moment when it sent the heartbeat, and stops early; the controller counts from a moment after
it received it, and waits longer. So if the rates of both clocks are within the bound, the broker has stopped before the
controller elects another. Both clocks must go on while a machine is suspended (CLOCK_BOOTTIME).

Source: controller-ha R1, R2.
"""

from dataclasses import dataclass
from typing import Final

from logherd.controller.values import GroupKey, Registration, Tenure
from logherd.kit.errors import ensure
from logherd.model.names import Epoch

__all__ = ["LeaseTable", "LeaseTerms"]

_MILLION: Final = 1_000_000
_GRAIN_MS: Final = 1
"""Clocks are read in whole milliseconds: the difference of two readings may be wrong by one."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """`bound_ppm`: how far the rate of any clock may be off, in millionths.

    Invariant: a holder with the slowest clock stops before a waiter with the fastest clock goes on.
    """

    lease_ms: int = 3_000
    bound_ppm: int = 20_000

    def __post_init__(self) -> None:
        ensure(self.lease_ms >= 10 and 0 <= self.bound_ppm < _MILLION // 2, "a lease lasts, clocks run", self)
        stopped = (self.holder_ms + _GRAIN_MS) * (_MILLION + self.bound_ppm)
        waited = (self.waiter_ms - _GRAIN_MS) * (_MILLION - self.bound_ppm)
        ensure(stopped <= waited, "the holder stops first on any clocks within the bound", self)

    @property
    def holder_ms(self) -> int:
        """How long the broker leads after it has sent the heartbeat, by its clock."""
        return self.lease_ms * (_MILLION - self.bound_ppm) // _MILLION

    @property
    def waiter_ms(self) -> int:
        """How long the controller waits after the answer, by its clock, which may be as fast as the other is slow."""
        held = (self.holder_ms + _GRAIN_MS) * (_MILLION + self.bound_ppm)
        return -(-held // (_MILLION - self.bound_ppm)) + _GRAIN_MS


class LeaseTable:
    """What a controller leader has granted, and until when each may be held. Starts empty with each leadership.

    What an earlier leader granted is not here, but was asked for before this leadership began: so all of it is over
    one lease after the beginning, which may have been a longer one than ours.
    """

    def __init__(self, terms: LeaseTerms, now: int, *, earlier_ms: int = 0) -> None:
        """`earlier_ms`: how long an earlier leader would have waited for what it granted."""
        self.terms = terms
        self.earlier_over = now + max(terms.waiter_ms, earlier_ms)
        """When nothing is held any more that an earlier leader granted."""
        self._began = now
        self._until: dict[GroupKey, tuple[Registration, Epoch, int]] = {}
        self._serving: dict[GroupKey, tuple[Registration, Epoch, int]] = {}

    def grant(self, key: GroupKey, tenure: Tenure, now: int, *, heard: int) -> None:
        """Note a lease of this leadership that begins no later than now; the heartbeat that asked came at `heard`.

        Whether it still serves is counted from then: the answer may come so late that the lease is over on arrival.
        """
        self.expect(key, tenure, now)
        self._serving[key] = (tenure.registration, tenure.epoch, heard + self.terms.holder_ms)

    def expect(self, key: GroupKey, tenure: Tenure, now: int) -> None:
        """A leadership that has just been decided has one lease's time to hear of it; one to which an earlier leader
        granted a longer lease keeps that."""
        until = max(now + self.terms.waiter_ms, self.earlier_over)
        self._until[key] = (tenure.registration, tenure.epoch, until)

    def over_at(self, key: GroupKey, tenure: Tenure | None) -> int:
        """When the latest leadership of a group certainly holds no lease any more; it may be long ago.

        Without a leadership that is known there may be one of controllers that lost their log.
        """
        if tenure is not None and tenure.released:
            return self._began
        held = self._until.get(key)
        if tenure is not None and held is not None and held[:2] == (tenure.registration, tenure.epoch):
            return held[2]
        return self.earlier_over

    def serving(self, key: GroupKey, tenure: Tenure, now: int) -> bool:
        """Whether this leadership has been granted a lease, by this office, that should still run."""
        held = self._serving.get(key)
        return held is not None and held[:2] == (tenure.registration, tenure.epoch) and now < held[2]
