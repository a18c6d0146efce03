"""What is wrong with one value, and what would be right, in our own words: those of the library that checks name its
own types.
"""

from datetime import date
from typing import Any

from logherd.settings.controller_models import NODE_NAME
from logherd.settings.models import NAME

__all__ = ["found_and_right", "place"]

_VALUE_LENGTH_MAX = 60
_RIGHT = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "keys and values",
    "greater_than_equal": "{ge} or more",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "fewer digits",
    "int_type": "a whole number",
    "less_than_equal": "{le} or less",
    "literal_error": "{expected}",
    "model_type": "keys and values",
    "multiple_of": "a multiple of {multiple_of}",
    "string_pattern_mismatch": "{pattern}",
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "{min_length} or more characters",
    "string_type": "a text, in quotes where YAML takes it for something else",
    "too_long": "at most {max_length} entries",
    "tuple_type": "a list",
}
_PATTERNS = {
    NAME: "at most 63 letters, digits, _ and -, a letter or digit first",
    NODE_NAME: "lower-case letters, digits and -, none of these at an end",
}


def place(fault: Any) -> str:
    """Where it is; of a key that is wrong itself, what the key is in."""
    location = [str(part) for part in fault["loc"]]
    return ".".join(location[:-2] if location[-1:] == ["[key]"] else location) or "the document"


def found_and_right(fault: Any) -> str:
    """`'x' is not right: write a whole number`; of a rule over several values only the message, which names them."""
    found, right = fault["input"], _RIGHT.get(fault["type"])
    message = str(fault["msg"]).removeprefix("Value error, ")
    if right is None and isinstance(found, dict | list | tuple):
        return message
    message = f"{message[:1].lower()}{message[1:]}" if right is None else f"write {_told(right, fault)}"
    value = _shown(found)
    value = value if len(value) <= _VALUE_LENGTH_MAX else value[:_VALUE_LENGTH_MAX] + "..."
    key = "the key " if fault["loc"][-1:] == ("[key]",) else ""
    return f"{key}{value} is not right: {message}"


def _told(right: str, fault: Any) -> str:
    given = {name: str(value).replace("'", "") for name, value in fault.get("ctx", {}).items()}
    return right.format_map({**given, "pattern": _PATTERNS.get(given.get("pattern", ""), given.get("pattern", ""))})


def _shown(value: object) -> str:
    """As YAML and JSON have it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, date) else repr(value)
