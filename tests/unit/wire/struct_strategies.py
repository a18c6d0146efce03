"""Hypothesis strategies for msgspec structs, made from their types."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

__all__ = ["instances", "texts"]


def texts(max_size: int = 12) -> st.SearchStrategy[str]:
    """Text that UTF-8 can carry, biased to what breaks parsers."""
    spiky = st.sampled_from(['"', "\\", "\x01", "\x02", "{", "}", ":", ",", "é", "漢", "\U0001f600", " ", "null", "0"])
    return st.lists(spiky | st.characters(exclude_categories=["Cs"]), max_size=max_size).map("".join)


def instances(cls: Any) -> st.SearchStrategy[Any]:
    """Values of a type that msgspec can describe."""
    return _strategy(inspect.type_info(cls))


def _strategy(info: inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case inspect.StructType():
            return st.deferred(lambda: _struct(info))
        case inspect.IntType():
            low = -(2**31) if info.ge is None else info.ge
            high = info.lt - 1 if info.lt is not None else 2**31 - 1 if info.le is None else info.le
            edges = [each for each in (low, high, 0, -1) if low <= each <= high]
            return st.sampled_from(edges) | st.integers(low, high)
        case inspect.StrType():
            return texts()
        case inspect.BoolType():
            return st.booleans()
        case inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case inspect.BytesType():
            return st.binary(max_size=9)
        case inspect.NoneType():
            return st.none()
        case inspect.RawType():
            return st.just(msgspec.Raw(b'{"bname":"b"}'))
        case inspect.UnionType():
            known = [member for member in info.types if not isinstance(member, inspect.CustomType)]
            return st.one_of([_strategy(member) for member in known])
        case inspect.ListType():
            return st.lists(_strategy(info.item_type), max_size=3)
        case inspect.DictType():
            return st.dictionaries(_strategy(info.key_type), _strategy(info.value_type), max_size=3)
        case _:
            raise AssertionError(f"no strategy for {info}")


def _struct(info: inspect.StructType) -> st.SearchStrategy[Any]:
    # Left-out fields keep their defaults (UNSET among them), so that those are tried too.
    required = {field.name: _strategy(field.type) for field in info.fields if field.required}
    optional = {field.name: _strategy(field.type) for field in info.fields if not field.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda values: info.cls(**values))
