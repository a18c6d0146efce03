"""Attributes of a topic: which there are, and how a text such as `+message.type=FIFO,-reserve.time` changes them.

Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/TopicAttributes.java
Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/attribute/AttributeUtil.java
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from logherd.kit.errors import LogHerdError

__all__ = ["TopicAttributeError", "alter_attributes", "parse_modifications"]

ADD, REMOVE = "+", "-"
_DIGITS_MAX: Final = 19  # of what Java reads as a long


class TopicAttributeError(LogHerdError):
    """An attribute modification that cannot be applied; nothing was changed."""


class _Attribute(NamedTuple):
    accepts: Callable[[str], bool]
    accepted: str
    changeable: bool


def _one_of(*values: str, changeable: bool) -> _Attribute:
    return _Attribute(frozenset(values).__contains__, " or ".join(values), changeable)


def _is_reserve_time(text: str) -> bool:
    return text == "-1" or (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX)


# BatchCQ, COMPACTION and MIXED exist in RocketMQ; here a topic could not keep what they promise.
_ATTRIBUTES: Final = {
    "queue.type": _one_of("SimpleCQ", changeable=False),
    "cleanup.policy": _one_of("DELETE", changeable=False),
    "message.type": _one_of("NORMAL", "FIFO", "DELAY", "TRANSACTION", "UNSPECIFIED", changeable=True),
    "reserve.time": _Attribute(_is_reserve_time, "-1 or a number of milliseconds", changeable=True),
}


def parse_modifications(text: str) -> dict[str, str]:
    """`+name=value,-name` as a mapping from signed name to value ("" for a removal). Raises TopicAttributeError."""
    found: dict[str, str] = {}
    for piece in filter(None, map(str.strip, text.split(","))):
        name, equals, value = piece.partition("=")
        if name[:1] != (ADD if equals else REMOVE):
            raise TopicAttributeError(f"attribute {piece!r} is neither +name=value nor -name")
        if name in found:
            raise TopicAttributeError(f"attribute {name!r} is given twice")
        found[name] = value
    return found


def alter_attributes(current: Mapping[str, str] | None, modifications: Mapping[str, str]) -> dict[str, str]:
    """The attributes after the modifications; `current` is None for a topic that is being created.

    Raises: TopicAttributeError naming the attribute and what is right.
    """
    altered = dict(current or {})
    touched: set[str] = set()
    for signed, value in modifications.items():
        sign, name = signed[:1], signed[1:]
        if sign not in (ADD, REMOVE):
            raise TopicAttributeError(f"attribute {signed!r} must begin with + or -")
        attribute = _ATTRIBUTES.get(name)
        if attribute is None:
            raise TopicAttributeError(f"attribute {name!r} does not exist; there are {', '.join(_ATTRIBUTES)}")
        if name in touched:
            raise TopicAttributeError(f"attribute {name!r} is both added and removed")
        touched.add(name)
        if current is not None and not attribute.changeable:
            raise TopicAttributeError(f"attribute {name!r} cannot be changed after the topic was created")
        if sign == ADD:
            if not attribute.accepts(value):
                raise TopicAttributeError(f"attribute {name!r} is {value!r}; right is {attribute.accepted}")
            altered[name] = value
        elif current is None:
            raise TopicAttributeError(f"attribute {name!r} cannot be removed from a topic that does not exist yet")
        elif altered.pop(name, None) is None:
            raise TopicAttributeError(f"attribute {name!r} cannot be removed, the topic does not have it")
    return altered
