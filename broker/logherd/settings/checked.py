"""Where documents meet models: the only module besides the models and their helpers that loads pydantic."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from logherd.settings.base import Group
from logherd.settings.complaints import complain
from logherd.settings.errors import SettingsError
from logherd.settings.hot import HOT, keys_of
from logherd.settings.models import BrokerSettings
from logherd.settings.properties import property_paths, set_properties

if TYPE_CHECKING:
    from logherd.settings.load import Kind

__all__ = ["check_change", "check_document"]


def check_document(kind: "Kind", document: dict[str, Any], *, source: str) -> dict[str, Any]:
    """Values by the option structs' names of a document with the file's keys; `properties` win over the other keys.

    The result is plain data that JSON can carry, so that a process which only checks needs no structs.

    Raises: SettingsError whose first line names `source`, then one line for each fault.
    """
    model = _model_of(kind)
    names: dict[str, str] = {}
    try:
        settings = model.model_validate(document, by_alias=True, by_name=False)
        if isinstance(settings, BrokerSettings):
            paths = property_paths()
            names = {paths[name]: f"properties.{name}" for name in settings.properties if name in paths}
            settings = _with_properties(settings)
    except ValidationError as error:
        raise SettingsError(f"{source}: the configuration is wrong\n{complain(model, error, names)}") from error
    except SettingsError as error:
        raise SettingsError(f"{source}: properties: {error}") from error
    return _values(settings)


def check_change(kind: "Kind", options: dict[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `options`, which are in force, with those of `wanted`: hot settings by their keys in the file, or
    by RocketMQ's names. All of them together are checked as a file would be.

    Raises: SettingsError with one line for each fault, which begins with the name that was given, if one is at fault.
    """
    keys = keys_of(kind, wanted)
    for name, key in keys.items():
        value, path = wanted[name], HOT[kind][key].path
        if name == key:
            _put(options, path, None if value == "none" else value)
        else:
            set_properties(options, {name: _text(value)})
    named = {HOT[kind][key].path: name for name, key in keys.items()}
    model = _model_of(kind)
    try:
        return _values(model.model_validate(options, by_alias=False, by_name=True))
    except ValidationError as error:
        raise SettingsError(complain(model, error, named)) from error


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _put(document: dict[str, Any], path: str, value: object) -> None:
    *groups, key = path.split(".")
    for group in groups:
        document = document[group]
    document[key] = value


def _model_of(kind: "Kind") -> type[Group]:
    if kind == "broker":
        return BrokerSettings
    from logherd.settings.controller_models import ControllerSettings  # a broker's start need not wait for it

    return ControllerSettings


def _with_properties(settings: BrokerSettings) -> BrokerSettings:
    values = _values(settings)
    set_properties(values, settings.properties)
    return BrokerSettings.model_validate(values, by_alias=False, by_name=True)


def _values(settings: Group) -> dict[str, Any]:
    return settings.model_dump(mode="json", by_alias=False, exclude={"properties"})
