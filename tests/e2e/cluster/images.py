"""Container images without a registry: a Debian by debootstrap, LogHerd by the script that the Dockerfiles run.

An image is a file as `docker save` writes it. The base has Python and a Java runtime, so that one serves brokers,
operator and clients.
"""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compat.toolchain import built_once, digest_of, run

__all__ = ["Image", "base_layer", "file_of", "install_layer", "layer_of_files", "write_archive"]

_SUITE = "bookworm"
_PACKAGES = "python3,python3-venv,ca-certificates,openjdk-17-jre-headless,procps,tini"
_TREE = Path(__file__).parent.parent.parent.parent
_SOURCES = (
    "broker", "operator", "spark", "images", "tools", "charts", "crds", "pyproject.toml", "README.md", "LICENSE",
    "requirements.lock", "requirements-spark.lock",
)  # fmt: skip
_PATH = "PATH=/opt/logherd/bin:/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """`name` in full, as `docker.io/local/logherd:1`; `layers` are tar files, the lowest first."""

    name: str
    layers: Sequence[Path]
    command: Sequence[str] = ()
    entrypoint: Sequence[str] = ()
    environment: Sequence[str] = ()
    user: str = "10911:10911"


def base_layer() -> Path:
    """A small Debian as one tar file."""

    def build(aside: Path) -> None:
        root = aside / "root"
        # In a mount namespace of its own: what debootstrap mounts goes when it ends, however it ends.
        run(
            [
                "unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={_PACKAGES}",
                _SUITE, str(root), _mirror(),
            ],
            aside,
        )  # fmt: skip
        for folder in ("var/cache/apt/archives", "var/lib/apt/lists"):
            shutil.rmtree(root / folder, ignore_errors=True)
        run(["tar", "--sort=name", "--mtime=@0", "-C", str(root), "-cf", str(aside / "layer.tar"), "."], aside)
        shutil.rmtree(root)

    return built_once(f"cluster-base-{digest_of(_SUITE, _PACKAGES)}", build) / "layer.tar"


def _mirror() -> str:
    """Where this machine gets its own packages from, or what LOGHERD_DEBIAN says."""
    chosen = os.environ.get("LOGHERD_DEBIAN", "")
    folder = Path("/etc/apt")
    for path in (folder / "sources.list", *sorted(folder.glob("sources.list.d/*"))):
        if not chosen and path.is_file():
            found = re.search(
                r"^(?:URIs:|deb(?: \[[^]]*\])?)\s+(http\S+/debian/?)(?:\s|$)", path.read_text(), re.MULTILINE
            )
            chosen = found[1] if found else ""
    if not chosen:
        raise RuntimeError("no Debian mirror in this machine's configuration; name one in LOGHERD_DEBIAN")
    return chosen


def install_layer(*extras: str, lock: str = "", programs: Mapping[str, str] | None = None) -> Path:
    """LogHerd in /opt/logherd on top of the base, as `images/install` puts it there with these extras.

    `lock`: this file's packages instead; `programs`: more for its `bin`, by name, from the tree.
    """
    base = base_layer()
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *_SOURCES], cwd=_TREE,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = [name for name in listed.stdout.split("\0") if name and (_TREE / name).is_file()]

    def build(aside: Path) -> None:
        root = aside / "root"
        root.mkdir()
        run(["tar", "-C", str(root), "-xf", str(base)], aside)
        for name in names:
            place = root / "src" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(_TREE / name, place)
        _lend_configuration(root)
        environment = {**_ENVIRONMENT, "LOCK": lock}
        run(["unshare", "--mount", "sh", "-euc", _INSTALL, "sh", str(root), *extras], aside, environment)
        for name, source in (programs or {}).items():
            target = root / "opt" / "logherd" / "bin" / name
            shutil.copy(_TREE / source, target)
            target.chmod(0o755)
        tar = ["tar", "--sort=name", "--mtime=@0", "-C", str(root), "-cf", str(aside / "layer.tar"), "opt/logherd"]
        run(tar, aside)
        shutil.rmtree(root)

    what = "-".join(("logherd", *extras, *(programs or {})))
    key = digest_of(*(_TREE / name for name in names), _PACKAGES, lock, *extras)
    return built_once(f"cluster-image-{what}-{key}", build) / "layer.tar"


_INSTALL = """
root=$1; shift
mount --bind /proc "$root/proc"
mount --bind /dev "$root/dev"
for each in /opt/wheels; do
    if [ -d "$each" ]; then mkdir -p "$root$each"; mount --bind "$each" "$root$each"; fi
done
chroot "$root" /src/images/install /opt/logherd "$@"
"""
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TMPDIR": "/tmp",
    "HOME": "/root",
}
"""What this machine has elsewhere is not there inside."""


def _lend_configuration(root: Path) -> None:
    """How this machine reaches names and package indexes, for the build only: it is not in the layer."""
    for name in ("etc/resolv.conf", "etc/hosts", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt"):
        if Path("/", name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path("/", name), root / name)


def layer_of_files(directory: Path, files: dict[str, str]) -> Path:
    """A layer of a few executable files, by their paths."""
    path = directory / f"layer-{hashlib.sha256(json.dumps(files).encode()).hexdigest()[:12]}.tar"
    with tarfile.open(path, "w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text.encode()), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


def file_of(layer: Path, name: str) -> str:
    """The text of a file in a layer."""
    with tarfile.open(layer) as archive:
        found = archive.extractfile(name)
        return "" if found is None else found.read().decode()


def write_archive(images: Sequence[Image], path: Path) -> None:
    """All images in one file; a layer that several share is in it once."""
    digests: dict[Path, str] = {}
    manifest = []
    with tempfile.TemporaryDirectory(dir=path.parent) as folder, tarfile.open(path, "w") as archive:
        for image in images:
            for layer in image.layers:
                if layer not in digests:
                    digests[layer] = _digest(layer)
                    archive.add(layer, f"{digests[layer]}.tar")
            text = json.dumps(_configuration(image, [digests[layer] for layer in image.layers]))
            config = Path(folder) / f"{hashlib.sha256(text.encode()).hexdigest()}.json"
            if not config.exists():
                config.write_text(text)
                archive.add(config, config.name)
            layers = [f"{digests[layer]}.tar" for layer in image.layers]
            manifest.append({"Config": config.name, "RepoTags": [image.name], "Layers": layers})
        entry = tarfile.TarInfo("manifest.json")
        data = json.dumps(manifest).encode()
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))


def _configuration(image: Image, digests: Sequence[str]) -> dict[str, object]:
    environment = [_PATH, "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1", *image.environment]
    return {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": image.user, "Env": environment, "WorkingDir": "/tmp", "Cmd": list(image.command),
            "Entrypoint": list(image.entrypoint), "Labels": {"name": image.name},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
    }  # fmt: skip


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
