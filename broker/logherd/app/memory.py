"""Memory: what the system grants this process, by its control groups and the machine.

A process that takes more is killed by the kernel, whoever made it do so; so what clients can make it keep goes by this.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

__all__ = ["BUFFERS_MAX", "buffers_for", "granted_memory"]

BUFFERS_MAX = 256 << 20
_BUFFERS_MIN = 16 << 20
_PART = 4
"""The rest is for the process itself and for the files that the kernel keeps for it."""
_CONTROL_GROUPS = Path("/sys/fs/cgroup")


def granted_memory(own: Path = Path("/proc/self/cgroup"), root: Path = _CONTROL_GROUPS) -> int:
    """Bytes that this process, and whatever shares its control groups, can have: the least of all limits that can be
    seen from here, and what the machine has. Blocks for a few reads.

    Source: cgroups(7); memory.max of version 2, memory.limit_in_bytes of version 1.
    """
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_limits(own, root)])


def _limits(own: Path, root: Path) -> Iterator[int]:
    try:
        lines = own.read_text().splitlines()
    except OSError:  # no control groups
        return
    for line in lines:
        _, controllers, inside = line.split(":", 2)
        if not controllers:
            folder, name = root, "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = root / "memory", "memory.limit_in_bytes"
        else:
            continue
        path = PurePosixPath(inside)
        for group in (path, *path.parents):  # a container sees its own group where the root would be
            with suppress(OSError, ValueError):  # ValueError: "max"
                yield int((folder / str(group).lstrip("/") / name).read_text())


def buffers_for(granted: int) -> int:
    """Bytes that may be kept for clients by a process that can have `granted` bytes, where the settings do not say."""
    return max(_BUFFERS_MIN, min(BUFFERS_MAX, granted // _PART))
