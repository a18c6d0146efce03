"""The broker's settings under the names that `mqadmin getBrokerConfig` and `updateBrokerConfig` use.

Only settings that exist are listed. A change is checked whole before any of it is applied; it holds until the process
ends, because the configuration file belongs to whoever deployed the broker.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from logherd.kit.errors import LogHerdError
from logherd.service.errors import RequestError
from logherd.service.properties_text import TEXT_BYTES_MAX, parse_properties_text
from logherd.wire.codes import ResponseCode

__all__ = [
    "Divided", "Setting", "SettingsError", "SettingsTable", "boolean", "divide_text", "integer", "one_of",
    "refuse_long_text", "text", "update_from_text",
]  # fmt: skip


class SettingsError(LogHerdError):
    """A change that names an unknown or fixed setting, or gives a wrong value; nothing was changed."""


class Kind(NamedTuple):
    """How a value is checked. `parse` raises ValueError; `right` says what would be right."""

    parse: Callable[[str], object]
    right: str


def boolean() -> Kind:
    return Kind(_parse_boolean, "true or false")


def integer(least: int, most: int) -> Kind:
    def parse(value: str) -> object:
        number = int(value)
        if not least <= number <= most:
            raise ValueError(value)
        return number

    return Kind(parse, f"a whole number from {least} to {most}")


def one_of(*values: str) -> Kind:
    def parse(value: str) -> object:
        if value not in values:
            raise ValueError(value)
        return value

    return Kind(parse, " or ".join(values))


def text() -> Kind:
    return Kind(str, "a text")


def _parse_boolean(value: str) -> object:
    if value not in ("true", "false"):
        raise ValueError(value)
    return value == "true"


class Setting(NamedTuple):
    """One setting. `change` gets the parsed value and takes effect at once; None means fixed while the process runs,
    unless it is `configured`: then the process' own configuration checks and takes it."""

    name: str
    read: Callable[[], object]
    kind: Kind = text()
    change: Callable[[object], None] | None = None
    configured: bool = False


class Divided(NamedTuple):
    """A change by who makes it: values that take effect with `SettingsTable.take`, and those of the configuration."""

    own: list[tuple[Setting, object]]
    configured: dict[str, str]


class SettingsTable:
    """Settings by name. `version` rises with every change."""

    def __init__(self, settings: Iterable[Setting]) -> None:
        self._settings = {setting.name: setting for setting in settings}
        self.version = 0

    def values(self) -> dict[str, str]:
        """All values as text, sorted by name."""
        return {name: format_value(self._settings[name].read()) for name in sorted(self._settings)}

    def update(self, changes: Mapping[str, str]) -> list[str]:
        """Apply all changes or none; returns the names whose value is different now. For tables of which nothing is
        configured elsewhere.

        Raises: SettingsError that names the setting, the value and what is right.
        """
        return self.take(self.divide(changes))

    def divide(self, changes: Mapping[str, str]) -> Divided:
        """Check what can be checked here, and leave out what would not change.

        Naming a fixed setting is fine as long as it keeps its value: tools send back what they read.

        Raises: SettingsError that names the setting, the value and what is right.
        """
        checked = [(setting, value) for setting, value in map(self._check, changes.items()) if value is not None]
        return Divided(
            [each for each in checked if not each[0].configured],
            {setting.name: str(value) for setting, value in checked if setting.configured},
        )

    def take(self, divided: Divided) -> list[str]:
        """Apply what was checked; the configuration has taken its part. Returns the names of both."""
        for setting, value in divided.own:
            if setting.change is not None:
                setting.change(value)
        names = [*(setting.name for setting, _ in divided.own), *divided.configured]
        self.version += bool(names)
        return names

    def _check(self, change: tuple[str, str]) -> tuple[Setting, object | None]:
        """The setting and its parsed new value, or None if it would not change."""
        name, value = change
        setting = self._settings.get(name)
        if setting is None:
            raise SettingsError(f"no setting is called {name!r}; there are {', '.join(sorted(self._settings))}")
        current = format_value(setting.read())
        if value == current:
            return setting, None
        if setting.configured:
            return setting, value
        if setting.change is None:
            raise SettingsError(f"{name} is {current} and is fixed while the process runs")
        try:
            return setting, setting.kind.parse(value)
        except ValueError as error:
            raise SettingsError(f"{name} is {value!r}; right is {setting.kind.right}") from error


def format_value(value: object) -> str:
    """A value as Java prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def update_from_text(settings: SettingsTable, body: bytes) -> list[str]:
    """Apply the `name=value` lines of a request body; returns the names whose value is different now.

    Raises: RequestError with code 29 that names the setting, the value and what is right; nothing was changed.
    """
    return settings.take(divide_text(settings, body))


def refuse_long_text(body: bytes | memoryview) -> None:
    """Raises: RequestError for more than the loop can wait for."""
    if (size := len(body)) > TEXT_BYTES_MAX:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER, f"the settings have {size} bytes, at most {TEXT_BYTES_MAX} are read"
        )


def divide_text(settings: SettingsTable, body: bytes) -> Divided:
    """Check the `name=value` lines of a request body; raises as `update_from_text`."""
    refuse_long_text(body)
    try:
        return settings.divide(parse_properties_text(body.decode()))
    except UnicodeDecodeError as error:
        raise RequestError(ResponseCode.INVALID_PARAMETER, "the settings are not UTF-8 text") from error
    except SettingsError as error:
        raise RequestError(ResponseCode.INVALID_PARAMETER, str(error)) from error
