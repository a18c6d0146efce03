"""`logherd up`: read the file, refuse what cannot be done, bring the group up, then stay beside it or leave somebody
who does.
"""

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from logherd_operator.local.addresses import Addresses, Ports, check_ports, choose_ports
from logherd_operator.local.changes import GroupFile, check_change, read_group
from logherd_operator.local.checking import Checking
from logherd_operator.local.disk import check_disk
from logherd_operator.local.errors import LocalError
from logherd_operator.local.files import name_servers
from logherd_operator.local.folder import DEFAULT_PARENT, Folder
from logherd_operator.local.keeping import Keeping, Turn
from logherd_operator.local.nursery import Nursery
from logherd_operator.local.places import Places
from logherd_operator.local.processes import is_alive, lives, start_process, started_ticks
from logherd_operator.local.reasons import why_not_served
from logherd_operator.local.signals import LetGo, finishing, undivided
from logherd_operator.local.state import GroupState, PlaceState, Process
from logherd_operator.local.strays import with_strays
from logherd_operator.local.support import kubernetes_only
from logherd_operator.local.watching import Watching
from logherd_operator.spec.errors import OperatorError
from logherd_operator.spec.group import BrokerGroup

__all__ = ["Ahead", "UpOptions", "bring_up", "keep_on"]

STOP_SECONDS = 30.0
_KEEPER = "logherd_operator.local"
_ALL_SECONDS = 3.0
"""Once the group serves, so long is waited for the rest of it before the greeting."""
_STARTING_SECONDS = 0.05
_TRY_AGAIN_SECONDS = 1.0
_CANNOT_START = (2, 3)
_STARTS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """How to start: where to listen, whether to let go of the terminal, how long to wait until it serves."""

    host: str
    ports: Ports
    detach: bool
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Ahead:
    """Processes that were begun before this module was imported."""

    checking: Checking
    nursery: Nursery

    def close(self) -> None:
        """End those that were not needed, as where everything runs already."""
        self.checking.close()
        self.nursery.close()


def bring_up(file: Path, data: Path | None, options: UpOptions, watching: Watching, ahead: Ahead) -> int:
    """Start the group; in the foreground, keep it until Ctrl-C. The result is the exit code.

    Raises: SpecError if the file is wrong, LocalError if this machine is in the way; nothing of it runs then.
    """
    group_file = GroupFile(file)
    group = read_group(file)
    folder = Folder(data or DEFAULT_PARENT / group.metadata.name)
    folder.prepare()
    lock = _locked(folder)
    with lock, _parting(group.metadata.name, watching):
        folder.make_token()
        places = Places(folder, _begin(group, file, folder, options), ahead.checking, ahead.nursery)
        keeping = Keeping(group, group_file, places, folder, watching.say)
        adopted = any(each.guardian is not None for each in places.state.places)
        try:
            turn = _until_it_serves(keeping, places, options.wait_seconds, watching)
            ahead.close()
            greeting = _greeting(places.state, folder, _notes(group, turn), named=data is not None)
        except LetGo:
            raise
        except BaseException:
            with finishing():
                watching.close()
                if not adopted:
                    _give_up(places)
            raise
        if options.detach:
            _leave_keeper(folder, places, lock)
            for line in greeting:
                watching.say(line)
            return 0
        return _stay(keeping, places, folder, watching, greeting)
    return 0


def keep_on(folder: Folder, lock: IO[str], say: Callable[[str], None]) -> int:
    """Keep a group that another process has brought up, and whose lock is handed on. Until SIGTERM.

    Raises: LocalError, SpecError.
    """
    state = folder.read()
    if state is None:
        raise LocalError(f"{folder.path}: no group was started in this folder")
    path = Path(state.file)
    watching = Watching(say)
    with lock, _parting(state.group, watching):
        places = Places(folder, with_strays(state, folder))
        with suppress(
            LocalError
        ):  # who left us may not have had the room to write down who we are; the turns try again
            places.remember(replace(places.state, keeper=_own_mark()))
        # What is in force is what was accepted; what was saved since then is judged in the first turn.
        keeping = Keeping(_accepted(folder), GroupFile(path, seen=False), places, folder, watching.say)
        return _stay(keeping, places, folder, watching, [])
    return 0


@contextmanager
def _parting(group: str, watching: Watching) -> Iterator[None]:
    """Whenever `logherd down` takes over, leave the group as it is then."""
    try:
        yield
    except LetGo:
        with finishing():
            watching.close()
            watching.say(f"{group}: logherd down stops it")


def _locked(folder: Folder) -> IO[str]:
    lock = folder.lock()
    if lock is not None:
        return lock
    state = folder.read()
    keeper = state.keeper if state is not None else None
    if state is None or keeper is None or not is_alive(keeper.pid, keeper.ticks):
        raise LocalError(f"{folder.path}: another logherd up or down is at work here; try again")
    raise LocalError(
        f"{state.group} is already running, kept by pid {keeper.pid}: what is saved in {state.file} is applied; "
        "stop it with logherd down"
    )


def _begin(group: BrokerGroup, file: Path, folder: Folder, options: UpOptions) -> GroupState:
    """The state to go on from: what is remembered, or a new one. Raises: LocalError, SpecError."""
    known, name = folder.read(), group.metadata.name
    if known is not None and known.group != name:
        raise LocalError(f"{folder.path}: belongs to the group {known.group}; choose another folder for {name}: --data")
    known = None if known is None else with_strays(known, folder)
    if known is not None and known.places and not any(each.guardian or each.started_at for each in known.places):
        known = None  # a file that was refused at the first start binds nobody: nothing depends on what stood in it
    spec, own = group.spec, group.spec.controllers.embedded
    controllers = own.replicas if own is not None else 0
    running = known is not None and any(lives(each.guardian) for each in known.places)
    ports = known.ports if known is not None and running else choose_ports(options.host, options.ports)
    host = known.host if known is not None and running else options.host
    addresses = Addresses(host, ports)
    if known is not None:
        _check_former(folder, group, source=str(file))
    if not running:
        brokers = known.brokers if known is not None and known.brokers is not None else spec.replicas
        check_ports(addresses, controllers=controllers, brokers=max(brokers, spec.replicas))
        check_disk(folder.path, spec.storage.reserved_percent)
    if known is not None and not running:  # after a crash of the machine it says what ran before
        ended = tuple(replace(each, guardian=None, told=None, starts=0) for each in known.places if not each.leaving)
        known = replace(known, places=ended)
    state = known or GroupState(group=name, host=host, ports=ports, file=str(file))
    state = replace(
        state, host=host, ports=ports, file=str(file.absolute()), cluster=spec.cluster_name or name,
        name_servers=name_servers(group, addresses, controllers), keeper=_own_mark(),
        began=replace(state.began, mode=spec.replication.mode),
    )  # fmt: skip
    folder.write(state)
    return state


def _check_former(folder: Folder, group: BrokerGroup, *, source: str) -> None:
    try:
        before = _accepted(folder)
    except LocalError:  # of another version, or never accepted
        return
    check_change(before, group, source=source)


def _accepted(folder: Folder) -> BrokerGroup:
    """The BrokerGroup in force. Raises: LocalError."""
    try:
        return BrokerGroup.model_validate(folder.document("spec.json"))
    except ValueError as error:
        raise LocalError(f"{folder.path / 'spec.json'}: is no BrokerGroup: {error}") from error


def _own_mark() -> Process:
    return Process(os.getpid(), started_ticks(os.getpid()) or 0)


def _until_it_serves(keeping: Keeping, places: Places, seconds: float, watching: Watching) -> Turn:
    """Turn until clients are answered, and for a moment more until all replicas are in sync. The last turn."""
    deadline = time.monotonic() + seconds
    serving_at: float | None = None
    while True:
        turn = keeping.turn()
        watching.show(turn)
        now = time.monotonic()
        if _serves(turn):
            serving_at = now if serving_at is None else serving_at
            if _whole(turn, places.state) or now - serving_at > _ALL_SECONDS:
                return turn
        elif hopeless := _hopeless(places.state, turn):
            raise LocalError(hopeless)
        if now > deadline:
            raise LocalError(f"no client is answered after {seconds:.0f} s: {_why(turn)}; --wait gives it longer")
        time.sleep(_STARTING_SECONDS)


def _serves(turn: Turn) -> bool:
    group = turn.look.observed.group
    if group is None or not group.led:
        return False
    slot = turn.look.observed.broker(group.leader or 0)
    leads = slot is not None and slot.report is not None and slot.report.role == "leader"
    return leads and len(group.in_sync) >= group.rules.min_in_sync


def _whole(turn: Turn, state: GroupState) -> bool:
    group = turn.look.observed.group
    ready = all(each.ready for each in (*turn.look.observed.brokers, *turn.look.observed.controllers) if each.instance)
    return group is not None and ready and all(group.settled(n + 1) for n in range(state.brokers or 0))


def _hopeless(state: GroupState, turn: Turn) -> str:
    """Somebody cannot start, and another try would not change that."""
    look = turn.look.observed
    for place in state.places:
        slots = look.brokers if place.component == "broker" else look.controllers
        instance = next((each.instance for each in slots if each.ordinal == place.ordinal), None)
        if instance is not None and instance.failing and not _may_get_well(place):
            return f"{place.name} cannot start: {instance.failing}"
    return ""


def _may_get_well(place: PlaceState) -> bool:
    """A guardian that was killed is started again. One that lives has told that its process cannot start."""
    guardian = place.guardian
    if guardian is None or is_alive(guardian.pid, guardian.ticks):
        return False
    return place.ended not in _CANNOT_START and place.starts < _STARTS_MAX


def _why(turn: Turn) -> str:
    """What the group says of itself; else the last thing that the planner is held back by, the closest to the cause."""
    why = why_not_served(turn.look.observed).removesuffix(".")
    if turn.plan.blocked and (turn.look.observed.group is None or not why):
        return f"{turn.plan.blocked[-1].message}; it takes: {turn.plan.blocked[-1].unblocks}"
    return why or "no broker leads"


def _give_up(places: Places) -> None:
    """Nobody is told of these processes, so nobody would stop them."""
    for _ in places.stop(STOP_SECONDS):
        pass


def _leave_keeper(folder: Folder, places: Places, lock: IO[str]) -> None:
    """Start the process that looks after the group from now on, and give it the lock."""
    waits, word = os.pipe()  # it writes the same file as we do, and waits until we have
    command = [sys.executable, "-P", "-m", _KEEPER, str(folder.path), str(lock.fileno()), str(waits)]
    # A keeper of whom nobody knows has the lock for ever.
    with undivided(), os.fdopen(waits, "rb"), os.fdopen(word, "wb"):
        process = start_process(command, output=folder.own_log, inherited=(lock.fileno(), waits))
        places.remember(replace(places.state, keeper=Process(process.pid, started_ticks(process.pid) or 0)))


def _notes(group: BrokerGroup, turn: Turn) -> list[str]:
    """What whoever reads the greeting should know."""
    elsewhere, why = kubernetes_only(group), why_not_served(turn.look.observed)
    notes = [f"these take effect only on Kubernetes: {', '.join(elsewhere)}"] if elsewhere else []
    return [*notes, why] if why else notes


def _greeting(state: GroupState, folder: Folder, notes: list[str], *, named: bool) -> list[str]:
    option = f" --data {shlex.quote(str(folder.path))}" if named else ""
    brokers = f"{state.brokers} broker{'' if state.brokers == 1 else 's'}"
    controllers = f"{state.controllers} controller{'' if state.controllers == 1 else 's'}"
    lines = [
        f"{state.group} is ready: {brokers}, {controllers}, name server at {state.name_servers[0]}",
        f"  data    {folder.path}",
        f"  look    logherd status{option}",
        f'  try     logherd send greetings "hello" --name-server {state.name_servers[0]}',
        f"  change  {Path(state.file).name}, and save it",
        f"  stop    logherd down{option}",
    ]
    return [*lines, *(f"  note    {each}" for each in notes)]


def _stay(keeping: Keeping, places: Places, folder: Folder, watching: Watching, greeting: list[str]) -> int:
    """Keep the group until an interrupt; then stop it. Raises: LetGo."""
    try:
        # Whoever reads the greeting may interrupt before we wait: from here on an interrupt means "stop the group".
        for line in greeting:
            watching.say(line)
        if greeting:
            watching.say("Ctrl-C stops it.")
        _keep(keeping, watching)
    except KeyboardInterrupt:
        pass
    killed = False
    with finishing():
        watching.close()
        for ended in places.stop(STOP_SECONDS):
            killed = killed or ended.outcome == "killed"
            watching.say(f"{places.state.group}: {ended}")
    watching.say(f"{places.state.group}: data stays in {folder.path}")
    return 1 if killed else 0


def _keep(keeping: Keeping, watching: Watching) -> None:
    """Turn until a signal. What this machine is in the way of, as with a full disk or without descriptors, is tried
    again: whoever ended here would leave the group to nobody."""
    told = ""
    while True:
        try:
            turn = keeping.turn()
        except (OperatorError, OSError) as error:
            if str(error) != told:
                told = str(error)
                watching.say(f"{told}; this is tried again")
            time.sleep(_TRY_AGAIN_SECONDS)
            continue
        told = ""
        watching.show(turn)
        time.sleep(turn.again_seconds)
