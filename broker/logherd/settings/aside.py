"""The check of a configuration file in a process of its own, beside the caller's start.

Checking needs pydantic, whose import takes longer and more memory than the rest of a broker's start. So the broker (and
the controller) runs `python -m logherd.settings` beside its own imports and reads the checked values from it; nothing
of pydantic stays. This module imports next to nothing, so that the check starts first.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from logherd.settings.load import Kind
    from logherd.settings.options import Options

__all__ = ["CheckAside"]

_Checked = TypeVar("_Checked", bound="Options")


class CheckAside:
    """A check under way. Ask for its result once."""

    def __init__(self, kind: "Kind", path: Path, overrides: Sequence[str] = ()) -> None:
        command = [sys.executable, "-m", "logherd.settings", kind, str(path), *overrides]
        # Looking for plugins means reading the metadata of everything that is installed.
        environment = {**os.environ, "PYDANTIC_DISABLE_PLUGINS": "__all__"}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)

    def result(self, options: type[_Checked]) -> _Checked:
        """Wait for the check; blocks until about 0.2 s after it was started. `options` belongs to the kind.

        Raises: SettingsError with what the check said.
        """
        import msgspec

        from logherd.settings.errors import SettingsError

        answer, complaint = self._process.communicate()
        if self._process.returncode != 0:
            raise SettingsError(complaint.decode(errors="replace").strip())
        return msgspec.json.decode(answer, type=options)
