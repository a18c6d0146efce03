"""The checker itself: one legal look-alike and one violation for each rule, and every mutant of a real history."""

import random
from dataclasses import replace

import pytest

from checkers.history import History, Outcome, Read, Send
from checkers.log_checks import check_log

Q = ("T", 0)


def ok(value: str, offset: int, invoked: int, returned: int) -> Send:
    return Send(value, Outcome.OK, invoked, returned, Q, offset)


def history(sends: list[Send], final: list[str], *, reads: list[Read] | None = None, first: int = 0) -> History:
    return History(sends, reads or [], {Q: (first, list(enumerate(final, first)))}, drained=True)


LEGAL = {
    "plain": history([ok("a", 0, 1, 2), ok("b", 1, 3, 4)], ["a", "b"]),
    "concurrent appends in any order": history([ok("a", 1, 1, 9), ok("b", 0, 2, 8)], ["b", "a"]),
    "an unknown send may be stored": history([ok("a", 0, 1, 2), Send("u", Outcome.UNKNOWN, 3)], ["a", "u"]),
    "an unknown send may be missing": history([ok("a", 0, 1, 2), Send("u", Outcome.UNKNOWN, 3)], ["a"]),
    "an unknown send may be stored late": history([Send("u", Outcome.UNKNOWN, 1), ok("a", 0, 5, 6)], ["a", "u"]),
    "retention removed the first": history([ok("a", 0, 1, 2), ok("b", 1, 3, 4)], ["b"], first=1),
    "a strong read": history([ok("a", 0, 1, 2)], ["a"], reads=[Read(Q, ((0, "a"),), 3, 4, 1)]),
    "a read during the append sees nothing": history([ok("a", 0, 1, 9)], ["a"], reads=[Read(Q, (), 3, 4, 0)]),
}

BROKEN = {
    "H1 two values at one offset": ("H1", history([ok("a", 0, 1, 2), ok("b", 0, 3, 4)], ["a"])),
    "H2 one value at two offsets": ("H2", history([ok("a", 0, 1, 2)], ["a", "a"])),
    "H3 an acknowledged tail is lost": ("H3", history([ok("a", 0, 1, 2), ok("b", 1, 3, 4)], ["a"])),
    "H4 never sent": ("H4", history([ok("a", 0, 1, 2)], ["a", "x"])),
    "H4 answered as failed": ("H4", history([ok("a", 0, 1, 2), Send("f", Outcome.FAILED, 3, 4)], ["a", "f"])),
    "H4 read before it was sent": (
        "H4",
        history([ok("a", 0, 5, 6)], ["a"], reads=[Read(Q, ((0, "a"),), 1, 2)]),
    ),
    "H5 a hole in the final log": (
        "H5",
        History([ok("a", 0, 1, 2), ok("b", 2, 3, 4)], [], {Q: (0, [(0, "a"), (2, "b")])}, drained=True),
    ),
    "H5 a hole in a read": (
        "H5",
        history(
            [ok("a", 0, 1, 2), ok("b", 1, 3, 4), ok("c", 2, 5, 6)],
            ["a", "b", "c"],
            reads=[Read(Q, ((0, "a"), (2, "c")), 7, 8)],
        ),
    ),
    "H6 against real time": ("H6", history([ok("a", 1, 1, 2), ok("b", 0, 3, 4)], ["b", "a"])),
    "H6 a stale strong read": ("H6", history([ok("a", 0, 1, 2)], ["a"], reads=[Read(Q, (), 3, 4, 0)])),
    "H7 a dirty read": (
        "H7",
        history([ok("a", 0, 1, 2), Send("u", Outcome.UNKNOWN, 3)], ["a"], reads=[Read(Q, ((1, "u"),), 4, 5)]),
    ),
}


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_history_is_valid(name: str) -> None:
    assert check_log(LEGAL[name]).violations == ()
    assert check_log(LEGAL[name]).name == "valid"


@pytest.mark.parametrize("name", BROKEN)
def test_a_violation_is_found_by_its_rule(name: str) -> None:
    rule, broken = BROKEN[name]
    verdict = check_log(broken)
    assert verdict.name == "invalid"
    assert rule in {violation.rule for violation in verdict.violations}


def test_without_a_drain_or_traffic_the_verdict_is_unknown() -> None:
    assert check_log(History()).name == "unknown"
    undrained = replace(history([ok("a", 0, 1, 2)], ["a"]), drained=False)
    assert check_log(undrained).name == "unknown"
    assert check_log(history([ok("a", 0, 1, 2)], ["a"]), ok_sends_min=2).name == "unknown"


def real_history(seed: int) -> History:
    """A linearizable run of overlapping appends, made by one random schedule."""
    draw = random.Random(seed)
    time, sends, final = 0, [], []
    for offset in range(200):
        invoked = time + draw.randrange(1, 5)
        time = invoked + draw.randrange(1, 5)
        sends.append(ok(f"v{offset}", offset, invoked, time + draw.randrange(1, 20)))
        final.append(f"v{offset}")
    return history(sends, final, reads=[Read(Q, ((5, "v5"), (6, "v6")), 10_000, 10_001, 200)])


@pytest.mark.parametrize("seed", range(20))
def test_every_mutant_of_a_real_history_is_flagged(seed: int) -> None:
    draw = random.Random(seed)
    good = real_history(seed)
    assert check_log(good).name == "valid"
    entries = good.final[Q][1]
    at = draw.randrange(1, len(entries) - 1)
    swapped = list(entries)
    swapped[at], swapped[at + 1] = (at, entries[at + 1][1]), (at + 1, entries[at][1])
    mutants = {
        "dropped from the log": entries[:at] + entries[at + 1 :],
        "shortened drain": entries[:at],
        "duplicated value": [*entries, (len(entries), entries[at][1])],
        "altered byte": [*entries[:at], (at, entries[at][1] + "!"), *entries[at + 1 :]],
        "swapped": swapped,
    }
    for name, mutant in mutants.items():
        broken = History(good.sends, good.reads, {Q: (0, mutant)}, drained=True)
        assert check_log(broken).name == "invalid", name
    forgotten = History([s for s in good.sends if s.offset != at], good.reads, good.final, drained=True)
    assert check_log(forgotten).name == "invalid"
    stale = replace(good.reads[0], max_offset=at)
    assert check_log(History(good.sends, [stale], good.final, drained=True)).name == "invalid"
