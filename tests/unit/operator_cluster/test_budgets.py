"""Which budgets are over a pod: as policy/v1 has it, also where a selector is empty, missing, or a list of rules."""

from typing import Any

import pytest

from logherd_operator.cluster.budgets import budgets_over

POD = {"metadata": {"labels": {"app": "logherd", "tier": "data"}}}


def budget(name: str, selector: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": selector}}


def rule(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        (None, False), ({}, True), ({"matchLabels": {"app": "logherd"}}, True), ({"matchLabels": {"app": "x"}}, False),
        ({"matchLabels": {"app": "logherd", "more": "x"}}, False),
        (rule("app", "In", "x", "logherd"), True), (rule("app", "In", "x"), False), (rule("none", "In", "x"), False),
        (rule("app", "NotIn", "x"), True), (rule("app", "NotIn", "logherd"), False), (rule("none", "NotIn", "x"), True),
        (rule("tier", "Exists"), True), (rule("none", "Exists"), False),
        (rule("none", "DoesNotExist"), True), (rule("tier", "DoesNotExist"), False),
        ({"matchLabels": {"app": "logherd"}, **rule("tier", "In", "x")}, False),
    ],
)  # fmt: skip
def test_a_selector_fits_what_it_fits_in_kubernetes(selector: Any, fits: bool) -> None:
    assert budgets_over(POD, [budget("one", selector)]) == (("one",) if fits else ())


def test_all_that_fit_are_named_in_order() -> None:
    budgets = [budget("b", {}), budget("c", None), budget("a", {"matchLabels": {"tier": "data"}})]
    assert budgets_over(POD, budgets) == ("a", "b")
    assert budgets_over({"metadata": {}}, budgets) == ("b",)
