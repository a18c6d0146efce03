"""The check of several processes' settings in a process of its own, which gets ready while others still read the file.

Imports next to nothing, so that it can begin first.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["Checking", "complaint"]

_WRONG = 2


def complaint(said: str, paths: Iterable[Path]) -> str:
    """What a check of these files has said, in the words of the group's file, where their `properties` are `config`."""
    said = said.strip()
    for path in paths:
        said = said.removeprefix(f"{path}: ")
    return re.sub(r"\bproperties(?=[.:])", "spec.config", said)


class Checking:
    """Use as a context manager: the process ends with the block. It is good for one check; a later one starts anew."""

    def __init__(self) -> None:
        self._process = self._begin()

    @staticmethod
    def _begin() -> "subprocess.Popen[bytes] | None":
        # In a session of its own: the terminal's Ctrl-C is for us.
        try:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "logherd.settings", "--keep"], stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except OSError:  # then each process checks for itself, and says what is wrong
            return None

    def check(self, files: Sequence[tuple[str, Path]]) -> str:
        """Have these files checked, each with its kind, and the results kept beside them. Blocks until that is done.

        What is wrong with the first that is wrong; "" if none is, or nobody could check.
        """
        process, self._process = self._process or self._begin(), None
        if process is None:
            return ""
        asked = json.dumps([[kind, str(path)] for kind, path in files])
        _, said = process.communicate(asked.encode())
        if process.returncode != _WRONG:
            return ""
        return complaint(said.decode(errors="replace"), [path for _, path in files])

    def close(self) -> None:
        """End the process if it was not needed."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
