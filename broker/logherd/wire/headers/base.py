"""Typed headers from the strings of a frame's fields, and back.

Every value on the wire is a string: numbers in decimal, booleans as true and false, absent fields left out. Fields that
a header does not know are ignored, because clients add their own (trace ids, namespaces, signatures).
"""

import re
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from logherd.wire.errors import HeaderError
from logherd.wire.frame import Int32

__all__ = ["Header", "Int32", "Int64", "decode_header", "encode_header"]

Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Header(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Base of all headers. A field without a default is required; None means absent."""


HeaderType = TypeVar("HeaderType", bound=Struct)
_convert = msgspec.convert
_PLACE = re.compile(r" - at `\$\.(.*)`$")
_MISSING = re.compile(r"missing required field `(.*)`$")
_fields_of: dict[type[Struct], tuple[tuple[str, str], ...]] = {}


def decode_header(cls: type[HeaderType], ext: dict[str, str]) -> HeaderType:
    """The typed header in a frame's fields; strings become numbers and booleans.

    Raises: HeaderError(field, value, expected) for a missing or ill-typed field, by its name on the wire.
    """
    try:
        return _convert(ext, cls, strict=False)
    except msgspec.ValidationError as error:
        raise _explain(str(error), ext) from error


def _explain(message: str, ext: dict[str, str]) -> HeaderError:
    missing = _MISSING.search(message)
    if missing:
        return HeaderError(missing[1], None, "a value")
    place = _PLACE.search(message)
    if place is None:
        return HeaderError("extFields", None, message)
    expected = message[: place.start()].partition(", got")[0].removeprefix("Expected ").replace("`", "")
    return HeaderError(place[1], ext.get(place[1], ""), expected)


def encode_header(header: Struct) -> dict[str, str]:
    """The fields of a frame for a typed header: all values strings, None left out."""
    cls = type(header)
    fields = _fields_of.get(cls)
    if fields is None:
        fields = _fields_of[cls] = tuple(zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True))
    ext: dict[str, str] = {}
    for key, attribute in fields:
        value = getattr(header, attribute)
        if value.__class__ is str:
            ext[key] = value
        elif value.__class__ is int:
            ext[key] = str(value)
        elif value is not None:
            ext[key] = "true" if value else "false"
    return ext
