"""The settings of a running process, and changes of those that it takes while it runs (`settings/hot.py`).

A change is checked whole, in a process of its own and together with everything that is in force, before any of it is
applied; it is applied within one pass of the loop. It holds until this process ends: the file belongs to whoever
deployed the process, and the next start goes by it. So whoever changes a setting for good changes the file, too.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from logherd.aiokit.tasks import TaskGuard
from logherd.service.errors import RequestError
from logherd.settings.aside import change_aside
from logherd.settings.errors import SettingsError, SettingsUncheckedError
from logherd.settings.hot import digest_of, hot_values, keys_of
from logherd.settings.options import BrokerOptions, ControllerOptions
from logherd.telemetry.log import Log, set_level
from logherd.wire.codes import ResponseCode

if TYPE_CHECKING:
    from logherd.settings.load import Kind

__all__ = ["LiveSettings", "wanted_of"]

_CHECK_SECONDS = 8.0
_TEXT_LENGTH_MAX = 200
_SUBMITTED_MAX = 16
"""Anybody who can connect may ask. Each takes a process of its own and its turn, for which an operator waits, too."""

_log = Log("logherd.settings")

_Options = TypeVar("_Options", BrokerOptions, ControllerOptions)


class LiveSettings(Generic[_Options]):
    """Invariant: `options` are what everything in `applied_by` goes by. Loop thread only; the check runs elsewhere."""

    def __init__(self, kind: "Kind", options: _Options, guard: TaskGuard) -> None:
        self.options: _Options = options
        self.applied_by: list[Callable[[_Options], None]] = [_write_lines]
        """Each goes by the hot settings of the options that it is given, from then on. Plain assignments: none may
        fail, and each may be repeated."""
        self._guard = guard
        self.version = 0
        """Rises with each change of this process' life."""
        self._kind: Kind = kind
        self._changed: dict[str, int] = {}
        self._turn = asyncio.Lock()
        self._submitted_now = 0

    @property
    def values(self) -> dict[str, str]:
        """All hot settings that are in force, by name."""
        return hot_values(self._kind, self.options)

    def about(self) -> dict[str, object]:
        """For the status page: `hot` with all values, and what came of changes; `hash` names those values."""
        values = self.values
        return {"hot": values, "config": {"version": self.version, "hash": digest_of(values), "changed": self._changed}}

    async def change(self, wanted: Mapping[str, object], *, asker: str) -> list[str]:
        """Bring all of `wanted` into force, or nothing; returns the names of what has another value now.

        Waits for the check, most of a second. Raises: SettingsError that names the setting, the value and what would be
        right; nothing was changed then. Nor was it if this call is cancelled.
        """
        keys_of(self._kind, wanted)
        async with self._turn:
            options = await asyncio.to_thread(
                change_aside, self._kind, self.options, wanted, seconds=_CHECK_SECONDS
            )  # fmt: skip
            return self._apply(options, asker)

    def _apply(self, options: _Options, asker: str) -> list[str]:
        before, after = self.values, hot_values(self._kind, options)
        names = [name for name in after if after[name] != before[name]]
        if not names:
            return names
        self.options = options
        self.version += 1
        for apply in self.applied_by:
            apply(options)
        for name in names:
            self._changed[name] = self.version
            if "." in name:  # RocketMQ's names would only say it again
                _log.info("setting changed", name=name, before=before[name], now=after[name], asker=asker)
        return names

    def submit(self, wanted: Mapping[str, str], told: Callable[[RequestError | None], None]) -> None:
        """The same for who cannot wait: `told` hears later what was wrong, None for nothing."""
        if self._submitted_now >= _SUBMITTED_MAX:
            busy = RequestError(ResponseCode.SYSTEM_BUSY, f"{_SUBMITTED_MAX} changes are being checked; try again")
            asyncio.get_running_loop().call_soon(told, busy)
            return
        self._submitted_now += 1
        self._guard.start("change of settings", self._submitted(wanted, told), eternal=False)

    async def _submitted(self, wanted: Mapping[str, str], told: Callable[[RequestError | None], None]) -> None:
        try:
            await self.change(wanted, asker="mqadmin")
        except SettingsUncheckedError as error:
            told(RequestError(ResponseCode.SYSTEM_BUSY, str(error)))
        except SettingsError as error:
            told(RequestError(ResponseCode.INVALID_PARAMETER, str(error)))
        else:
            told(None)
        finally:
            self._submitted_now -= 1

    async def action(self, document: Mapping[str, object], _parts: Mapping[str, str]) -> tuple[int, object]:
        """`POST /config` with `{"values": {name: value}}`: 200 and what is in force now, 400 and what is wrong,
        503 if nobody could say in time."""
        wanted = wanted_of(document)
        if isinstance(wanted, str):
            return 400, {"error": wanted, "field": "values"}
        try:
            changed = await self.change(wanted, asker="admin port")
        except SettingsUncheckedError as error:
            return 503, {"error": str(error)}
        except SettingsError as error:
            name = str(error).partition(":")[0]
            return 400, {"error": str(error), **({"field": name, "value": wanted[name]} if name in wanted else {})}
        return 200, {"changed": changed, **self.about()}

    def page(self) -> tuple[int, object]:
        """`GET /config`."""
        return 200, self.about()


def _write_lines(options: BrokerOptions | ControllerOptions) -> None:
    set_level(options.log.level)


def wanted_of(document: Mapping[str, object]) -> dict[str, object] | str:
    """The values of a call, or what is wrong with it."""
    values, others = document.get("values"), sorted(set(document) - {"values"})
    if others:
        return f"{', '.join(others)}: unknown; known here: values"
    if not isinstance(values, dict) or not values:
        return "values should be an object of settings by their names, at least one"
    for name, value in values.items():
        if not isinstance(value, str | int | bool) or len(str(value)) > _TEXT_LENGTH_MAX:
            return f"values.{name}: should be a short text, a whole number, true or false"
    return values
