"""`logherd up`: read the file, refuse what cannot be done, start, and stay beside the broker unless told otherwise."""

from collections.abc import Callable
from pathlib import Path

from logherd_operator.local.processes import stop_process, wait_for_end
from logherd_operator.local.start import Running, StartOptions, start_group
from logherd_operator.local.state import DEFAULT_PARENT, Folder, GroupState
from logherd_operator.local.support import kubernetes_only, refusals
from logherd_operator.spec.document import parse_group
from logherd_operator.spec.errors import SpecError
from logherd_operator.spec.group import BrokerGroup

__all__ = ["bring_up", "read_group"]

STOP_SECONDS = 30.0


def read_group(file: Path) -> BrokerGroup:
    """The group in `file`, if this version can run it.

    Raises: SpecError if it cannot be read, is wrong or asks for more.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SpecError(f"{file}: is not UTF-8 text: {error.reason} at byte {error.start}") from error
    group = parse_group(text, source=str(file))
    refused = refusals(group)
    if refused:
        raise SpecError("\n".join([f"{file}: this version cannot run it", *refused]))
    return group


def bring_up(file: Path, data: Path | None, options: StartOptions, *, say: Callable[[str], None]) -> int:
    """Start the group; in the foreground, stay until Ctrl-C or its end. The result is the exit code.

    Raises: SpecError or LocalError, see `read_group` and `start_group`.
    """
    group = read_group(file)
    name = group.metadata.name
    folder = Folder(data or DEFAULT_PARENT / name)
    running = start_group(group, folder, options)
    greeting = _greeting(running.state, folder, kubernetes_only(group), named=data is not None)
    if options.detach:
        for line in greeting:
            say(line)
        return 0
    return _stay(running, folder, [*greeting, "Ctrl-C stops it."], say)


def _greeting(state: GroupState, folder: Folder, elsewhere: list[str], *, named: bool) -> list[str]:
    process = state.processes[0]
    option = f" --data {folder.path}" if named else ""
    where = f"broker {process.broker_id} at {process.address}, name server at {state.name_server}, pid {process.pid}"
    lines = [
        f"{state.group} is ready: {where}",
        f"  data    {folder.path}",
        f"  look    logherd status{option}",
        f'  try     logherd send greetings "hello" --name-server {state.name_server}',
        f"  stop    logherd down{option}",
    ]
    if elsewhere:
        lines.append(f"  note    these take effect only on Kubernetes: {', '.join(elsewhere)}")
    return lines


def _stay(running: Running, folder: Folder, greeting: list[str], say: Callable[[str], None]) -> int:
    process = running.state.processes[0]
    try:
        # Whoever reads the greeting may interrupt before we wait: from here on an interrupt means "stop the broker".
        for line in greeting:
            say(line)
        code = wait_for_end(running.process)
    except KeyboardInterrupt:
        outcome = stop_process(process.pid, process.started_ticks, seconds=STOP_SECONDS)
        running.process.wait()
        say(f"{running.state.group}: broker {process.broker_id} {outcome}; data stays in {folder.path}")
        code = 0 if outcome == "stopped" else 1
    else:
        say(f"{running.state.group}: broker {process.broker_id} ended by itself with code {code}")
        code = 0 if code == 0 else 1
    folder.write(GroupState(group=running.state.group, name_server=running.state.name_server))
    return code
