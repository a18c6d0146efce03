"""A pod's processes, found among those of this machine."""

import os
from contextlib import suppress
from pathlib import Path

from e2e.cluster.machine import Machine

__all__ = ["container_process"]


def container_process(machine: Machine, pod: str, container: str) -> int:
    """The first process of a pod's container as it is known outside of the machine. Raises StopIteration."""
    listed = machine.run(
        "ctr", "-n", "k8s.io", "containers", "ls", "-q",
        f'labels."io.kubernetes.pod.name"=={pod},labels."io.kubernetes.container.name"=={container}',
    )  # fmt: skip
    tasks = dict(line.split()[:2] for line in machine.run("ctr", "-n", "k8s.io", "tasks", "ls").splitlines()[1:])
    inner = next(int(tasks[each]) for each in listed.split() if each in tasks)
    return _outer(machine, inner)


def _outer(machine: Machine, inner: int) -> int:
    """A process that the machine knows as `inner`."""
    space = os.readlink(f"/proc/{machine.pid}/ns/pid")
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        with suppress(OSError):
            ids = next(
                line for line in (folder / "status").read_text().splitlines() if line.startswith("NSpid:")
            ).split()[2:]
            if ids and ids[0] == str(inner) and _has_parent_space(folder, space):
                return int(folder.name)
    raise ProcessLookupError(f"{machine.name} has no process {inner}")


def _has_parent_space(folder: Path, space: str) -> bool:
    """Whether the process, or one that it descends from, is in this namespace of processes."""
    pid = folder.name
    while pid not in ("0", "1"):
        if os.readlink(f"/proc/{pid}/ns/pid") == space:
            return True
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        pid = next(line.split()[1] for line in lines if line.startswith("PPid:"))
    return False
