"""Values are equal by class and fields."""

from logherd_guardian.values import Value


class Pair(Value):
    __slots__ = ("first", "second")

    def __init__(self, first: object, second: object) -> None:
        self.first = first
        self.second = second


class Other(Pair):
    __slots__ = ()


def test_values_are_compared_by_their_fields() -> None:
    assert Pair(1, "a") == Pair(1, "a")
    assert Pair(1, "a") != Pair(2, "a")
    assert Pair(1, "a") != (1, "a")
    assert len({Pair(1, 2), Pair(1, 2), Pair(2, 1)}) == 2


def test_values_of_two_classes_differ() -> None:
    assert Pair(1, 2) != Other(1, 2)


def test_a_value_shows_its_fields() -> None:
    assert repr(Pair(1, "a")) == "Pair(first=1, second='a')"
