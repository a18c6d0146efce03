"""Starting a group: check folder and ports, render the configuration, start the broker, wait until it serves."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from logherd_operator.local.admin import ask_ready
from logherd_operator.local.errors import LocalError
from logherd_operator.local.ports import Ports, choose_ports
from logherd_operator.local.processes import is_alive, start_process, started_ticks, stop_process
from logherd_operator.local.state import Folder, GroupState, ProcessState
from logherd_operator.resources.broker_config import BrokerPlace, render_broker_config
from logherd_operator.spec.group import BrokerGroup

__all__ = ["Running", "StartOptions", "start_group"]

BROKER_ID = 0
_POLL_SECONDS = 0.03
_PORT_TRIES = 3
_LOG_TAIL_LINES = 5
_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """How to start: where to listen, whether to let go of the process, how long to wait for it."""

    host: str
    ports: Ports
    detach: bool
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Running:
    """A group that serves, and the handle of its broker."""

    state: GroupState
    process: subprocess.Popen[bytes]


def start_group(group: BrokerGroup, folder: Folder, options: StartOptions) -> Running:
    """Start the group's broker and return when it is ready; blocks up to `options.wait_seconds`.

    Raises: LocalError if the folder or a port is not free, or the broker does not become ready; it is stopped then.
    """
    folder.prepare()
    with folder.locked():
        _check_owner(folder, group.metadata.name)
        for _ in range(_PORT_TRIES):
            ports = choose_ports(options.host, options.ports)
            running = _start_broker(group, folder, options, ports)
            try:
                ready = _becomes_ready(running, options.wait_seconds)
            except KeyboardInterrupt:
                _give_up(folder, running, options)
                raise
            if ready:
                return running
            # A port that was free when we looked can be gone when the broker takes it; only then is a second try right.
            if 0 not in (options.ports.name_service, options.ports.broker, options.ports.admin):
                break
            if _still_free(options.host, ports):
                break
    raise _give_up(folder, running, options)


def _check_owner(folder: Folder, name: str) -> None:
    known = folder.read()
    if known is None:
        return
    if known.group != name:
        raise LocalError(f"{folder.path}: belongs to the group {known.group}; choose another folder for {name}: --data")
    for process in known.processes:
        if is_alive(process.pid, process.started_ticks):
            raise LocalError(
                f"{name} is already running: broker {process.broker_id} at {process.address}, pid {process.pid}; "
                "stop it with logherd down"
            )


def _start_broker(group: BrokerGroup, folder: Folder, options: StartOptions, ports: Ports) -> Running:
    def address(port: int) -> str:
        return f"[{options.host}]:{port}" if ":" in options.host else f"{options.host}:{port}"

    external = group.spec.name_service.addresses
    place = BrokerPlace(
        broker_id=BROKER_ID, listen=address(ports.broker), admin_listen=address(ports.admin),
        name_service_listen=address(ports.name_service), data_dir=str(folder.store(BROKER_ID).resolve()),
    )  # fmt: skip
    config = folder.config(BROKER_ID)
    folder.write_text(config, json.dumps(render_broker_config(group, place), indent=2))
    command = [sys.executable, "-m", "logherd", "broker", "--config", str(config)]
    process = start_process(command, output=folder.log(BROKER_ID) if options.detach else None)
    started = ProcessState(
        broker_id=BROKER_ID, pid=process.pid, started_ticks=started_ticks(process.pid) or 0,
        address=place.listen, admin_address=place.admin_listen,
    )  # fmt: skip
    name_server = external[0] if external else place.name_service_listen
    state = GroupState(group=group.metadata.name, name_server=name_server, processes=(started,))
    folder.write(state)
    return Running(state, process)


def _becomes_ready(running: Running, seconds: float) -> bool:
    admin_address = running.state.processes[0].admin_address
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if ask_ready(admin_address):
            return True
        try:
            running.process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return False
    return False


def _still_free(host: str, ports: Ports) -> bool:
    try:
        choose_ports(host, ports)
    except LocalError:
        return False
    return True


def _give_up(folder: Folder, running: Running, options: StartOptions) -> LocalError:
    code = running.process.poll()
    started = running.state.processes[0]
    if code is None:
        stop_process(started.pid, started.started_ticks, seconds=_STOP_SECONDS)
        code = running.process.wait()
        what = f"did not become ready within {options.wait_seconds:.0f} s and was stopped; --wait gives it longer"
    else:
        what = f"ended with code {code} before it was ready"
    folder.write(GroupState(group=running.state.group, name_server=running.state.name_server))
    said = _last_words(folder.log(BROKER_ID)) if options.detach else ""
    return LocalError(f"broker {BROKER_ID} {what}{said}")


def _last_words(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
    except OSError:
        return ""
    return "\n".join([f"; the last lines of {log}:", *(f"  {line}" for line in lines)])
