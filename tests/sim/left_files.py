"""Files of a process that only a test has: what a store leaves open, as a killed process does, is closed with it."""

import weakref

from logherd.store.files import Directory, File, Lock
from logherd.store.files_os import OsFiles

__all__ = ["LeftFiles"]


class LeftFiles(OsFiles):
    """One for each store. Whatever is open once nothing refers to this any more is closed."""

    def __init__(self) -> None:
        self._opened: list[File | Directory] = []
        self._locks: list[Lock] = []
        weakref.finalize(self, _close, self._opened, self._locks)

    def open(self, path: str, *, create: bool = False) -> File:
        file = super().open(path, create=create)
        self._opened.append(file)
        return file

    def open_directory(self, path: str) -> Directory:
        directory = super().open_directory(path)
        self._opened.append(directory)
        return directory

    def lock(self, path: str) -> Lock | None:
        lock = super().lock(path)
        if lock is not None:
            self._locks.append(lock)
        return lock


def _close(opened: list[File | Directory], locks: list[Lock]) -> None:
    for each in opened:
        each.close()
    for lock in locks:
        lock.release()
