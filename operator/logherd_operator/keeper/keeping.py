"""`logherd operator keep-leader`: ask, decide, patch, tell, some times in each lease."""

import http
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from logherd_operator.keeper.decision import Keeper, Slice, heard_of, slice_of
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
        began = clock()
        _read(keeper, keeping, clock)
        if clock() - began > keeping.pause:
            return  # the next round asks first: a leader may have gone meanwhile
    # What is left of the lease must do for one more question and its patch; half of it is left to the leader.
    longest = min(keeper.patience(keeping.pause), 3 * keeping.pause)
    change = keeper.change(clock(), max(3 * keeping.pause, keeping.pause + longest))
    if change is None:
        return
    try:
        least = 0.0 if change.address else keeper.left(clock())
        patch = partial(patch_slice, keeping.slice_place, change, keeping.name)
        keeper.read(_asked(keeper, keeping, clock, patch, least), clock())
        _log.info("the leader's endpoint is %s in epoch %d", change.address or "empty", change.epoch)
    except NoAnswer as error:
        # Not the version that we know, or nobody knows whether it was done: read it again.
        keeper.forget()
        if error.status not in (_UNANSWERED, http.HTTPStatus.CONFLICT):
            keeper.refused(clock(), keeping.pause)
        _log.warning("the slice was not changed: %s", error)


def _read(keeper: Keeper, keeping: Keeping, clock: Callable[[], float]) -> None:
    try:
        keeper.read(_asked(keeper, keeping, clock, partial(read_slice, keeping.slice_place)), clock())
    except NoAnswer as error:
        if error.status in _NOT_HERE:
            keeper.missed(clock())
        else:
            keeper.unread(clock())
            if error.status != _UNANSWERED:
                keeper.refused(clock(), keeping.pause)
        _log.warning("the slice was not read: %s", error)


def _asked(
    keeper: Keeper, keeping: Keeping, clock: Callable[[], float], request: Callable[[float], dict[str, Any]],
    least: float = 0.0,
) -> Slice:  # fmt: skip
    """What the API server answers to `request`, which is given so many seconds. Raises: NoAnswer."""
    began, seconds = clock(), max(least, keeper.patience(keeping.pause))
    try:
        found = slice_of(request(seconds))
    except NoAnswer as error:
        if error.status == _UNANSWERED:
            keeper.unanswered(seconds)
        else:
            keeper.answered(clock() - began, keeping.pause)
        raise
    keeper.answered(clock() - began, keeping.pause)
    return found
