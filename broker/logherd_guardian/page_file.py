"""Where the page of the present child is kept. The guardian outlives what happens to that place."""

import os

from logherd_guardian.page import PAGE_BYTES, Page, decode_page
from logherd_guardian.sayings import say

__all__ = ["PageFile"]


class PageFile:
    """A page of its own for each child, so that nothing left of an earlier one can speak for it."""

    def __init__(self, path: str | None) -> None:
        """In this file, or in memory that nobody else sees."""
        self.descriptor: int | None = None
        self.last: Page | None = None
        """What the child was last heard to say."""
        self._path = path
        self._complained = False

    def renew(self) -> int:
        """A new page, with room for what the next child will write. Raises: OSError if there is none."""
        old, self.descriptor, self.last, self._complained = self.descriptor, None, None, False
        if old is not None:
            _let_go(old)
        if self._path is None:
            made = os.memfd_create("logherd-page", os.MFD_CLOEXEC)
        else:
            try:
                os.unlink(self._path)  # noqa: PTH108 - pathlib costs a megabyte
            except FileNotFoundError:
                pass
            made = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.descriptor = made
        os.posix_fallocate(made, 0, PAGE_BYTES)  # a write of the child finds its memory there
        return made

    def read(self) -> Page | None:
        """What the child says now; None if it has said nothing, or if that cannot be read, which is said once."""
        if self.descriptor is None:
            return None
        try:
            page = decode_page(os.pread(self.descriptor, PAGE_BYTES, 0))
        except OSError as error:
            if not self._complained:
                self._complained = True
                say(f"cannot read what the child says: {error.strerror}")
            return None
        self.last = page or self.last
        return page


def _let_go(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        pass  # of a disk that fails; it is closed all the same
