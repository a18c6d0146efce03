"""Where documents meet models: the only module besides the models and their helpers that loads pydantic."""

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from logherd.settings.base import Group
from logherd.settings.complaints import complain
from logherd.settings.errors import SettingsError
from logherd.settings.models import BrokerSettings
from logherd.settings.properties import set_properties

if TYPE_CHECKING:
    from logherd.settings.load import Kind

__all__ = ["check_document"]


def check_document(kind: "Kind", document: dict[str, Any], *, source: str) -> dict[str, Any]:
    """Values by the option structs' names of a document with the file's keys; `properties` win over the other keys.

    The result is plain data that JSON can carry, so that a process which only checks needs no structs.

    Raises: SettingsError whose first line names `source`, then one line for each fault.
    """
    model = _model_of(kind)
    try:
        settings = model.model_validate(document, by_alias=True, by_name=False)
        if isinstance(settings, BrokerSettings):
            settings = _with_properties(settings)
    except ValidationError as error:
        raise SettingsError(f"{source}: the configuration is wrong\n{complain(model, error)}") from error
    except SettingsError as error:
        raise SettingsError(f"{source}: properties: {error}") from error
    return _values(settings)


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
