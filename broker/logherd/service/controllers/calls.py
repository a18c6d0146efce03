"""What HTTP calls bring with them: queries and bodies, read strictly; what is wrong is named by its field."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec
from msgspec import Meta, Struct

from logherd.kit.errors import LogHerdError
from logherd.service.controllers.documents import Document, error

__all__ = [
    "CallError",
    "ConfigOrder",
    "ElectOrder",
    "EndpointOrder",
    "ForgetOrder",
    "LearnerOrder",
    "MembersOrder",
    "Order",
    "RecoverOrder",
    "RulesOrder",
    "TransferOrder",
    "read_count",
    "read_flag",
    "read_object",
    "read_order",
    "refuse_field",
]  # fmt: skip

_SHOWN_MAX = 80
_MISSING = re.compile(r"missing required field `(.*?)`")
_UNKNOWN = re.compile(r"unknown field `(.*?)`")
_NUMBER = re.compile(r"[0-9]{1,9}")
_PLACE = re.compile(r" - at `\$\.?(.*)`$")

_KIND = re.compile(r"`(.*?)`")
_KINDS = {
    "int": "an integer", "str": "text", "bool": "true or false", "array": "a list", "object": "an object",
}  # fmt: skip
"""How the kinds of values are called in sentences."""

_Id = Annotated[int, Meta(ge=1, le=(1 << 31) - 1)]
_Epoch = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Count = Annotated[int, Meta(ge=1, le=(1 << 31) - 1)]
_Name = Annotated[str, Meta(min_length=1, max_length=255)]


class CallError(LogHerdError):
    """The call is refused with this document; nothing was done."""

    def __init__(self, document: Document) -> None:
        super().__init__(f"{document.status}: {document.body}")
        self.document = document


class Order(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The body of an action. With the same `requestId` it may be sent again when the answer was lost."""

    request_id: Annotated[str, Meta(max_length=200)] = ""


class ElectOrder(Order, frozen=True, kw_only=True):
    broker_id: _Id | None = None
    expected_epoch: _Epoch
    unclean: bool = False


class LearnerOrder(Order, frozen=True, kw_only=True):
    broker_id: _Id
    expected_epoch: _Epoch


class EndpointOrder(Order, frozen=True, kw_only=True):
    epoch: _Epoch


class ForgetOrder(Order, frozen=True, kw_only=True):
    broker_ids: Annotated[list[_Id], Meta(max_length=1_000)]
    expected_epoch: _Epoch
    whole: bool = False
    """All brokers of the group, whoever was in sync: the group is gone for good. None is named then."""
    living: bool = False
    """Forget it although it reports, because it is about to be taken away."""


class RulesOrder(Order, frozen=True, kw_only=True):
    """All of the rules: without `preferred` nobody is preferred."""

    replicas: _Count
    min_in_sync: _Count
    preferred: _Id | None = None


class ConfigOrder(Order, frozen=True, kw_only=True):
    values: Annotated[dict[str, int], Meta(min_length=1, max_length=100)]


class TransferOrder(Order, frozen=True, kw_only=True):
    node: _Name | None = None


class MembersOrder(Order, frozen=True, kw_only=True):
    """All members, by the names of their nodes or by identity."""

    voters: Annotated[list[_Name], Meta(min_length=1, max_length=100)]
    learners: Annotated[list[_Name], Meta(max_length=100)] = []


class Survivor(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A controller that lives on, and its last record as its own /quorum shows it."""

    identity: _Name
    epoch: _Epoch
    position: _Epoch


class RecoverOrder(Order, frozen=True, kw_only=True):
    """The same words for every survivor: `reset` and `term` are above all of theirs."""

    reset: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)]
    term: Annotated[int, Meta(ge=1, le=(1 << 62))]
    survivors: Annotated[list[Survivor], Meta(min_length=1, max_length=100)]


OrderType = TypeVar("OrderType", bound=Order)


def read_flag(query: Mapping[str, str], name: str) -> bool:
    """A yes or no of the query; absent means no. Raises: CallError."""
    text = query.get(name, "false")
    if text not in ("true", "false", ""):
        refuse_field(name, text, "true or false")
    return text != "false"


def read_count(query: Mapping[str, str], name: str, most: int) -> int:
    """A number of the query from 1 to `most`, which is also meant if it is absent. Raises: CallError."""
    text = query.get(name, str(most))
    if _NUMBER.fullmatch(text) is None or not 1 <= int(text) <= most:
        refuse_field(name, text, f"1 to {most}")
    return int(text)


def read_object(body: bytes) -> dict[str, Any]:
    """The fields of a body; an empty one has none. Raises: CallError."""
    try:
        raw = msgspec.json.decode(body) if body.strip() else {}
    except (msgspec.DecodeError, RecursionError, ValueError):
        refuse_field("body", body[:_SHOWN_MAX].decode("utf-8", "replace"), "a JSON object")
    if not isinstance(raw, dict):
        refuse_field("body", raw, "a JSON object")
    return raw


def read_order(cls: type[OrderType], body: dict[str, Any]) -> OrderType:
    """The body of an action. Raises: CallError."""
    try:
        return msgspec.convert(body, cls)
    except msgspec.ValidationError as wrong:
        _explain(cls, str(wrong), body)


def _explain(cls: type[Order], message: str, raw: dict[str, Any]) -> NoReturn:
    missing, unknown, place = _MISSING.search(message), _UNKNOWN.search(message), _PLACE.search(message)
    within = f"{place[1]}." if place else ""
    if missing:
        refuse_field(f"{within}{missing[1]}", None, "a value: the field is missing")
    if unknown:
        fields = ", ".join(cls.__struct_encode_fields__)
        expected = "left out" if within else f"left out: the fields are {fields}"
        refuse_field(f"{within}{unknown[1]}", None if within else raw.get(unknown[1]), expected)
    field = place[1] if place else "body"
    expected = message[: place.start()] if place else message
    expected = expected.partition(", got")[0].removeprefix("Expected ")
    expected = _KIND.sub(lambda found: " or ".join(_KINDS.get(each, each) for each in found[1].split(" | ")), expected)
    refuse_field(field, raw.get(re.split(r"[.\[]", field)[0]), expected)


def refuse_field(field: str, value: object, expected: str) -> NoReturn:
    """Say which field is wrong, what it is, and what would be right. Raises: CallError, always."""
    shown = msgspec.json.encode(value).decode("utf-8", "replace")
    if len(shown) > _SHOWN_MAX:
        value = shown = f"{shown[:_SHOWN_MAX]}..."
    found = "" if value is None else f" is {shown}, and"
    raise CallError(
        error(400, "BAD_FIELD", f"{field}{found} should be {expected}", field=field, value=value, expected=expected)
    )
