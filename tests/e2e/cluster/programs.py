"""The cluster's programs, built from Go modules whose go.sum is here, and kept in the cache folder.

Each module's are one `go build`: what they share is compiled once, and one is linked while another is compiled.
"""

import os
import platform
import shutil
from pathlib import Path

from compat.toolchain import build_helm, built_once, digest_of, find_tool, run

__all__ = ["KUBERNETES", "build_kubectl", "build_programs", "helm"]

KUBERNETES = "v1.34.4"
_GO = Path(__file__).parent.parent / "go"
_VERSION = "k8s.io/component-base/version"
_FLAGS = {
    # Without these the server calls itself v0.0.0, and clients misjudge it.
    "kubernetes": f"-X {_VERSION}.gitVersion={KUBERNETES} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=34",
}
_PACKAGES = {
    "pause": {"pause": "logherd.dev/e2e/pause"},
    "etcd": {"etcd": "go.etcd.io/etcd/server/v3"},
    "coredns": {"coredns": "logherd.dev/e2e/coredns"},
    "kubernetes": {
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in ("kube-apiserver", "kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy")
    },
    "kubectl": {"kubectl": "k8s.io/kubernetes/cmd/kubectl"},
}  # fmt: skip
"""By folder of the cache, the programs that one build makes, as Go calls them."""
_MODULE = {"kubectl": "kubernetes"}
"""The folder here, where it is called otherwise."""


def build_programs() -> dict[str, Path]:
    """Every program by its name. An empty cache costs ten minutes of two processors and 2 GB of memory."""
    return {name: _folder(module) / name for module, packages in _PACKAGES.items() for name in packages}


def build_kubectl() -> Path:
    """kubectl alone; what it shares with the others is compiled then."""
    return _folder("kubectl") / "kubectl"


def helm() -> Path:
    """Helm's program."""
    return build_helm()


def _folder(module: str) -> Path:
    go, packages, source = find_tool("go"), _PACKAGES[module], _GO / _MODULE.get(module, module)
    files = sorted(source.iterdir())
    flags = f"-s -w {_FLAGS.get(source.name, '')}".strip()
    parallel = os.environ.get("LOGHERD_GO_PARALLEL", str(os.cpu_count() or 1))

    def build(aside: Path) -> None:
        with_sources = aside / "src"
        shutil.copytree(source, with_sources)
        run(
            [
                go, "build", "-p", parallel, "-buildvcs=false", "-mod=readonly", "-trimpath", f"-ldflags={flags}",
                "-o", f"{aside}/", *packages.values(),
            ],
            with_sources, {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"},
        )  # fmt: skip
        for name, package in packages.items():
            called = next(part for part in reversed(package.split("/")) if part != "v3")
            (aside / called).rename(aside / name)
        shutil.rmtree(with_sources)

    key = digest_of(*files, flags, *packages.values(), platform.machine())
    return built_once(f"cluster-{module}-{key}", build)
