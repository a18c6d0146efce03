"""The base of all models, and the small types that Kubernetes objects are made of."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

__all__ = [
    "Cron",
    "DnsLabel",
    "DnsName",
    "Endpoint",
    "Fragment",
    "Model",
    "Quantity",
    "ShortDnsLabel",
    "StringMap",
    "matching",
]


class Model(BaseModel):
    """Immutable, camelCase in documents, unknown keys refused, defaults checked like given values."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, validate_default=True)


def matching(pattern: str, right: str, *, length_max: int = 253) -> AfterValidator:
    """For a text that should match `pattern` as a whole; `right` is what a person reads who wrote another."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if len(text) > length_max or compiled.fullmatch(text) is None:
            raise ValueError(f"write {right}, at most {length_max} characters")
        return text

    return AfterValidator(check)


_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_CRON_PART = r"(\*|[0-9A-Za-z]+(-[0-9A-Za-z]+)?)(/[0-9]+)?"
_CRON_FIELD = rf"{_CRON_PART}(,{_CRON_PART})*"
_QUANTITY = r"[0-9]{1,15}(\.[0-9]{1,3})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?"

DnsLabel = Annotated[str, matching(_LABEL, "lower-case letters, digits and dashes", length_max=63)]
ShortDnsLabel = Annotated[str, matching(_LABEL, "lower-case letters, digits and dashes", length_max=40)]
"""A group's name: names derived from it must fit the 63 characters of a label."""
DnsName = Annotated[str, matching("[a-z0-9]([a-z0-9.-]*[a-z0-9])?", "lower-case letters, digits, dashes and dots")]
Endpoint = Annotated[str, matching(r"[A-Za-z0-9.-]+:[0-9]{1,5}", "host:port")]
Quantity = Annotated[str, matching(_QUANTITY, "an amount such as 20Gi or 500m")]
Cron = Annotated[str, matching(rf"{_CRON_FIELD}( {_CRON_FIELD}){{4}}", "five cron fields such as 0 3 * * 6")]
StringMap = dict[str, str]
Fragment = dict[str, Any]
"""A piece of a pod that Kubernetes itself validates; we only refuse what would weaken the pod."""
