"""The check of a configuration file in a process of its own, beside the caller's start.

Checking needs pydantic, whose import takes longer and more memory than the rest of a broker's start. So the broker (and
the controller) runs `python -m logherd.settings` beside its own imports and reads the checked values from it; nothing
of pydantic stays. This module imports next to nothing, so that the check starts first. What was checked before
and kept (`kept.py`) is not checked again.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from logherd.settings.kept import recall_checked

if TYPE_CHECKING:
    from logherd.settings.load import Kind
    from logherd.settings.options import Options

__all__ = ["CheckAside", "change_aside"]

_Checked = TypeVar("_Checked", bound="Options")


class CheckAside:
    """A check under way. Ask for its result once."""

    def __init__(self, kind: "Kind", path: Path, overrides: Sequence[str] = ()) -> None:
        self._kept = recall_checked(kind, path, overrides)
        self._command = [sys.executable, "-P", "-m", "logherd.settings", kind, str(path), *overrides]
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None
        if self._kept is None:
            with suppress(OSError):  # it is tried again, and told, when the answer is needed
                self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment())

    def result(self, options: type[_Checked]) -> _Checked:
        """Wait for the check; blocks until about 0.2 s after it was started. `options` belongs to the kind.

        Raises: SettingsError with what the check said; SettingsUncheckedError if it could not begin, or was killed.
        """
        import msgspec

        if self._kept is not None:
            try:
                return msgspec.json.decode(self._kept, type=options)
            except msgspec.ValidationError:  # kept by a program whose options have another shape
                pass
        return msgspec.json.decode(self._answer(), type=options)

    def values(self) -> dict[str, Any]:
        """The same as JSON carries it, for who starts sooner without the library that makes options of it.

        Raises: as `result`.
        """
        values: dict[str, Any] = json.loads(self._answer() if self._kept is None else self._kept)
        return values

    def _answer(self) -> bytes:
        from logherd.settings.errors import SettingsError, SettingsUncheckedError

        try:
            process = self._process or self._start()
        except OSError as error:
            raise SettingsUncheckedError(f"{self._path}: no process to check it in: {error.strerror}") from error
        answer, complaint = process.communicate()
        if process.returncode < 0:
            ended = f"was ended by signal {-process.returncode}, as where there is too little memory"
            raise SettingsUncheckedError(f"{self._path}: the process that checks it {ended}")
        if process.returncode != 0:
            raise SettingsError(complaint.decode(errors="replace").strip())
        return answer


def change_aside(kind: "Kind", options: _Checked, wanted: Mapping[str, object], *, seconds: float) -> _Checked:
    """The options with what is wanted, checked as a whole in a process of its own; blocks until that has ended.

    Raises: SettingsError with what it says; SettingsUncheckedError if it did not end within `seconds`, or in no way of
    its own, or could not be started.
    """
    import msgspec

    from logherd.settings.errors import SettingsError, SettingsUncheckedError

    for name, value in wanted.items():
        if not str(value).isascii() and not _is_text(str(value)):
            raise SettingsError(f"{name}: is no text, as with half of a pair of \\uXXXX")
    asked = msgspec.json.encode({"options": options, "wanted": dict(wanted)})
    command = [sys.executable, "-P", "-m", "logherd.settings", "--change", kind]
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, env=_environment(), timeout=seconds, check=False
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise SettingsUncheckedError(f"not checked within {seconds:g} s, so nothing was changed; try again") from error
    except OSError as error:  # as without room for another process, or a descriptor for its pipes
        raise SettingsUncheckedError(
            f"no process to check it in ({error.strerror}), so nothing was changed; try again"
        ) from error
    if done.returncode < 0:
        raise SettingsUncheckedError(f"the check was ended by signal {-done.returncode}; nothing was changed")
    if done.returncode != 0:
        raise SettingsError(done.stderr.decode(errors="replace").strip())
    return msgspec.json.decode(done.stdout, type=type(options))


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _environment() -> dict[str, str]:
    """Looking for plugins means reading the metadata of everything that is installed."""
    return {**os.environ, "PYDANTIC_DISABLE_PLUGINS": "__all__"}
