"""HTTP calls: what is asked, and what is wrong with it, by the name of the field."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Meta, Struct

from logherd.kit.errors import LogHerdError
from logherd.service.controllers.documents import Document, error

__all__ = [
    "Call", "CallError", "ConfigOrder", "ElectOrder", "ForgetOrder", "LearnerOrder", "MembersOrder", "Order",
    "RulesOrder", "TransferOrder", "read_call", "read_flag", "read_order",
]  # fmt: skip

_SHOWN_MAX = 80
_MISSING = re.compile(r"missing required field `(.*?)`")
_UNKNOWN = re.compile(r"unknown field `(.*?)`")
_PLACE = re.compile(r" - at `\$\.?(.*)`$")

_Id = Annotated[int, Meta(ge=1, le=(1 << 31) - 1)]
_Epoch = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Count = Annotated[int, Meta(ge=1, le=(1 << 31) - 1)]
_Name = Annotated[str, Meta(min_length=1, max_length=255)]


class CallError(LogHerdError):
    """The call is refused with this document; nothing was done."""

    def __init__(self, document: Document) -> None:
        super().__init__(f"{document.status}: {document.body}")
        self.document = document


@dataclass(frozen=True, slots=True)
class Call:
    """A method, the parts of a path, and the query."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str]


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


class ForgetOrder(Order, frozen=True, kw_only=True):
    broker_ids: Annotated[list[_Id], Meta(min_length=1, max_length=1_000)]
    expected_epoch: _Epoch
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


OrderType = TypeVar("OrderType", bound=Order)


def read_call(method: str, target: str) -> Call:
    """The call in a request line."""
    path, _, query = target.partition("?")
    parts = tuple(unquote(part) for part in path.split("/") if part)
    return Call(method, parts, dict(parse_qsl(query, keep_blank_values=True)))


def read_flag(call: Call, name: str) -> bool:
    """A yes or no of the query; absent means no. Raises: CallError."""
    text = call.query.get(name, "false")
    if text not in ("true", "false", ""):
        _refuse(name, text, "true or false")
    return text != "false"


def read_order(cls: type[OrderType], body: bytes) -> OrderType:
    """The body of an action; an empty one is an object without fields. Raises: CallError."""
    try:
        raw = msgspec.json.decode(body) if body.strip() else {}
    except (msgspec.DecodeError, RecursionError, ValueError):
        _refuse("body", body[:_SHOWN_MAX].decode("utf-8", "replace"), "a JSON object")
    if not isinstance(raw, dict):
        _refuse("body", raw, "a JSON object")
    try:
        return msgspec.convert(raw, cls)
    except msgspec.ValidationError as wrong:
        _explain(cls, str(wrong), raw)


def _explain(cls: type[Order], message: str, raw: dict[str, Any]) -> NoReturn:
    missing, unknown, place = _MISSING.search(message), _UNKNOWN.search(message), _PLACE.search(message)
    if missing:
        _refuse(missing[1], None, "a value: the field is missing")
    if unknown:
        _refuse(unknown[1], raw.get(unknown[1]), f"left out: the fields are {', '.join(cls.__struct_encode_fields__)}")
    field = place[1] if place else "body"
    expected = message[: place.start()] if place else message
    expected = expected.partition(", got")[0].removeprefix("Expected ").replace("`", "")
    _refuse(field, raw.get(re.split(r"[.\[]", field)[0]), expected)


def _refuse(field: str, value: object, expected: str) -> NoReturn:
    shown = msgspec.json.encode(value).decode("utf-8", "replace")
    shown = shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}..."
    found = "" if value is None else f" is {shown}, and"
    raise CallError(
        error(400, "BAD_FIELD", f"{field}{found} should be {expected}", field=field, value=value, expected=expected)
    )
