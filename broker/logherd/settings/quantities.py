"""Sizes, durations, addresses and paths as people write them: `1GiB`, `72h`, `127.0.0.1:10911`, `/var/lib/logherd`.

A bare number is bytes or milliseconds. In the option structs only plain integers are left, with the unit in the name.
"""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, StringConstraints, WithJsonSchema

__all__ = [
    "EVERY_INTERFACE", "Bytes", "DialledText", "EndpointText", "Milliseconds", "PathText", "Whole",
    "parse_bytes", "parse_milliseconds", "split_endpoint",
]  # fmt: skip

EVERY_INTERFACE = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- refused as an advertised address, not bound

_BYTES = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_MILLISECONDS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PATH_BYTES_MAX = 3840
"""Linux takes 4095; a store's files lie up to 200 below their folder."""
_NAME_BYTES_MAX = 255
_DIGITS_MAX = 18
_NUMBER_AND_UNIT = re.compile(rf"(\d{{1,{_DIGITS_MAX}}})\s*([A-Za-z]{{0,3}})")
_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


def _parse(value: object, units: dict[str, int], example: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"write a number with a unit, such as {example}")  # noqa: TRY004 -- pydantic catches these
    match = _NUMBER_AND_UNIT.fullmatch(str(value).strip())
    if match is None or match[2] not in units:
        names = ", ".join(unit for unit in units if unit)
        raise ValueError(f"write a whole number and one of {names}, such as {example}")
    number = int(match[1]) * units[match[2]]
    if len(str(number)) > _DIGITS_MAX:  # as what is in force it could not be read again
        raise ValueError(f"write less: in the smallest unit this has more than {_DIGITS_MAX} digits")
    return number


def parse_bytes(value: object) -> int:
    """Bytes of `4MiB`, `512KiB`, `100`. Raises ValueError for anything else."""
    return _parse(value, _BYTES, "64MiB")


def parse_milliseconds(value: object) -> int:
    """Milliseconds of `72h`, `30s`, `500ms`, `100`. Raises ValueError for anything else."""
    return _parse(value, _MILLISECONDS, "72h")


def split_endpoint(text: str) -> tuple[str, int]:
    """Host and port of `host:port`; an IPv6 host stands in brackets, which are taken off.

    Port 0 means: any free port. Raises: ValueError if the text has another shape.
    """
    host, separator, port = text.rpartition(":")
    if not separator or _HOST.fullmatch(host) is None or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("write host:port with a port from 0 to 65535, such as 127.0.0.1:10911")
    return host.strip("[]"), int(port)


def _check_endpoint(value: object) -> object:
    if isinstance(value, dict) and value.keys() == {"host", "port"}:  # an option struct on its way back to a model
        host = str(value["host"])
        value = f"[{host}]:{value['port']}" if ":" in host else f"{host}:{value['port']}"
    if isinstance(value, str):
        split_endpoint(value)
    return value


def _endpoint_parts(text: str) -> dict[str, str | int]:
    host, port = split_endpoint(text)
    return {"host": host, "port": port}


def _refuse_flag(value: object) -> object:
    if isinstance(value, bool):  # an int to Python, and 1 or 0 where somebody has mistaken the setting
        raise ValueError("write a whole number")  # noqa: TRY004 -- pydantic catches these
    return value


_TEXT = {"type": "string"}

Whole = Annotated[int, BeforeValidator(_refuse_flag)]
"""A number without a unit."""
Bytes = Annotated[int, BeforeValidator(parse_bytes), WithJsonSchema({**_TEXT, "format": "size"})]
Milliseconds = Annotated[int, BeforeValidator(parse_milliseconds), WithJsonSchema({**_TEXT, "format": "duration"})]
EndpointText = Annotated[
    str,
    BeforeValidator(_check_endpoint),
    PlainSerializer(_endpoint_parts, return_type=dict[str, str | int]),
    WithJsonSchema({**_TEXT, "format": "host:port"}),
]


def _check_dialled(text: str) -> str:
    host, port = split_endpoint(text)
    if host in EVERY_INTERFACE or port == 0:
        raise ValueError("others connect to it, so write a host that they can reach and a port that is not 0")
    return text


DialledText = Annotated[EndpointText, AfterValidator(_check_dialled)]
"""An address that others connect to."""


def _check_path(text: str) -> str:
    if "\0" in text:
        raise ValueError("a path holds no NUL byte")
    data = text.encode()
    if len(data) > _PATH_BYTES_MAX:
        raise ValueError(f"a path has at most {_PATH_BYTES_MAX} bytes here, this one has {len(data)}")
    if (longest := max(map(len, data.split(b"/")))) > _NAME_BYTES_MAX:
        raise ValueError(f"a name between slashes has at most {_NAME_BYTES_MAX} bytes, one of these has {longest}")
    return text


PathText = Annotated[str, StringConstraints(min_length=1), AfterValidator(_check_path)]
"""What the system can take for a path; whether something is there is not looked at."""
