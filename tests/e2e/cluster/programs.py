"""The cluster's programs, built from Go modules whose go.sum is here, and kept in the cache folder."""

import os
import platform
import shutil
from pathlib import Path

from compat.toolchain import build_helm, built_once, digest_of, find_tool, run

__all__ = ["KUBERNETES", "build_programs", "helm"]

KUBERNETES = "v1.34.4"
_GO = Path(__file__).parent.parent / "go"
_VERSION = "k8s.io/component-base/version"
_FLAGS = {
    # Without these the server calls itself v0.0.0, and clients misjudge it.
    "kubernetes": f"-X {_VERSION}.gitVersion={KUBERNETES} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=34",
}
_PACKAGES = {
    "pause": {"pause": "."},
    "etcd": {"etcd": "go.etcd.io/etcd/server/v3"},
    "coredns": {"coredns": "."},
    "kubernetes": {
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in (
            "kubectl", "kube-scheduler", "kube-proxy", "kube-controller-manager", "kube-apiserver", "kubelet",
        )
    },
}  # fmt: skip


def build_programs() -> dict[str, Path]:
    """Every program by its name. An empty cache costs a quarter of an hour of two processors and 2 GB of memory."""
    return {name: _folder(module) / name for module, packages in _PACKAGES.items() for name in packages}


def helm() -> Path:
    """Helm's program."""
    return build_helm()


def _folder(module: str) -> Path:
    go, packages = find_tool("go"), _PACKAGES[module]
    files = sorted((_GO / module).iterdir())
    flags = f"-s -w {_FLAGS.get(module, '')}".strip()
    parallel = os.environ.get("LOGHERD_GO_PARALLEL", str(os.cpu_count() or 1))

    def build(aside: Path) -> None:
        with_sources = aside / "src"
        shutil.copytree(_GO / module, with_sources)
        for name, package in packages.items():
            run(
                [
                    go, "build", "-p", parallel, "-buildvcs=false", "-mod=readonly", "-trimpath",
                    f"-ldflags={flags}", "-o", str(aside / name), package,
                ],
                with_sources, {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"},
            )  # fmt: skip
        shutil.rmtree(with_sources)

    key = digest_of(*files, flags, *packages.values(), platform.machine())
    return built_once(f"cluster-{module}-{key}", build)
