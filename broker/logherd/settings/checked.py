"""Where documents meet models: the only module besides the models and their helpers that loads pydantic."""

from typing import Any

from pydantic import ValidationError

from logherd.settings.complaints import complain
from logherd.settings.errors import SettingsError
from logherd.settings.models import BrokerSettings
from logherd.settings.properties import set_properties

__all__ = ["check_document"]


def check_document(document: dict[str, Any], *, source: str) -> dict[str, Any]:
    """Values by the option structs' names of a document with the file's keys; `properties` win over the other keys.

    The result is plain data that JSON can carry, so that a process which only checks needs no structs.

    Raises: SettingsError whose first line names `source`, then one line for each fault.
    """
    try:
        settings = BrokerSettings.model_validate(document, by_alias=True, by_name=False)
        values = settings.model_dump(mode="json", by_alias=False, exclude={"properties"})
        set_properties(values, settings.properties)
        checked = BrokerSettings.model_validate(values, by_alias=False, by_name=True)
    except ValidationError as error:
        raise SettingsError(f"{source}: the configuration is wrong\n{complain(BrokerSettings, error)}") from error
    except SettingsError as error:
        raise SettingsError(f"{source}: properties: {error}") from error
    return checked.model_dump(mode="json", by_alias=False, exclude={"properties"})
