"""The judge itself: planted faults are caught, look-alikes are not, and nothing red looks green.

Small random histories are judged a second time by an exhaustive search.
"""

import os
import random
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from checkers.history import Outcome
from checkers.linear import Floor, build_judge, judge
from checkers.operations import Operation
from compat.toolchain import MissingTool

pytestmark = pytest.mark.timeout(120)

NO_FLOOR = Floor({}, unknown_share=1.0)
OK, FAILED, UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN


@pytest.fixture(scope="session")
def program() -> Path:
    try:
        return build_judge()
    except MissingTool as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


def op(
    name: str, when: tuple[int, int | None], arguments: dict[str, Any], answer: dict[str, Any] | None = None,
    *, key: str = "k", process: int = 1,
) -> Operation:  # fmt: skip
    """An answered request, or one of unknown outcome if `when` has no end."""
    called, returned = when
    outcome = UNKNOWN if returned is None else OK
    return Operation(process, key, name, called, returned, outcome, arguments, answer or {})


def write(value: str, called: int, returned: int | None) -> Operation:
    return op("write", (called, returned), {"value": value})


def read(value: str, called: int, returned: int) -> Operation:
    return op("read", (called, returned), {}, {"value": value})


def cas(old: str, new: str, called: int, returned: int | None, *, swapped: bool = True) -> Operation:
    return op("cas", (called, returned), {"from": old, "to": new}, {"swapped": swapped})


VALID_REGISTERS = {
    "plain": [write("a", 1, 2), read("a", 3, 4)],
    "never written": [read("", 1, 2)],
    "read during a write": [write("a", 1, 9), read("a", 2, 3), read("a", 4, 5)],
    "an unknown write may have happened": [write("a", 1, None), read("a", 5, 6)],
    "an unknown write may happen late": [write("a", 1, None), read("", 5, 6), read("a", 7, 8)],
    "an unknown write may never happen": [write("a", 1, None), write("b", 3, 4), read("b", 5, 6)],
    "a failed write is not looked for": [replace(write("a", 1, 2), outcome=FAILED), read("", 5, 6)],
    "a swap that fits": [write("a", 1, 2), cas("a", "b", 3, 4), read("b", 5, 6)],
    "a swap that does not fit": [write("a", 1, 2), cas("x", "b", 3, 4, swapped=False), read("a", 5, 6)],
    "an unknown swap": [write("a", 1, 2), cas("a", "b", 3, None), read("a", 5, 6), read("b", 7, 8)],
}
BROKEN_REGISTERS = {
    "a stale read": [write("a", 1, 2), write("b", 3, 4), read("a", 5, 6)],
    "a lost write": [write("a", 1, 2), read("", 3, 4)],
    "a read that goes back": [write("a", 1, 2), write("b", 3, 20), read("b", 4, 5), read("a", 6, 7)],
    "a value from nowhere": [read("ghost", 1, 2)],
    "a failed write is seen": [replace(write("a", 1, 2), outcome=FAILED), read("a", 5, 6)],
    "two swaps of one value": [write("a", 1, 2), cas("a", "b", 3, 9), cas("a", "c", 4, 8)],
    "a swap refused without reason": [write("a", 1, 2), cas("a", "b", 3, 4, swapped=False)],
    "an unknown write that comes and goes": [write("a", 1, None), read("a", 5, 6), read("", 7, 8)],
}


@pytest.mark.parametrize("name", VALID_REGISTERS)
def test_a_legal_register_is_valid(program: Path, name: str) -> None:
    assert judge(program, VALID_REGISTERS[name], "register", floor=NO_FLOOR).name == "valid"


@pytest.mark.parametrize("name", BROKEN_REGISTERS)
def test_a_broken_register_is_invalid_and_the_key_is_named(program: Path, name: str) -> None:
    verdict = judge(program, BROKEN_REGISTERS[name], "register", floor=NO_FLOOR)
    assert verdict.name == "invalid"
    assert "key k" in verdict.violations[0].evidence


def test_one_broken_key_among_good_ones_is_found(program: Path) -> None:
    good = [replace(each, key=f"good{n}") for n in range(5) for each in VALID_REGISTERS["plain"]]
    bad = [replace(each, key="bad") for each in BROKEN_REGISTERS["a lost write"]]
    verdict = judge(program, [*good, *bad], "register", floor=NO_FLOOR)
    assert (verdict.name, len(verdict.violations)) == ("invalid", 1)
    assert "key bad" in verdict.violations[0].evidence


def look(epoch: int, master: int, version: int, members: list[int], called: int, returned: int) -> Operation:
    answer = {"epoch": epoch, "master": master, "version": version, "members": members}
    return op("look", (called, returned), {}, answer)


def claim(broker: int, code: str, called: int, returned: int | None, *, granted: bool = True) -> Operation:
    return op("claim", (called, returned), {"id": broker, "code": code}, {"granted": granted})


def next_id(number: int, called: int, returned: int) -> Operation:
    return op("next", (called, returned), {}, {"id": number})


def register(broker: int, incarnation: str, number: int, called: int, returned: int | None) -> Operation:
    arguments = {"id": broker, "store": f"s{broker}", "incarnation": incarnation}
    return op("register", (called, returned), arguments, {"registration": number})


def alter(
    epoch: int, version: int, members: list[int], called: int, returned: int | None, *, taken: list[int] | None = None
) -> Operation:  # fmt: skip
    arguments = {"broker": 1, "epoch": epoch, "version": version, "members": members}
    return op("alter", (called, returned), arguments, {"version": version + 1, "members": taken or members})


VALID_CONTROLLERS = {
    "claims in a row": [claim(1, "a", 1, 2), claim(2, "b", 3, 4), next_id(3, 5, 6)],
    "a claim may be repeated": [claim(1, "a", 1, 2), claim(1, "a", 3, 4)],
    "a claim of a taken id is refused": [claim(1, "a", 1, 2), claim(1, "b", 3, 4, granted=False)],
    "a claim that may have happened": [claim(1, "a", 1, None), claim(1, "b", 5, 6, granted=False)],
    "a claim that may not have happened": [claim(1, "a", 1, None), next_id(1, 5, 6), claim(1, "b", 7, 8)],
    "a first id must be 1": [claim(2, "a", 1, 2, granted=False), next_id(1, 3, 4)],
    "registrations count": [register(1, "p", 1, 1, 2), register(1, "p", 1, 3, 4), register(1, "q", 2, 5, 6)],
    "elections happen by themselves": [look(1, 1, 1, [1, 2], 1, 2), look(3, 2, 4, [2], 3, 4)],
    "a leadership ends": [look(1, 1, 1, [1], 1, 2), look(1, 0, 1, [1], 3, 4), look(2, 1, 2, [1], 5, 6)],
    "a set is altered": [look(1, 1, 1, [1], 1, 2), alter(1, 1, [1, 2], 3, 4), look(1, 1, 2, [1, 2], 5, 6)],
    "a set may be altered late": [look(1, 1, 1, [1], 1, 2), alter(1, 1, [1, 2], 3, None), look(1, 1, 1, [1], 5, 6)],
    "an alteration before an election": [alter(1, 1, [1, 2], 1, 2), look(2, 2, 3, [2], 3, 4)],
    "a member that is not heard is left out": [
        look(1, 1, 1, [1, 2], 1, 2), alter(1, 1, [1, 3], 3, 4, taken=[1]), look(1, 1, 2, [1], 5, 6),
    ],
    "a set that may be without some": [
        look(1, 1, 1, [1, 2], 1, 2), alter(1, 1, [1, 3], 3, None), look(1, 1, 2, [1], 5, 6),
    ],
}  # fmt: skip
BROKEN_CONTROLLERS = {
    "a double claim": [claim(1, "a", 1, 2), claim(1, "b", 3, 4)],
    "a double claim at once": [claim(1, "a", 1, 9), claim(1, "b", 2, 8)],
    "a lost claim": [claim(1, "a", 1, 2), next_id(1, 3, 4)],
    "a claim refused without reason": [claim(1, "a", 1, 2, granted=False)],
    "a claim that comes and goes": [claim(1, "a", 1, None), next_id(2, 5, 6), next_id(1, 7, 8)],
    "one registration for two": [register(1, "p", 1, 1, 2), register(2, "p", 1, 3, 4)],
    "a lost registration": [register(1, "p", 1, 1, 2), register(1, "q", 1, 3, 4)],
    "an epoch that goes back": [look(2, 1, 2, [1], 1, 2), look(1, 1, 1, [1], 3, 4)],
    "an epoch with two masters": [look(2, 1, 2, [1, 2], 1, 2), look(2, 2, 2, [1, 2], 3, 4)],
    "a master who comes back": [look(1, 1, 1, [1], 1, 2), register(1, "q", 1, 3, 4), look(1, 1, 1, [1], 5, 6)],
    "a version with two sets": [look(1, 1, 1, [1, 2], 1, 2), look(1, 1, 1, [1], 3, 4)],
    "an election without a version": [look(1, 1, 1, [1], 1, 2), look(2, 1, 1, [1], 3, 4)],
    "two alterations of one version": [alter(1, 1, [1, 2], 1, 9), alter(1, 1, [1, 3], 2, 8)],
    "a lost alteration": [look(1, 1, 1, [1], 1, 2), alter(1, 1, [1, 2], 3, 4), look(1, 1, 1, [1], 5, 6)],
    "another set than was altered to": [alter(1, 1, [1, 2], 1, 2, taken=[1]), look(1, 1, 2, [1, 2], 3, 4)],
    "a member whom nobody wanted": [alter(1, 1, [1, 2], 1, 2, taken=[1, 3])],
    "an alteration by an earlier master": [look(3, 2, 5, [2], 1, 2), alter(1, 5, [1], 3, 4)],
}  # fmt: skip


@pytest.mark.parametrize("name", VALID_CONTROLLERS)
def test_legal_decisions_are_valid(program: Path, name: str) -> None:
    assert judge(program, VALID_CONTROLLERS[name], "controller", floor=NO_FLOOR).name == "valid"


@pytest.mark.parametrize("name", BROKEN_CONTROLLERS)
def test_broken_decisions_are_invalid(program: Path, name: str) -> None:
    assert judge(program, BROKEN_CONTROLLERS[name], "controller", floor=NO_FLOOR).name == "invalid"


def fits(order: tuple[Operation, ...]) -> bool:
    """Whether a register can have done these in this order; unknown ones do what they can."""
    value = ""
    for each in order:
        if each.name == "read" and each.answer["value"] != value:
            return False
        if each.name == "cas":
            hit = value == each.arguments["from"]
            if each.outcome is OK and each.answer["swapped"] != hit:
                return False
            value = each.arguments["to"] if hit else value
        if each.name == "write":
            value = each.arguments["value"]
    return True


def linearizable(operations: list[Operation]) -> bool:
    """By trying every order: an unknown request may come last, which is as good as never."""
    known = [
        each
        for each in operations
        if each.outcome is not FAILED and not (each.outcome is UNKNOWN and each.name == "read")
    ]
    for order in permutations(known):
        in_time = all(
            later.returned is None or later.returned >= earlier.called
            for at, earlier in enumerate(order)
            for later in order[at + 1 :]
        )
        if in_time and fits(order):
            return True
    return False


def random_history(draw: random.Random) -> list[Operation]:
    """Up to six requests of three clients; half of the answers come from a register, the others from chance."""
    clocks, value, found = [0, 0, 0], "", []
    for number in range(draw.randint(2, 6)):
        client = draw.randrange(3)
        called = clocks[client] + draw.randint(1, 6)
        returned = called + draw.randint(1, 9)
        clocks[client] = returned
        outcome = draw.choices([OK, UNKNOWN, FAILED], [8, 2, 1])[0]
        name = draw.choice(["read", "write", "cas"])
        seen = value if draw.random() < 0.5 else draw.choice(["", "v0", "v1", "v2"])
        arguments = {"value": f"v{number}", "from": seen, "to": f"v{number}"}
        answer = {"value": seen, "swapped": draw.random() < 0.7}
        if name != "read" and outcome is OK:
            value = f"v{number}"
        end = None if outcome is UNKNOWN else returned
        found.append(Operation(client, "k", name, called, end, outcome, arguments, answer))
    return found


def test_random_histories_are_judged_as_by_exhaustive_search(program: Path) -> None:
    draw = random.Random(15)
    histories = [random_history(draw) for _ in range(300)]
    expected = {f"k{n}" for n, history in enumerate(histories) if not linearizable(history)}
    assert 40 < len(expected) < 260, "both kinds must be there"
    together = [replace(each, key=f"k{n}") for n, history in enumerate(histories) for each in history]
    verdict = judge(program, together, "register", floor=NO_FLOOR)
    named = {violation.evidence.split()[1].rstrip(":") for violation in verdict.violations}
    assert named == expected


def long_history(clients: int, count: int) -> list[Operation]:
    """Many writes at once of which nobody knows the outcome, and a read that none of them explains."""
    writes = [replace(write(f"w{n}", n, None), process=n % clients) for n in range(count)]
    reads = [read(f"w{n}", 1000 + 10 * n, 1001 + 10 * n) for n in range(count - 1, 0, -2)]
    ordered = [replace(each, called=2000 + 10 * n, returned=2001 + 10 * n) for n, each in enumerate(reads)]
    return [*writes, *ordered, read("nobody wrote this", 9_000, 9_001)]


def test_what_is_not_decided_in_time_is_unknown(program: Path) -> None:
    verdict = judge(program, long_history(8, 60), "register", floor=NO_FLOOR, seconds=0.2)
    assert verdict.name == "unknown"
    assert "not decided in time" in verdict.reason


@pytest.mark.parametrize(
    ("floor", "reason"),
    [
        (Floor({"read": 2}), "1 answered requests read"),
        (Floor({"write": 1, "cas": 1}), "0 answered requests cas"),
        (Floor({}, keys=2), "1 keys"),
        (Floor({}, drained_by="read"), ""),
    ],
)
def test_too_little_traffic_makes_a_run_void(program: Path, floor: Floor, reason: str) -> None:
    verdict = judge(program, VALID_REGISTERS["plain"], "register", floor=floor)
    assert verdict.name == ("void" if reason else "valid")
    assert verdict.reason.startswith(reason)


def test_a_drain_cut_short_makes_a_run_void(program: Path) -> None:
    floor = Floor({}, drained_by="read")
    assert judge(program, [*VALID_REGISTERS["plain"], write("z", 8, 9)], "register", floor=floor).name == "void"
    assert judge(program, [*VALID_REGISTERS["plain"], write("z", 8, None)], "register", floor=floor).name == "void"


def test_mostly_unknown_outcomes_make_a_run_void(program: Path) -> None:
    operations = [write(f"w{n}", n, None) for n in range(9)] + [write("a", 20, 21), read("a", 22, 23)]
    assert judge(program, operations, "register", floor=Floor({})).name == "void"


def test_an_empty_history_is_not_valid(program: Path) -> None:
    assert judge(program, [], "register", floor=NO_FLOOR).name == "void"
    assert judge(program, [], "register", floor=Floor({}, keys=0)).name == "unknown"


@pytest.mark.parametrize(
    "broken",
    [
        op("read", (1, 2), {}, {}),
        op("read", (2, 1), {}, {"value": ""}),
        op("cas", (1, 2), {"from": "", "to": "a"}, {}),
        op("write", (1, 2), {"value": 7}),
    ],
    ids=["an answer that says nothing", "an answer before the request", "a swap without an answer", "another type"],
)
def test_what_cannot_be_read_is_unknown(program: Path, broken: Operation) -> None:
    verdict = judge(program, [write("a", 1, 2), broken], "register", floor=NO_FLOOR)
    assert verdict.name == "unknown"
    assert "line 2" in verdict.reason


def test_no_such_model_is_unknown(program: Path) -> None:
    assert judge(program, VALID_REGISTERS["plain"], "queue", floor=NO_FLOOR).name == "unknown"
