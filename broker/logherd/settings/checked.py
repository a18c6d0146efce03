"""Where documents meet models: the only module besides the models and their helpers that loads pydantic."""

from typing import Any

import msgspec
from pydantic import ValidationError

from logherd.settings.complaints import complain
from logherd.settings.errors import SettingsError
from logherd.settings.models import BrokerSettings
from logherd.settings.options import BrokerOptions
from logherd.settings.properties import change_options

__all__ = ["check_document", "check_options"]


def check_document(document: dict[str, Any], *, source: str) -> BrokerOptions:
    """Option structs of a document with the file's camelCase keys.

    Raises: SettingsError whose first line names `source`, then one line for each fault.
    """
    try:
        settings = BrokerSettings.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        raise SettingsError(f"{source}: the configuration is wrong\n{complain(BrokerSettings, error)}") from error
    try:
        return change_options(_options(settings), settings.properties, live=False)
    except SettingsError as error:
        raise SettingsError(f"{source}: properties: {error}") from error


def check_options(document: dict[str, Any]) -> BrokerOptions:
    """The same for a document with the option structs' own names, as `msgspec.to_builtins` gives it.

    Raises: SettingsError, one line for each fault.
    """
    try:
        return _options(BrokerSettings.model_validate(document, by_alias=False, by_name=True))
    except ValidationError as error:
        raise SettingsError(complain(BrokerSettings, error)) from error


def _options(settings: BrokerSettings) -> BrokerOptions:
    document = settings.model_dump(mode="json", by_alias=False, exclude={"properties"})
    return msgspec.convert(document, type=BrokerOptions)
