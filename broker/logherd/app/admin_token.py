"""The secret that changes over the admin port must bring: a file that is read anew for each of them.

So a renewed secret counts at once, in whatever way the file was replaced.
"""

import hmac
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from logherd.app.admin_routes import Answer
from logherd.telemetry.log import Log

__all__ = ["TokenFile"]

_BYTES_MAX = 4096
_TAB, _BLANK, _DELETE = 0x09, 0x20, 0x7F
_OTHERS = stat.S_IROTH | stat.S_IWOTH | stat.S_IXOTH

_log = Log("logherd.app.admin")


class _Unusable(Exception):
    """The file gives no secret; the text says why."""


class TokenFile:
    """Judges callers. `path` is None where nobody may change anything."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._warned: tuple[int, int] | None = None

    def check(self) -> None:
        """At a start, warn if the file gives no secret now. That stops nothing: at the next change it may be another
        one, and messages need none. Blocks as `judge`."""
        if self._path is not None:
            try:
                _read(self._path)
            except _Unusable as error:
                _log.warning("changes will be refused", file=str(self._path), reason=f"adminTokenFile {error}")

    def judge(self, authorizations: Sequence[bytes]) -> Answer | None:
        """None if these values of the header `Authorization` prove the secret; otherwise the refusal.

        Blocks for one read of a small local file. Compares in a time that tells nothing of where texts differ.
        """
        if self._path is None:
            return Answer(403, {"error": "changes are refused here: adminTokenFile is not set"})
        scheme, _, given = authorizations[0].partition(b" ") if len(authorizations) == 1 else (b"", b"", b"")
        if scheme.lower() != b"bearer":
            error = "changes need the header Authorization: Bearer with what adminTokenFile holds"
            return Answer(401, {"error": error}, (("www-authenticate", "Bearer"),))
        try:
            secret, found = _read(self._path)
        except _Unusable as error:
            _log.warning("changes are refused", file=str(self._path), reason=str(error))
            return Answer(503, {"error": f"changes are refused here: adminTokenFile {error}"})
        self._warn_once(self._path, found)
        if not hmac.compare_digest(given.strip(), secret):
            return Answer(403, {"error": "the token is not the one in adminTokenFile"})
        return None

    def _warn_once(self, path: Path, found: os.stat_result) -> None:
        state = (found.st_ino, found.st_mode)
        if found.st_mode & _OTHERS and state != self._warned:
            mode = f"{stat.S_IMODE(found.st_mode):04o}"
            _log.warning("adminTokenFile is open to more than its owner and group", file=str(path), mode=mode)
        self._warned = state


def _read(path: Path) -> tuple[bytes, os.stat_result]:
    """The secret, and what kind of file has it. Raises: _Unusable."""
    try:
        # A pipe without a writer would hold the loop for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise _Unusable("is no regular file")
            data = os.read(descriptor, _BYTES_MAX + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _Unusable(f"cannot be read: {error.strerror}") from error
    if len(data) > _BYTES_MAX:
        raise _Unusable(f"has more than {_BYTES_MAX} bytes")
    secret = data.strip()
    if not secret:
        raise _Unusable("is empty")
    if len(secret.splitlines()) > 1:
        raise _Unusable("has several lines, which no header carries; one line is right")
    if any((each < _BLANK and each != _TAB) or each == _DELETE for each in secret):
        raise _Unusable("has control characters, which no header carries; one line of text is right")
    return secret, found
