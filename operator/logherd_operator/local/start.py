"""Starting a group: check folder and ports, render the configuration, start the broker, wait until it serves."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from logherd_operator.local.admin import ask_ready
from logherd_operator.local.errors import LocalError
from logherd_operator.local.ports import Ports, check_ports
from logherd_operator.local.processes import is_alive, start_process, started_ticks, stop_process
from logherd_operator.local.state import Folder, GroupState, ProcessState
from logherd_operator.resources.broker_config import BrokerPlace, render_broker_config
from logherd_operator.spec.group import BrokerGroup

__all__ = ["Running", "StartOptions", "start_group"]

BROKER_ID = 0
_POLL_SECONDS = 0.03
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
    log_begin: int
    """Bytes that the log file held before this start."""


def start_group(group: BrokerGroup, folder: Folder, options: StartOptions) -> Running:
    """Start the group's broker and return when it is ready; blocks up to `options.wait_seconds`.

    Raises: LocalError if the folder or a port is not free, or the broker does not become ready; it is stopped then.
    """
    folder.prepare()
    with folder.locked():
        _check_owner(folder, group.metadata.name)
        check_ports(options.host, options.ports)
        running = _start_broker(group, folder, options)
        try:
            served = _wait_until_ready(running, folder, options.wait_seconds)
            if served is not None:
                folder.write(served)
        except BaseException:
            # Nobody is told of this broker, so nobody would stop it.
            _give_up(folder, running, options)
            raise
        if served is None:
            raise _give_up(folder, running, options)
        return Running(served, running.process, running.log_begin)


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


def _start_broker(group: BrokerGroup, folder: Folder, options: StartOptions) -> Running:
    def address(port: int) -> str:
        return f"[{options.host}]:{port}" if ":" in options.host else f"{options.host}:{port}"

    place = BrokerPlace(
        broker_id=BROKER_ID, listen=address(options.ports.broker), admin_listen=address(options.ports.admin),
        name_service_listen=address(options.ports.name_service), data_dir=str(folder.store(BROKER_ID).resolve()),
    )  # fmt: skip
    config, ready_file = folder.config(BROKER_ID), folder.ready_file(BROKER_ID)
    folder.write_text(config, json.dumps(render_broker_config(group, place), indent=2))
    ready_file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "logherd", "broker", "--config", str(config), "--ready-file", str(ready_file)]
    log = folder.log(BROKER_ID)
    log_begin = log.stat().st_size if log.exists() else 0
    process = start_process(command, output=log if options.detach else None)
    started = ProcessState(
        broker_id=BROKER_ID, pid=process.pid, started_ticks=started_ticks(process.pid) or 0,
        address=place.listen, admin_address=place.admin_listen,
    )  # fmt: skip
    external = group.spec.name_service.addresses
    name_server = external[0] if external else place.name_service_listen
    state = GroupState(group=group.metadata.name, name_server=name_server, processes=(started,))
    folder.write(state)
    return Running(state, process, log_begin)


def _wait_until_ready(running: Running, folder: Folder, seconds: float) -> GroupState | None:
    """The state with the ports that the broker really took, once it serves; None if it ended or took too long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        served = _read_ready_file(running.state, folder.ready_file(BROKER_ID))
        if served is not None and ask_ready(served.processes[0].admin_address):
            return served
        try:
            running.process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return None
    return None


def _read_ready_file(state: GroupState, path: Path) -> GroupState | None:
    try:
        told = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    process = replace(state.processes[0], address=told["address"], admin_address=told["admin"])
    return replace(state, name_server=told["nameServer"], processes=(process,))


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
    said = _last_words(folder.log(BROKER_ID), running.log_begin) if options.detach else ""
    return LocalError(f"broker {BROKER_ID} {what}{said}")


def _last_words(log: Path, begin: int) -> str:
    try:
        lines = log.read_bytes()[begin:].decode(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
    except OSError:
        return ""
    return "\n".join([f"; the last lines of {log}:", *(f"  {line}" for line in lines)])
