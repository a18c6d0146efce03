"""`logherd up` from `exec` to the first answered send: `python -m bench.first_send [--runs N]`.

Each run brings a group of three brokers and three controllers up twice in an empty folder: as a new group, and again
after it was stopped in order. A raw client asks the name service for a route and sends one message, again and again,
until one is answered as stored. Everything shares this machine's processors; what else keeps them busy is printed.
"""

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.place import bench_place, run_bench
from bench.sampling import cpu_seconds, family

from checkers.history import Outcome
from compat.processes import free_port
from logherd.wire.bodies import decode_body
from logherd.wire.bodies.routes import TopicRoute
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.errors import BodyError
from system.blocking import BlockingClient, NoAnswerError

__all__ = ["Start", "main", "measure_start"]

LIMIT_S = 3.0
_PATIENCE_S = 120.0
_PAUSE_S = 0.01
_TOPIC = "FirstSend"
_NEIGHBOURS = tuple(10 * n + k for n in range(3) for k in range(4) if n or k)
_FILE = """apiVersion: logherd.dev/v1alpha1
kind: BrokerGroup
metadata: {name: bench}
spec: {replicas: 3, storage: {reservedPercent: 2}}
"""


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds since `exec`: a name server answered, it gave a route, a send was answered, `logherd up` said so.

    `cpu` is what all processes of the group had used by the answered send, in seconds of processor time.
    """

    names: float
    route: float
    sent: float
    ready: float
    cpu: float


def measure_start(folder: Path) -> Start:
    """Bring the group of this folder up, send once, and stop it in order. Raises: RuntimeError if it does not serve."""
    file = folder / "group.yaml"
    file.write_text(_FILE)
    names = free_port(_NEIGHBOURS)
    command = [
        str(Path(sys.executable).with_name("logherd")), "up", "-f", str(file), "--data", str(folder / "data"),
        "--name-service-port", str(names), "--broker-port", "0", "--admin-port", "0",
    ]  # fmt: skip
    with (folder / "up.out").open("w+") as output:
        begun = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            answered, route, sent = (at - begun for at in _first_send([names, names + 10, names + 20], process))
            cpu = sum(map(_all_cpu_seconds, family(process.pid)))
            ready = _await_greeting(folder / "up.out", process) - begun
        except RuntimeError as error:
            raise RuntimeError(f"{error}\n{(folder / 'up.out').read_text()}") from error
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(_PATIENCE_S)
    return Start(answered, route, sent, ready, cpu)


def _first_send(name_servers: Sequence[int], process: "subprocess.Popen[bytes]") -> tuple[float, float, float]:
    """When a name server answered, when it knew the route, and when a send was answered as stored."""
    deadline = time.monotonic() + _PATIENCE_S
    answered: float | None = None
    routed: float | None = None
    while time.monotonic() < deadline and process.poll() is None:
        for port in name_servers:
            with contextlib.suppress(NoAnswerError, OSError, BodyError):
                with contextlib.closing(BlockingClient(port)) as client:
                    answer = client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"})
                answered = answered or time.monotonic()
                if answer.code != ResponseCode.SUCCESS:
                    continue
                broker = decode_body(TopicRoute, answer.body).brokers[0].addresses[0]
                routed = routed or time.monotonic()
                with contextlib.closing(BlockingClient(int(broker.rpartition(":")[2]))) as client:
                    if client.send(_TOPIC, 0, "first").outcome is Outcome.OK:
                        return answered, routed, time.monotonic()
        time.sleep(_PAUSE_S)
    raise RuntimeError("no send was answered")


def _await_greeting(output: Path, process: "subprocess.Popen[bytes]") -> float:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        if " is ready: " in output.read_text():
            return time.monotonic()
        time.sleep(_PAUSE_S)
    raise RuntimeError("it never said that it is ready")


def _all_cpu_seconds(pid: int) -> float:
    """Of a process and of those of its children that have ended."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return cpu_seconds(pid) + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _row(kind: str, starts: Sequence[Start]) -> str:
    sent = [each.sent for each in starts]
    middle = {
        name: statistics.median(getattr(each, name) for each in starts) for name in ("names", "route", "ready", "cpu")
    }
    return (
        f"{kind:<17}{statistics.median(sent):>8.2f}{max(sent):>8.2f}{middle['names']:>11.2f}{middle['route']:>8.2f}"
        f"{middle['ready']:>8.2f}{middle['cpu']:>8.2f}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit code is 0 if the worst run stayed within the limit."""
    parser = argparse.ArgumentParser(description="logherd up, from exec to the first answered send")
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    kinds: dict[str, list[Start]] = {"new group": [], "stopped in order": []}
    for _ in range(options.runs):
        with bench_place() as folder:
            for starts in kinds.values():
                starts.append(measure_start(folder))
                time.sleep(1)
    print(f"{options.runs} runs, {os.cpu_count()} processors, load before {load:.2f}; seconds since exec, cpu in total")
    print(f"{'first send':<17}{'p50':>8}{'worst':>8}{'name serv.':>11}{'route':>8}{'ready':>8}{'cpu':>8}")
    for kind, starts in kinds.items():
        print(_row(kind, starts))
    worst = max(each.sent for starts in kinds.values() for each in starts)
    print(f"worst first answered send, s {worst:>12.2f}  < {LIMIT_S:.0f}  {'reached' if worst < LIMIT_S else 'missed'}")
    return 0 if worst < LIMIT_S else 1


if __name__ == "__main__":
    run_bench(main)
