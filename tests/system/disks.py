"""A disk of its own for one test: a loop-mounted ext4 image that can fill up, lose power and fail its flushes.

Everything is undone by the names that were made here: mounts first, then the backing files.
"""

import fcntl
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType

__all__ = ["FailingDisk", "LoopDisk", "kernel_complaints"]

MIB = 1 << 20
_EXT4_IOC_SHUTDOWN = 0x8004587D
_SHUTDOWN_WITHOUT_LOG_FLUSH = 2
_BUSY_SECONDS_MAX = 10.0
_ORDINARY = re.compile(
    "shut down requested|Aborting journal|recovery complete|unmounting|mounted|orphan cleanup|capacity"
)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def kernel_complaints() -> list[str]:
    """The latest that the kernel says of file systems and their devices, beyond what a power cut here always brings;
    nothing where it may not be asked. It helps to explain a failure: disks of other tests are told of, too."""
    program = shutil.which("dmesg")
    if program is None:
        return []
    said = subprocess.run([program], capture_output=True, text=True, check=False).stdout.splitlines()
    return [line for line in said if re.search("EXT4-fs|JBD2|loop[0-9]", line) and not _ORDINARY.search(line)][-20:]


class LoopDisk:
    """An ext4 file system in an image file. Needs root. Use as a context manager."""

    def __init__(self, directory: Path, *, size_mib: int) -> None:
        self._image = directory / "disk.img"
        self.mount_point = directory / "disk"
        self._size_mib = size_mib
        self._mounted = False
        self.copies = 0
        """How often the image had to be copied to come back, see `mount`."""

    def __enter__(self) -> "LoopDisk":
        self.mount_point.mkdir(parents=True)
        self._make_backing()
        with self._image.open("wb") as image:
            image.truncate(self._size_mib * MIB)
        _run("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(self._image))
        self.mount()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unmount()
        self._remove_backing()

    def mount(self) -> None:
        """A mount namespace that somebody here made meanwhile (a container's, say) keeps a copy of the mount, and the
        stopped file system alive with it. Then a copy of the image is mounted."""
        self._mount()
        if self.is_dead():
            self.unmount()
            old, self._image = self._image, self._image.with_name(f"disk-{self.copies}.img")
            self.copies += 1
            _run("cp", "--sparse=always", str(old), str(self._image))
            old.unlink()
            self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.mount_point))
        self._mounted = True

    def unmount(self) -> None:
        """A process that was killed may have threads that hold files for a moment longer than it can be seen."""
        deadline = time.monotonic() + _BUSY_SECONDS_MAX
        while self._mounted:
            try:
                _run("umount", str(self.mount_point))
                self._mounted = False
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    @property
    def device(self) -> str:
        """Major and minor number of what is mounted."""
        number = self.mount_point.stat().st_dev
        return f"{os.major(number)}:{os.minor(number)}"

    @property
    def free_bytes(self) -> int:
        return shutil.disk_usage(self.mount_point).free

    def fill(self, *, leave_bytes: int) -> Path:
        """Take space until only about `leave_bytes` are free; the result is the filler to delete."""
        filler = self.mount_point / "filler"
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, self.free_bytes - leave_bytes)
        return filler

    def remove(self, filler: Path) -> None:
        """Give its space back for good: a power cut a moment later would bring it back."""
        filler.unlink(missing_ok=True)
        descriptor = os.open(self.mount_point, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lose_power(self) -> None:
        """Stop the file system as a power cut does: what was not flushed is gone. Mount it again to use it."""
        descriptor = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _EXT4_IOC_SHUTDOWN, _SHUTDOWN_WITHOUT_LOG_FLUSH.to_bytes(4, "little"))
        finally:
            os.close(descriptor)

    def is_dead(self) -> bool:
        """Whether writes to the file system fail: the proof that the power is gone."""
        probe = self.mount_point / "probe"
        try:
            probe.write_bytes(b"x")
            probe.unlink()
        except OSError:
            return True
        return False

    def _make_backing(self) -> None:
        """The image lies on the test's own disk."""

    def _remove_backing(self) -> None:
        self._image.unlink(missing_ok=True)


class FailingDisk(LoopDisk):
    """Its image lies on a tmpfs that is smaller than the image: writes fail, some are dropped silently."""

    def __init__(self, directory: Path, *, size_mib: int, good_mib: int) -> None:
        super().__init__(directory, size_mib=size_mib)
        self._backing = directory / "backing"
        self._good_mib = good_mib
        self._image = self._backing / "disk.img"

    def heal(self) -> None:
        """Give the disk all the space that it claims to have."""
        _run("mount", "-o", f"remount,size={self._size_mib + 16}m", str(self._backing))

    def _make_backing(self) -> None:
        self._backing.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={self._good_mib}m", "tmpfs", str(self._backing))

    def _remove_backing(self) -> None:
        _run("umount", str(self._backing))
