"""`logherd operator keep-leader`: ask, decide, patch, tell, some times in each lease."""

import http
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from logherd_operator.keeper.decision import Keeper, heard_of, slice_of
from logherd_operator.keeper.slices import ApiPlace, NoAnswer, ask_controller, patch_slice, read_slice, tell_controller

__all__ = ["Keeping", "keep_leader", "step"]

_log = logging.getLogger("logherd.leader-endpoint")
_ROUNDS = 8
"""Questions in one lease; each may take as long as the time between two."""
_UNANSWERED = 0
_NOT_HERE = (http.HTTPStatus.FORBIDDEN, http.HTTPStatus.NOT_FOUND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """`page`: the URL of the group at the controller beside us; `token_file`: what lets us tell it something; `lease`
    in seconds; `name` of this sidecar.
    """

    page: str
    token_file: Path
    slice_place: ApiPlace
    name: str
    lease: float

    @property
    def pause(self) -> float:
        """Between two questions, and the most that one may take."""
        return self.lease / _ROUNDS


def keep_leader(
    keeping: Keeping,
    goes_on: Callable[[], bool] = lambda: True,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """While it `goes_on`; a signal ends it. What stands in the slice then stays: another sidecar goes on."""
    keeper = Keeper(keeping.name, keeping.lease, clock())
    while goes_on():
        began = clock()
        step(keeper, keeping, clock)
        sleep(max(0.0, keeping.pause - (clock() - began)))


def step(keeper: Keeper, keeping: Keeping, clock: Callable[[], float]) -> None:
    """One round."""
    asked = clock()
    keeper.heard(heard_of(*ask_controller(keeping.page, keeping.pause)), asked)
    _keep(keeper, keeping, clock)
    if keeper.confirmed is not None:
        tell_controller(f"{keeping.page}/endpoint", keeping.token_file, {"epoch": keeper.confirmed}, keeping.pause)


def _keep(keeper: Keeper, keeping: Keeping, clock: Callable[[], float]) -> None:
    if keeper.rests(clock()):
        return
    if keeper.needs_slice(clock()):
        _read(keeper, keeping, clock)
    # What is left of the lease must do for one more question and its patch.
    change = keeper.change(clock(), 3 * keeping.pause)
    if change is None:
        return
    try:
        seconds = keeper.patience(keeping.pause)
        keeper.changed(slice_of(patch_slice(keeping.slice_place, change, keeping.name, seconds)), clock())
        _log.info("the leader's endpoint is %s in epoch %d", change.address or "empty", change.epoch)
    except NoAnswer as error:
        # Not the version that we know, or nobody knows whether it was done: read it again.
        keeper.forget()
        if error.status == _UNANSWERED:
            keeper.unanswered()
        elif error.status != http.HTTPStatus.CONFLICT:
            keeper.refused(clock(), keeping.pause)
        _log.warning("the slice was not changed: %s", error)


def _read(keeper: Keeper, keeping: Keeping, clock: Callable[[], float]) -> None:
    try:
        keeper.read(slice_of(read_slice(keeping.slice_place, keeper.patience(keeping.pause))), clock())
    except NoAnswer as error:
        if error.status in _NOT_HERE:
            keeper.missed(clock())
        else:
            keeper.unread(clock())
            if error.status == _UNANSWERED:
                keeper.unanswered()
            else:
                keeper.refused(clock(), keeping.pause)
        _log.warning("the slice was not read: %s", error)
