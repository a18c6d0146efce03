"""Every condition, reason and code that the operator can set has a line in docs/conditions.md, and no other has."""

import ast
import re
from collections.abc import Iterator

from logherd_operator.plan.actions import RestartReason
from logherd_operator.plan.outcome import Code, OperationType
from logherd_operator.status.conditions import _BROKEN, _CONDITIONS, _STALLED
from style.tree import ROOT

SOURCE = ROOT / "operator/logherd_operator"
PAGE = ROOT / "docs/conditions.md"
OTHERS = ("Blocked", "Restarts")


def sections(page: str) -> dict[str, dict[str, set[str]]]:
    """Heading -> word in the first column -> the words in the second."""
    found: dict[str, dict[str, set[str]]] = {}
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        rows = found.setdefault(heading.strip(), {})
        for line in re.findall(r"^\| (`.+)$", text, re.MULTILINE):
            first, second, *_ = line.split(" | ")
            for word in re.findall(r"`(\w+)`", first):
                rows.setdefault(word, set()).add(second)
    return found


def stated(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """(function, status, reason) of every Finding whose reason is a word; what is a code is looked at apart."""
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        reasons = [
            element.elts[1].value
            for element in ast.walk(function)
            if isinstance(element, ast.Tuple) and len(element.elts) == 2 and isinstance(element.elts[1], ast.Constant)
        ]
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Finding":
                status, reason = call.args[0], call.args[1]
                assert isinstance(status, ast.Constant), ast.unparse(call)
                if isinstance(reason, ast.Constant):
                    yield function.name, status.value, reason.value
                elif isinstance(reason, ast.Name):  # it runs over the tuples of a loop
                    yield from ((function.name, status.value, each) for each in reasons)
                else:
                    words = ast.unparse(reason)
                    assert words in ("block.code.value", "operation.type.value", "look.plan.operation.type.value"), (
                        words
                    )


def said_of_conditions() -> dict[str, set[tuple[str, str]]]:
    """Condition -> (status, reason), as the code has them."""
    tree = ast.parse((SOURCE / "status/conditions.py").read_text())
    names = {function.__name__: condition for condition, function in _CONDITIONS.items()}
    found: dict[str, set[tuple[str, str]]] = {condition: set() for condition in _CONDITIONS}
    for function, status, reason in stated(tree):
        found[names[function]].add((status, reason))
    found["Progressing"] |= {("True", each.value) for each in OperationType}
    found["Degraded"] |= {("True", each.value) for each in _BROKEN}
    return found


def reasons_elsewhere() -> set[str]:
    """Reasons of conditions that are made outside of that module."""
    return {
        reason
        for path in SOURCE.rglob("*.py")
        for reason in re.findall(r'"status": "\w+", "reason": "(\w+)"', path.read_text())
    }


def test_every_reason_of_every_condition_is_explained_with_its_status() -> None:
    page = sections(PAGE.read_text())
    code = said_of_conditions()
    code["Degraded"] |= {("True", each) for each in reasons_elsewhere()}
    assert set(page) == {*code, *OTHERS}
    for condition, said in code.items():
        explained = {(status, word) for word, statuses in page[condition].items() for status in statuses}
        assert explained == said, condition


def test_every_code_and_every_reason_for_a_restart_is_explained() -> None:
    page = sections(PAGE.read_text())
    assert set(page["Blocked"]) == {each.value for each in Code}
    assert set(page["Restarts"]) == {each.value for each in RestartReason}
    assert set(_STALLED) < set(Code)


def test_what_is_found_in_the_code_is_not_nothing() -> None:
    code = said_of_conditions()
    assert ("False", "BelowMinInSync") in code["Available"]
    assert ("False", "QuorumLoss") in code["Upgradeable"]
    assert reasons_elsewhere() == {"InvalidSpec"}
    assert min(len(each) for each in code.values()) > 1


def test_rows_are_read_with_all_their_words() -> None:
    head = "## Available\n\n| reason | status | x |\n| --- | --- | --- |\n"
    page = f"{head}| `A`, `B` | True | x | y |\n| `A` | False | x |\n"
    assert sections(page) == {"Available": {"A": {"True", "False"}, "B": {"True"}}}
