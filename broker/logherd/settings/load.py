"""From a configuration file, YAML or JSON, to option structs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from logherd.settings.errors import SettingsError

if TYPE_CHECKING:
    from logherd.settings.options import BrokerOptions, ControllerOptions

__all__ = ["Kind", "load_broker_options", "load_checked_values", "load_controller_options"]

Kind = Literal["broker", "controller"]
"""Whose configuration it is."""

_FILE_BYTES_MAX = 1 << 20
_JSON_SAID = (
    ("Expecting value", "a value should stand here, a text in double quotes"),
    ("Expecting property name", "a key in double quotes should stand here"),
    ("Expecting ':'", "a key should have ':' and its value behind it"),
    ("Expecting ','", "there should be ',' between keys or values, and '}' or ']' at their end"),
    ("Illegal trailing comma", "no ',' should stand behind the last key or value"),
    ("Unterminated string", "the quotes should be closed"),
    ("Invalid control character", "a text should be closed in its line"),
    ("Invalid \\", "in a text write \\\\ for a backslash"),
    ("Extra data", "nothing should stand behind the end of the document"),
)
"""What the library says of a place begins so, and what it should be there."""


def load_broker_options(path: Path, overrides: Sequence[str] = ()) -> "BrokerOptions":
    """Read, check and convert a YAML or JSON file; each override is `path.to.key=value` and wins over the file.

    Raises: SettingsError that names the file and every fault in it.
    """
    import msgspec

    from logherd.settings.options import BrokerOptions

    return msgspec.convert(load_checked_values("broker", path, overrides), type=BrokerOptions, str_keys=True)


def load_controller_options(path: Path, overrides: Sequence[str] = ()) -> "ControllerOptions":
    """The same for a controller's file."""
    import msgspec

    from logherd.settings.options import ControllerOptions

    return msgspec.convert(load_checked_values("controller", path, overrides), type=ControllerOptions)


def load_checked_values(kind: Kind, path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The same as plain data, for a process that hands it on. Raises as `load_broker_options`."""
    from logherd.settings.checked import check_document

    document = _read(path)
    for override in overrides:
        _override(document, override)
    return check_document(kind, document, source=str(path))


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)  # it may have no end, as a device
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > _FILE_BYTES_MAX:
        raise SettingsError(f"{path}: has more than the {_FILE_BYTES_MAX} bytes that a configuration may have")
    try:
        text = data.decode(encoding := json.detect_encoding(data))  # by zeros, which a first character has in YAML, too
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not {encoding.upper()} text: {error.reason} at byte {error.start}") from error
    if path.suffix == ".json":
        document = _parse_json(path, text)
    else:
        from logherd.settings.yaml_text import parse_yaml

        document = parse_yaml(text, source=str(path))
    if not isinstance(document, dict):
        found = ", and holds nothing" if document is None else ""
        raise SettingsError(f"{path}: should hold keys and values{found}")
    return document


def _parse_json(path: Path, text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in pairs:
            if key in seen:
                raise SettingsError(f"{path}: the key {key} appears twice")
            seen[key] = value
        return seen

    try:
        return json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        expected = next(
            (said for begin, said in _JSON_SAID if error.msg.startswith(begin)), "what stands here is not JSON"
        )
        raise SettingsError(f"{path}: line {error.lineno}, column {error.colno}: {expected}") from error
    except ValueError as error:
        raise SettingsError(f"{path}: is not JSON: a number has too many digits") from error
    except RecursionError as error:
        raise SettingsError(f"{path}: is not JSON: it is nested too deeply") from error


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
