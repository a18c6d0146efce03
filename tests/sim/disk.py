"""A disk that loses power, fills up and fails to flush: the store's Files protocol in memory, every fault drawn from a
seed.

What survives what:
- a process crash keeps everything written (`crash(power=False)`);
- a power loss keeps what was flushed, names whose directory was synced, and of the rest whatever the generator draws:
  each pending write is lost, whole, torn at 512 B or 4 KiB, or interleaved by sector; sizes and names likewise. Files
  named `fine` tear at any byte. Pages of a writable mapping may have become durable unasked;
- a failed flush leaves its pages clean: reads give the new bytes, a second flush succeeds, power loss loses them.
"""

import errno
from collections.abc import Iterator, Sequence
from random import Random

SECTOR = 512
PAGE = 4096


class SimulatedCrash(BaseException):
    """The machine stopped at this call. Not an Exception: nothing may catch it."""


class _Inode:
    """One file's bytes. `base` has a fixed length once it is mapped; `extra` is what was written behind it."""

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = bytearray(durable)
        self.base = bytearray(durable)
        self.extra = bytearray()
        self.mapped = False
        self.writable_map = 0
        self.pending: list[tuple[int, bytes]] = []
        self.sizes: list[int] = []
        self.clean: dict[int, bytes] = {}
        """Pages that a failed flush has left clean, and what the disk holds of them; a write makes one dirty again."""

    @property
    def size(self) -> int:
        return len(self.base) + len(self.extra)

    def content(self) -> bytes:
        return bytes(self.base) + bytes(self.extra)

    def read(self, at: int, size: int) -> bytes:
        behind = max(at - len(self.base), 0)
        return (bytes(self.base[at : at + size]) + bytes(self.extra[behind : behind + size]))[:size]

    def resize(self, size: int) -> None:
        if self.mapped:
            assert size >= len(self.base), "a mapped part is never cut off"
            grown = self.extra
            size -= len(self.base)
        else:
            grown = self.base
        if size < len(grown):
            del grown[size:]
        else:
            grown.extend(bytes(size - len(grown)))
        self.sizes.append(self.size)

    def write(self, at: int, data: bytes) -> None:
        if at + len(data) > self.size:
            self.resize(at + len(data))
        split = max(min(len(self.base) - at, len(data)), 0)
        if split:
            self.base[at : at + split] = data[:split]
        if split < len(data):
            start = at + split - len(self.base)
            self.extra[start : start + len(data) - split] = data[split:]
        self.pending.append((at, data))
        if self.clean:
            for page in range(at // PAGE, (at + len(data) - 1) // PAGE + 1):
                self.clean.pop(page, None)

    def flush(self) -> None:
        self.durable = bytearray(self.content())
        for page, held in self.clean.items():
            end = min(page * PAGE + len(held), len(self.durable))
            self.durable[page * PAGE : end] = held[: end - page * PAGE]
        self.pending.clear()
        self.sizes.clear()

    def mapped_pages_are_pending(self) -> None:
        """The process that held a writable mapping is gone; its stores are in the cache like any write."""
        if self.writable_map:
            self.pending.append((0, self.content()[: self.writable_map]))
            self.writable_map = 0

    def forget_pending(self) -> None:
        """After a failed flush: the cache keeps the bytes and believes them clean; the disk does not have them."""
        for at, data in self.pending:
            for page in range(at // PAGE, (at + len(data) - 1) // PAGE + 1):
                held = bytes(self.durable[page * PAGE : (page + 1) * PAGE])
                self.clean.setdefault(page, held + bytes(PAGE - len(held)))
        self.pending.clear()
        self.sizes.clear()

    def after_power_loss(self, random: Random, *, fine: bool = False) -> bytes:
        size = random.choice([len(self.durable), *self.sizes]) if self.sizes else len(self.durable)
        content = bytearray(self.durable)
        for at, data in self.pending:
            _apply(content, at, data, random, random.choice((1, 8, 64)) if fine else SECTOR)
        if self.writable_map:
            cached = self.content()[: self.writable_map]
            content.extend(bytes(max(len(cached) - len(content), 0)))
            for at in range(0, len(cached), SECTOR):
                if random.random() < 0.5:
                    content[at : min(at + SECTOR, len(cached))] = cached[at : at + SECTOR]
        content.extend(bytes(max(size - len(content), 0)))
        return bytes(content[:size])


def _apply(content: bytearray, at: int, data: bytes, random: Random, sector: int) -> None:
    kind = random.randrange(5)
    if kind == 0:
        return
    content.extend(bytes(max(at + len(data) - len(content), 0)))
    if kind == 1:
        content[at : at + len(data)] = data
    elif kind in (2, 3):
        unit = sector if kind == 2 or sector < SECTOR else PAGE
        edges = range(at - at % unit + unit, at + len(data), unit)
        end = random.choice(edges) if edges else at
        content[at:end] = data[: end - at]
    else:
        start = at
        while start < at + len(data):
            end = min(start - start % sector + sector, at + len(data))
            if random.random() < 0.5:
                content[start:end] = data[start - at : end - at]
            start = end


class SimFile:
    """The File protocol on one inode."""

    def __init__(self, disk: "SimDisk", path: str, inode: _Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._open = True

    def size(self) -> int:
        return self._inode.size

    def block_bytes(self) -> int:
        return PAGE

    def read(self, at: int, size: int) -> bytes:
        assert self._open
        return self._inode.read(at, size)

    def write(self, at: int, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        assert self._open
        data = b"".join(parts)
        self._disk.reserve(max(at + len(data) - self._inode.size, 0))
        self._inode.write(at, data)
        self._disk.count("write", self._path)

    def write_through(self, at: int, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        self.write(at, parts)
        self.flush()

    def allocate(self, size: int) -> None:
        self._disk.reserve(max(size - self._inode.size, 0))
        if size > self._inode.size:
            self._inode.resize(size)
        self._disk.count("allocate", self._path)

    def truncate(self, size: int) -> None:
        self._inode.resize(size)
        self._disk.count("truncate", self._path)

    def flush(self, at: int = 0, size: int | None = None) -> None:
        assert self._open
        if self._disk.take_flush_failure(self._path):
            self._inode.forget_pending()
            raise OSError(errno.EIO, "simulated", self._path)
        self._inode.flush()
        self._disk.count("flush", self._path)

    def map(self, size: int) -> memoryview:
        assert size <= self._inode.size
        if not self._inode.mapped:
            self._inode.base += self._inode.extra
            self._inode.extra = bytearray()
            self._inode.extra[:] = self._inode.base[size:]
            del self._inode.base[size:]
            self._inode.mapped = True
        return memoryview(self._inode.base)[:size].toreadonly()

    def map_writable(self, size: int) -> memoryview:
        self.map(size)
        self._inode.writable_map = size
        return memoryview(self._inode.base)[:size]

    def uncache(self, at: int, size: int) -> None:
        assert self._open
        self._disk.uncached.append((self._path, at, size))

    def written_ranges(self, at: int) -> Iterator[tuple[int, int]]:
        if at < self._inode.size:
            yield at, self._inode.size

    def close(self) -> None:
        self._open = False


class _SimLock:
    def __init__(self, disk: "SimDisk", path: str) -> None:
        self._disk = disk
        self._path = path
        self._held = True

    def release(self) -> None:
        if self._held:
            self._disk.locks.discard(self._path)
        self._held = False


class _SimDirectory:
    def __init__(self, disk: "SimDisk", path: str) -> None:
        self._disk = disk
        self._path = path

    def sync(self) -> None:
        self._disk.sync_dir(self._path)

    def close(self) -> None:
        """It took no descriptor."""


class SimDisk:
    """The Files protocol. `capacity` in bytes."""

    def __init__(self, capacity: int = 1 << 30) -> None:
        self.capacity = capacity
        self._crash_after: int | None = None
        self._crash_at = ""
        self.trace: list[tuple[str, str]] = []
        self.uncached: list[tuple[str, int, int]] = []
        self.failing_flush: int | None = None
        self.failing_path = ""
        self.locks: set[str] = set()
        self.names: dict[str, _Inode] = {}
        self.directories: dict[str, None] = {"/": None}
        self._durable_names: dict[str, _Inode] = {}
        self._durable_directories: dict[str, None] = {"/": None}
        self._pending: dict[str, list[tuple[str, str, object]]] = {}

    # ---- faults

    def count(self, kind: str, path: str) -> None:
        self.trace.append((kind, path))
        if self._crash_after is not None and self._crash_at in f"{kind} {path}":
            self._crash_after -= 1
            if self._crash_after <= 0:
                raise SimulatedCrash(kind, path)

    def crash_after(self, calls: int | None, *, at: str = "") -> None:
        """Stop the machine at so many further changing calls whose "kind path" contains `at`; None: not any more."""
        self._crash_after = calls
        self._crash_at = at

    def reserve(self, size: int) -> None:
        if size and self.used() + size > self.capacity:
            raise OSError(errno.ENOSPC, "simulated")

    def used(self) -> int:
        return sum(inode.size for inode in self.names.values())

    def take_flush_failure(self, path: str) -> bool:
        if self.failing_flush is None or self.failing_path not in path:
            return False
        self.failing_flush -= 1
        if self.failing_flush >= 0:
            return False
        self.failing_flush = None
        return True

    def crash(self, random: Random, *, power: bool, fine: tuple[str, ...] = ()) -> "SimDisk":
        """The disk as the next process finds it. Pending writes to the files `fine` may be torn inside a sector."""
        after = SimDisk(self.capacity)
        if not power:
            after.names, after.directories, after._pending = self.names, self.directories, self._pending
            after._durable_names, after._durable_directories = self._durable_names, self._durable_directories
            for inode in self.names.values():
                inode.mapped_pages_are_pending()
        else:
            names, directories = dict(self._durable_names), dict(self._durable_directories)
            for operations in self._pending.values():
                for kind, path, value in operations:
                    if random.random() < 0.5:
                        _change(names, directories, kind, path, value)
            after.directories = {path: None for path in directories if _is_reachable(path, directories)}
            images: dict[int, _Inode] = {}
            for path, inode in names.items():
                if _parent(path) in after.directories:
                    if id(inode) not in images:
                        images[id(inode)] = _Inode(inode.after_power_loss(random, fine=path in fine))
                    after.names[path] = images[id(inode)]
            after._durable_names = dict(after.names)
            after._durable_directories = dict(after.directories)
        return after

    # ---- Files

    def open(self, path: str, *, create: bool = False) -> SimFile:
        inode = self.names.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "simulated", path)
            if _parent(path) not in self.directories:
                raise FileNotFoundError(errno.ENOENT, "simulated", path)
            inode = _Inode()
            self._change("link", path, inode)
        return SimFile(self, path, inode)

    def size(self, path: str) -> int | None:
        inode = self.names.get(path)
        return None if inode is None else inode.size

    def list(self, directory: str) -> list[str]:
        prefix = directory + "/"
        found = {path[len(prefix) :] for path in (*self.names, *self.directories) if path.startswith(prefix)}
        return sorted(name for name in found if "/" not in name)

    def make_directory(self, path: str) -> None:
        missing = []
        while path not in self.directories:
            missing.append(path)
            path = _parent(path)
        for made in reversed(missing):
            self._change("mkdir", made, None)

    def rename(self, old: str, new: str) -> None:
        self._change("rename", old, new)

    def exchange(self, one: str, other: str) -> None:
        assert one in self.names, one
        assert other in self.names, other
        self._change("exchange", one, other)

    def unlink(self, path: str) -> None:
        if path in self.names:
            self._change("unlink", path, None)

    def remove_directory(self, path: str) -> None:
        for name in self.list(path):
            self.unlink(f"{path}/{name}")
        if path in self.directories:
            removed = [inode for name, inode in self._durable_names.items() if name.startswith(path + "/")]
            self._change("rmdir", path, removed)

    def sync_dir(self, path: str) -> None:
        assert path in self.directories, path
        for kind, changed, value in self._pending.pop(path, []):
            _change(self._durable_names, self._durable_directories, kind, changed, value)
        self.count("sync_dir", path)

    def open_directory(self, path: str) -> "_SimDirectory":
        assert path in self.directories, path
        return _SimDirectory(self, path)

    def free_bytes(self, path: str) -> int:
        return self.capacity - self.used()

    def lock(self, path: str) -> _SimLock | None:
        if path in self.locks:
            return None
        self.locks.add(path)
        return _SimLock(self, path)

    def _change(self, kind: str, path: str, value: object) -> None:
        _change(self.names, self.directories, kind, path, value)
        self._pending.setdefault(_parent(path), []).append((kind, path, value))
        self.count(kind, path)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _is_reachable(path: str, directories: dict[str, None]) -> bool:
    while path != "/":
        if path not in directories:
            return False
        path = _parent(path)
    return True


def _change(names: dict[str, _Inode], directories: dict[str, None], kind: str, path: str, value: object) -> None:
    if kind == "link":
        assert isinstance(value, _Inode)
        names[path] = value
    elif kind == "unlink":
        names.pop(path, None)
    elif kind == "mkdir":
        directories[path] = None
    elif kind == "rmdir":
        directories.pop(path, None)
        assert isinstance(value, list)
        for below in [name for name, inode in names.items() if name.startswith(path + "/") and inode in value]:
            del names[below]
    elif kind == "exchange":
        assert isinstance(value, str)
        if path in names and value in names:
            names[path], names[value] = names[value], names[path]
    elif path in names:
        assert isinstance(value, str)
        names[value] = names.pop(path)
