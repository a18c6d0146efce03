"""The tools that the compatibility tests and the benchmark need: JDK, Maven, Go, and what is built with them.

Everything built lands in a cache outside the tree, `$LOGHERD_CACHE` or `~/.cache/logherd`, under a name made from the
content it was built from. An empty cache works and costs the downloads; two runs at once do not disturb each other,
because each builds aside and renames.
"""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "BUILT",
    "JAVA_DIRECTORY",
    "MissingTool",
    "build_go",
    "build_helm",
    "class_path",
    "compile_java",
    "find_tool",
    "install_python_client",
    "module_folder",
]

HERE = Path(__file__).parent
JAVA_DIRECTORY = HERE / "java"
REASONS = {
    "java": "a JDK 17 or newer runs the stock Java client and the RocketMQ broker to compare with",
    "javac": "a JDK 17 or newer compiles the Java drivers",
    "mvn": "Maven fetches the stock Java client",
    "go": "Go builds the stock Go client",
}


BUILT: list[tuple[str, float]] = []
"""What this process had to build, and the seconds that took: for whoever tells how long a run was."""


class MissingTool(Exception):
    """A tool is not on the PATH; the text names it and says what it is for."""


def find_tool(name: str) -> str:
    """The tool's path. Raises MissingTool."""
    found = shutil.which(name)
    if found is None:
        raise MissingTool(f"{name} is not installed: {REASONS[name]}")
    return found


def cache_directory() -> Path:
    return Path(os.environ.get("LOGHERD_CACHE", Path.home() / ".cache" / "logherd")) / "compat"


def digest_of(*parts: Path | str) -> str:
    """A name for what is built from these files and words."""
    total = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else part.encode()
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()[:16]


@contextmanager
def one_builder(name: str) -> Iterator[None]:
    """Only one process at a time builds the thing called `name`."""
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def built_once(name: str, build: Callable[[Path], None]) -> Path:
    """The directory `name` of the cache, made by `build(directory)` if it is not there yet."""
    target = cache_directory() / name
    if target.exists():
        return target
    with one_builder(name):
        if not target.exists():
            aside, begin = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache_directory())), time.monotonic()
            try:
                build(aside)
                aside.rename(target)
                BUILT.append((name, time.monotonic() - begin))
            finally:
                shutil.rmtree(aside, ignore_errors=True)
    return target


def run(command: list[str], directory: Path, environment: dict[str, str] | None = None) -> None:
    """Run a build step. Raises RuntimeError with the end of what it printed."""
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:2])} failed with {done.returncode}:\n{done.stdout[-4000:]}")


def class_path(pom: Path = JAVA_DIRECTORY / "pom.xml") -> str:
    """The jars that a Maven project depends on, as a class path."""
    maven, _ = find_tool("mvn"), find_tool("java")

    def build(aside: Path) -> None:
        # Maven writes target/ beside the pom, so it works on a copy.
        shutil.copy(pom, aside / "pom.xml")
        run([maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={aside / 'lib'}"], aside)

    return str(built_once(f"{pom.parent.name}-lib-{digest_of(pom)}", build) / "lib" / "*")


def compile_java(*sources: Path, pom: Path = JAVA_DIRECTORY / "pom.xml") -> str:
    """Class path of the drivers in these source folders, compiled, with the jars of the Maven project."""
    jars, compiler = class_path(pom), find_tool("javac")
    files = sorted(file for source in sources for file in source.rglob("*.java"))

    def build(aside: Path) -> None:
        flags = ["-nowarn", "-encoding", "UTF-8", "-d", str(aside)]
        run([compiler, *flags, "-cp", jars, *map(str, files)], aside)

    return f"{built_once(f'{pom.parent.name}-classes-{digest_of(pom, *files)}', build)}:{jars}"


def build_go(source: Path) -> Path:
    """The program built from a Go module's folder."""
    go = find_tool("go")
    files = sorted(file for file in source.iterdir() if file.suffix in {".go", ".mod", ".sum"})

    def build(aside: Path) -> None:
        for file in files:
            shutil.copy(file, aside)
        run([go, "build", "-buildvcs=false", "-o", "program", "."], aside, {"GOFLAGS": "-mod=readonly"})

    return built_once(f"{source.name}-{digest_of(*files)}", build) / "program"


def install_python_client() -> Path:
    """The folder that has the stock client for Python: `rocketmq` of PyPI, which brings the C++ client along."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise MissingTool(f"the stock client for Python runs on Linux on x86-64, this is {platform.platform()}")
    lock = HERE / "python" / "requirements.lock"

    def build(aside: Path) -> None:
        what = ["--quiet", "--no-deps", "--require-hashes", "--requirements", str(lock)]
        installer = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--python", sys.executable]
        run([*installer, "--target", str(aside), *what], aside, {"UV_SYSTEM_CERTS": "true"})

    return built_once(f"python-client-{digest_of(lock)}", build)


def build_helm() -> Path:
    """Helm, built from its Go module; it believes in a cluster of this Kubernetes where none is there to ask."""
    go = find_tool("go")
    version = "helm.sh/helm/v3/cmd/helm@v3.19.0"
    flags = " ".join(f"-X helm.sh/helm/v3/pkg/chartutil.k8sVersion{each}" for each in ("Major=1", "Minor=34"))

    def build(aside: Path) -> None:
        run([go, "install", f"-ldflags={flags}", version], aside, {"GOBIN": str(aside)})

    return built_once(f"helm-{digest_of(version, flags)}", build) / "helm"


def module_folder(module: str) -> Path:
    """The source of a Go module, PATH@VERSION, fetched and checked by Go."""
    done = subprocess.run(
        [find_tool("go"), "mod", "download", "-json", module], capture_output=True, text=True, timeout=300, check=True,
        cwd=tempfile.gettempdir(),
    )  # fmt: skip
    return Path(json.loads(done.stdout)["Dir"])
