"""Size rules over the tree, and each rule on an example that breaks it."""

import pytest

from style import ratchet
from style.sizes import (
    CLASS_FIELDS_MAX,
    CLASS_FIELDS_WANTED,
    FUNCTION_LINES_MAX,
    FUNCTION_LINES_WANTED,
    Size,
    class_fields,
    file_faults,
    function_lines,
    ratchet_faults,
    spread_faults,
)  # fmt: skip
from style.tree import Module, modules

FUNCTIONS = [size for module in modules() for size in function_lines(module)]
CLASSES = [size for module in modules() for size in class_fields(module)]


def module_of(text: str) -> Module:
    return Module("logherd.example", "broker/logherd/example.py", text)


def test_functions_are_small() -> None:
    limits = {"wanted": FUNCTION_LINES_WANTED, "hard_max": FUNCTION_LINES_MAX}
    assert ratchet_faults(FUNCTIONS, **limits, ratchet=ratchet.FUNCTIONS) == []


def test_most_functions_are_very_small() -> None:
    assert spread_faults(FUNCTIONS) == []


def test_classes_are_narrow() -> None:
    limits = {"wanted": CLASS_FIELDS_WANTED, "hard_max": CLASS_FIELDS_MAX}
    assert ratchet_faults(CLASSES, **limits, ratchet=ratchet.CLASSES) == []


def test_long_files_explain_themselves() -> None:
    assert [fault for module in modules() for fault in file_faults(module)] == []


def test_a_function_is_counted_without_its_docstring_and_inside_classes() -> None:
    text = 'class A:\n    def f(self):\n        """One.\n\n        Two."""\n        x = 1\n        return x\n'
    assert list(function_lines(module_of(text))) == [Size("logherd.example:A.f", 3)]


def test_fields_are_counted_once_wherever_they_are_made() -> None:
    text = (
        "class A:\n    kind: ClassVar[int] = 1\n    a: int\n    def f(self):\n"
        "        self.a = 1\n        self.b = 2\n        self.c, self.d = 3, 4\n"
    )
    assert list(class_fields(module_of(text))) == [Size("logherd.example:A", 4)]


@pytest.mark.parametrize(
    ("size", "table", "expected"),
    [
        (46, {}, ["m:f has 46, allowed are 45"]),
        (50, {"m:f": 49}, ["m:f has 50, allowed are 49"]),
        (
            61,
            {"m:f": 70},
            ["m:f has 61, allowed are 60", "m:f is in the ratchet with 70 and now has 61: lower the ratchet"],
        ),
        (46, {"m:f": 50}, ["m:f is in the ratchet with 50 and now has 46: lower the ratchet"]),
        (45, {"m:f": 45}, ["m:f needs no place in the ratchet"]),
        (45, {"m:gone": 50}, ["m:gone is in the ratchet with 50 and now has 0: lower the ratchet"]),
        (50, {"m:f": 50}, []),
        (45, {}, []),
    ],
)
def test_the_ratchet_only_lets_things_shrink(size: int, table: dict[str, int], expected: list[str]) -> None:
    assert ratchet_faults([Size("m:f", size)], wanted=45, hard_max=60, ratchet=table) == expected


def test_a_house_of_long_functions_is_noticed() -> None:
    assert len(spread_faults([Size(f"m:{n}", 50) for n in range(100)])) == 2
    assert spread_faults([Size(f"m:{n}", 10) for n in range(100)]) == []


def test_a_long_file_without_a_reason_is_noticed() -> None:
    text = "x = 1\n" * 501
    assert len(file_faults(module_of(text))) == 1
    assert file_faults(module_of('"""Longer than 500 lines because of reasons."""\n' + text)) == []
