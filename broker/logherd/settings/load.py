"""From a configuration file to option structs, in this process or in a short-lived one.

Checking needs pydantic, whose import takes longer and more memory than the rest of a broker's start. So the broker
runs `python -m logherd.settings FILE` beside its own imports and reads the checked values from it; nothing of pydantic
stays.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from logherd.settings.errors import SettingsError
from logherd.settings.options import BrokerOptions

__all__ = ["Check", "load_broker_options", "options_to_json"]

_FILE_BYTES_MAX = 1 << 20


def load_broker_options(path: Path, overrides: Sequence[str] = ()) -> BrokerOptions:
    """Read, check and convert a YAML or JSON file; each override is `path.to.key=value` and wins over the file.

    Raises: SettingsError that names the file and every fault in it.
    """
    from logherd.settings.checked import check_document

    document = _read(path)
    for override in overrides:
        _override(document, override)
    return check_document(document, source=str(path))


def options_to_json(options: BrokerOptions) -> bytes:
    """The form in which one process hands options to another."""
    return msgspec.json.encode(options)


class Check:
    """A check of a configuration file that runs beside the caller's own start."""

    def __init__(self, path: Path, overrides: Sequence[str] = ()) -> None:
        command = [sys.executable, "-m", "logherd.settings", str(path), *overrides]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def result(self) -> BrokerOptions:
        """Wait for the check; blocks for about 0.2 s after it was started.

        Raises: SettingsError with what the check said.
        """
        answer, complaint = self._process.communicate()
        if self._process.returncode != 0:
            raise SettingsError(complaint.decode(errors="replace").strip())
        return msgspec.json.decode(answer, type=BrokerOptions)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > _FILE_BYTES_MAX:
        raise SettingsError(f"{path}: has {len(data)} bytes; a configuration has at most {_FILE_BYTES_MAX}")
    if path.suffix == ".json":
        document = _parse_json(path, data)
    else:
        from logherd.settings.yaml_text import parse_yaml

        document = parse_yaml(path, data)
    if not isinstance(document, dict):
        raise SettingsError(f"{path}: should hold keys and values, not {type(document).__name__}")
    return document


def _parse_json(path: Path, data: bytes) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in pairs:
            if key in seen:
                raise SettingsError(f"{path}: the key {key} appears twice")
            seen[key] = value
        return seen

    try:
        return json.loads(data, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: is not JSON: {error}") from error


def _override(document: dict[str, Any], override: str) -> None:
    path, separator, value = override.partition("=")
    if not separator or not all(path.split(".")):
        raise SettingsError(f"{override}: write path.to.key=value")
    *groups, key = path.split(".")
    for group in groups:
        inner = document.setdefault(group, {})
        if not isinstance(inner, dict):
            raise SettingsError(f"{override}: {group} is no group of keys")
        document = inner
    document[key] = value
