"""What a cluster could leave on a machine."""

import shutil
import subprocess
from pathlib import Path

from e2e.cluster.machine import CGROUPS

__all__ = ["traces"]


def traces() -> dict[str, set[str]]:
    """By kind; to be compared before and after."""
    mounts = {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()}
    links = {path.name for path in Path("/sys/class/net").iterdir()}
    rules = {line for line in _said("iptables-save").splitlines() if line.startswith((":", "-A"))}
    return {
        "processes": _processes(),
        # Others may work on this machine meanwhile.
        "mounts": {each for each in mounts if any(name in each for name in ("containerd", "kubelet", "cluster"))},
        "links": {name for name in links if name.startswith(("lhe2e", "veth", "cni"))},
        "routes": {
            line for line in _said("ip", "route").splitlines() if line.startswith(("10.244.", "10.96.", "10.201."))
        },
        "networks": {path.name for path in Path("/run/netns").glob("cni-*")},
        "rules": {line.partition(" [")[0] for line in rules if "KUBE" in line or "CNI" in line},
        "control groups": {str(path) for path in CGROUPS.glob("*/logherd-e2e-*")},
    }


_NAMES = frozenset({"containerd", "containerd-shim", "etcd", "kube-apiserver", "kube-scheduler", "kubelet", "coredns"})


def _processes() -> set[str]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            name = path.read_text().strip()
        except OSError:
            continue
        if name in _NAMES or name.startswith(("kube-", "containerd")):
            found.add(f"{path.parent.name} {name}")
    return found


def _said(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout
