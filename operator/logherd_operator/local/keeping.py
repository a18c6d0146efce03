"""Keeping a group: look, plan, do one thing, say so; again and again, until told to stop.

What runs, runs without a keeper, too: guardians restart their processes, controllers elect leaders. A keeper brings
about what the file says, and starts guardians. There is at most one, who holds the folder's lock.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain, islice

from logherd_operator.cluster.look import orders_of
from logherd_operator.local.acting import Acting, worded
from logherd_operator.local.addresses import Addresses
from logherd_operator.local.changes import GroupFile, check_change, check_settings, read_group
from logherd_operator.local.errors import LocalError
from logherd_operator.local.files import Files
from logherd_operator.local.folder import Folder
from logherd_operator.local.look import Look, look_at
from logherd_operator.local.places import Places
from logherd_operator.local.reasons import is_refused, why_not_served
from logherd_operator.local.state import GroupState
from logherd_operator.local.telling import Telling
from logherd_operator.observed.observed import Observed
from logherd_operator.plan.outcome import Plan
from logherd_operator.plan.pace import Pace
from logherd_operator.plan.planner import plan
from logherd_operator.spec.errors import SpecError
from logherd_operator.spec.group import BrokerGroup, BrokerGroupSpec

__all__ = ["PACE", "Keeping", "Turn"]

PACE = Pace(
    election_rest=1.0, starting=20.0, caught_up=0.5, unschedulable=10.0, stalled=60.0, stuck=30.0, busy=0.1, held=1.0,
    idle=1.0,
)  # fmt: skip
"""On one machine nothing waits for schedulers or volumes."""
_SOAK_SECONDS = 1
_UNSERVED_SECONDS, _STARTING_SECONDS = 10.0, 30.0
"""An election, and a start on a busy machine, take less: so long it is no news that nobody serves."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What was seen and what is being done."""

    look: Look
    plan: Plan
    again_seconds: float


class Keeping:
    """Of one group whose folder is locked by this process. `say` takes sentences for people."""

    def __init__(self, group: BrokerGroup, file: GroupFile, places: Places, folder: Folder, say: Callable[[str], None]):
        self.group = group
        self.fault: str | None = None
        """What is wrong with the file as it was saved last; what was in force before stays so."""
        self._file = file
        self._places = places
        self._folder = folder
        self._telling = Telling(say)
        self._since: dict[str, float] = {}
        self._published: object = None
        self._served = False
        self._go_by(group)

    def _go_by(self, group: BrokerGroup) -> None:
        state = self._places.state
        self._folder.write_document("spec.json", group.model_dump(mode="json", by_alias=True, exclude_unset=True))
        self.group = group
        controllers = group.spec.controllers.embedded
        self._files = Files(
            group, Addresses(state.host, state.ports), self._folder.path,
            controllers=controllers.replicas if controllers is not None else 0, state=self._state,
        )  # fmt: skip
        self._acting = Acting(group, self._folder, self._places, self._files)

    def _state(self) -> GroupState:
        return self._places.state

    def turn(self) -> Turn:
        """Do what is next. Raises: LocalError if this machine is in the way."""
        if self._file.saved():
            self._read_again()
        self._telling.tell("place", self._places.tend(self._files))
        self._places.refresh(self._files)
        look = look_at(self._places.state, self._folder)
        decided = plan(self._observed(look), _local(self.group.spec), time.time(), PACE)
        self._since = dict(decided.since)
        done: list[tuple[str, str]] = []
        for action in decided.actions:
            refused = self._acting.carry_out(action, look)
            said = worded(action) if refused is None else f"{worded(action)}; not done yet: {refused}"
            done.append((f"{type(action).__name__}:{getattr(action, 'ordinal', '')}", said))
        tended = iter(self._places.tend(self._files) if decided.actions else ())
        first = list(islice(tended, 1))  # what a check refuses has not been done, and is not told
        self._telling.tell_done(done)
        self._telling.tell("place", chain(first, tended))
        self._served = self._served or (look.observed.group is not None and look.observed.group.led)
        if look.observed.group is not None and look.observed.group.founded and not self._state().began.founded:
            state = self._places.state
            self._places.remember(replace(state, began=replace(state.began, founded=True)))
        self._say_how_it_stands(look, decided)
        self._publish(decided)
        return Turn(look, decided, decided.again_seconds)

    def _observed(self, look: Look) -> Observed:
        platform = replace(
            look.observed.platform, broker_revision=self._files.revision("broker"),
            controller_revision=self._files.revision("controller"),
        )  # fmt: skip
        notes = {
            "annotations": self.group.metadata.annotations,
            "generation": self._places.state.generation,
        }
        observed = self._acting.with_refusals(look.observed)
        return replace(
            observed, platform=platform, orders=orders_of(notes), since=self._since, hot=self._files.hot()
        )  # fmt: skip

    # ---- the file --------------------------------------------------------------------------------------------------

    def _read_again(self) -> None:
        """Take over what the file says now, or say why not. Raises: LocalError; it is read again then."""
        try:
            self._take_over()
        except LocalError:
            self._file.read_again()
            raise

    def _take_over(self) -> None:
        source = str(self._file.path)
        try:
            group = read_group(self._file.path)
            if group == self.group:
                self.fault = None
                return
            check_change(self.group, group, source=source)
            state = self._places.state
            controllers = state.controllers or 0
            files = Files(
                group, Addresses(state.host, state.ports), self._folder.path, controllers=controllers, state=self._state
            )  # fmt: skip
            check_settings(files, self._folder, source=source)
        except SpecError as error:
            if not self._file.overtaken():
                self.fault = str(error)
                self._telling.say(f"{error}\nthe group goes on as before; save the file again when it is right")
            return
        if self._file.overtaken():
            return
        self.fault = None
        generation = self._places.state.generation + 1
        self._places.remember(replace(self._places.state, generation=generation))
        self._go_by(group)
        self._telling.say(f"{source} has changed: this is generation {generation}")

    # ---- words -----------------------------------------------------------------------------------------------------

    def _say_how_it_stands(self, look: Look, decided: Plan) -> None:
        self._telling.forget_held(decided.blocked)
        if self._served:  # while the group starts it is no news that something has to wait
            self._telling.tell_held(decided.blocked)
        patience = _UNSERVED_SECONDS if self._served or is_refused(look.observed) else _STARTING_SECONDS
        self._telling.tell_why(why_not_served(look.observed), time.monotonic(), patience=patience)

    def _publish(self, decided: Plan) -> None:
        """For `logherd status`, which is another process."""
        operation = decided.operation
        held = [
            {"code": each.code.value, "message": each.message, "unblocks": each.unblocks} for each in decided.blocked
        ]  # fmt: skip
        document = {
            "generation": self._places.state.generation,
            "doing": None if operation is None else {
                "type": operation.type.value, "state": operation.state, "message": operation.message,
            },
            "held": held,
            "fault": self.fault,
        }  # fmt: skip
        if document != self._published:
            self._folder.write_document("now.json", document)
            self._published = document


def _local(spec: BrokerGroupSpec) -> BrokerGroupSpec:
    """Nobody waits ten seconds after each restart to see whether a process of this machine is well, unless the file
    says so."""
    if "soak_seconds" in spec.update.model_fields_set:
        return spec
    return spec.model_copy(update={"update": spec.update.model_copy(update={"soak_seconds": _SOAK_SECONDS})})
