"""The base of all models, and the small types that Kubernetes objects are made of."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

__all__ = [
    "NO_FLAG",
    "Cron",
    "DnsLabel",
    "DnsName",
    "Endpoint",
    "Fragment",
    "Matching",
    "Model",
    "Named",
    "OfPod",
    "Quantity",
    "ShortDnsLabel",
    "StringMap",
    "Whole",
]


class Model(BaseModel):
    """Immutable, camelCase in documents, unknown keys refused, defaults checked like given values."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, validate_default=True)


class Matching:
    """For a text that should match `pattern` as a whole; `right` is what a person reads who wrote another.

    The published schema carries the same pattern, so that the API server refuses what this refuses.
    """

    def __init__(self, pattern: str, right: str, *, length_max: int = 253) -> None:
        self._pattern = pattern
        self._compiled = re.compile(pattern)
        self._right = right
        self._length_max = length_max

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check after the inner type."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The inner type's, with pattern and length."""
        return {**handler(schema), "pattern": f"^({self._pattern})$", "maxLength": self._length_max}

    def _check(self, text: str) -> str:
        if len(text) > self._length_max or self._compiled.fullmatch(text) is None:
            raise ValueError(f"write {self._right}, at most {self._length_max} characters")
        return text


class OfPod:
    """For a piece of a pod that Kubernetes itself validates: the published schema names only what our rules look at."""

    def __init__(self, properties: Mapping[str, Any], *, required: tuple[str, ...] = ()) -> None:
        self._schema = {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            **({"properties": dict(properties)} if properties else {}),
            **({"required": list(required)} if required else {}),
        }

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The given schema in place of the inner type's."""
        return dict(self._schema)


def _refuse_flag(value: object) -> object:
    if isinstance(value, bool):  # an int to Python: `replicas: true` would be one
        raise ValueError("write a whole number")  # noqa: TRY004 -- pydantic catches these
    return value


_LABEL_END = "[a-z0-9-]*[a-z0-9]"
_LABEL = f"[a-z0-9]({_LABEL_END})?"
_HOST = "[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?"
_PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_CRON_PART = r"(\*|[0-9A-Za-z]+(-[0-9A-Za-z]+)?)(/[0-9]+)?"
_CRON_FIELD = rf"{_CRON_PART}(,{_CRON_PART})*"
_QUANTITY = r"[0-9]{1,15}(\.[0-9]{1,3})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?"

DnsLabel = Annotated[str, Matching(_LABEL, "lower-case letters, digits and dashes", length_max=63)]
ShortDnsLabel = Annotated[
    str, Matching(f"[a-z]({_LABEL_END})?", "lower-case letters, digits and dashes, a letter first", length_max=40)
]
"""A group's name: names derived from it must fit the 63 characters of a label, and a Service's begins with a letter."""
DnsName = Annotated[str, Matching("[a-z0-9]([a-z0-9.-]*[a-z0-9])?", "lower-case letters, digits, dashes and dots")]
Endpoint = Annotated[str, Matching(rf"{_HOST}:{_PORT}", "host:port with a port from 1 to 65535")]
Quantity = Annotated[str, Matching(_QUANTITY, "an amount such as 20Gi or 500m")]
Cron = Annotated[str, Matching(rf"{_CRON_FIELD}( {_CRON_FIELD}){{4}}", "five cron fields such as 0 3 * * 6")]
NO_FLAG = BeforeValidator(_refuse_flag)
Whole = Annotated[int, NO_FLAG]
StringMap = dict[str, str]
Fragment = Annotated[dict[str, Any], OfPod({})]
"""A piece of a pod that Kubernetes itself validates; we only refuse what would weaken the pod."""
_NAME = {"type": "string", "minLength": 1, "maxLength": 253}
Named = Annotated[dict[str, Any], OfPod({"name": _NAME}, required=("name",))]
"""A piece with a name, by which server-side apply finds it."""
