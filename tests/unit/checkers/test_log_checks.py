"""The checker itself: one legal look-alike and one violation for each rule, and every mutant of a real history."""

import random
from dataclasses import replace

import pytest

from checkers.history import History, Outcome, Read, Send
from checkers.log_checks import check_log
from checkers.mutants import log_mutants

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
    "retention removed the first": replace(history([ok("a", 0, 1, 2), ok("b", 1, 3, 4)], ["b"], first=1), deletes=True),
    "a strong read": history([ok("a", 0, 1, 2)], ["a"], reads=[Read(Q, ((0, "a"),), 3, 4, 1)]),
    "a read from where it asked": history([ok("a", 0, 1, 2)], ["a"], reads=[Read(Q, ((0, "a"),), 3, 4, start=0)]),
    "a smaller end beside a read": history(
        [Send("u", Outcome.UNKNOWN, 1), ok("z", 1, 20, 21)],
        ["u", "z"],
        reads=[Read(Q, ((0, "u"),), 3, 6, 1), Read(Q, (), 5, 8, 0)],
    ),
    "a read during the append sees nothing": history([ok("a", 0, 1, 9)], ["a"], reads=[Read(Q, (), 3, 4, 0)]),
}

BROKEN = {
    "H1 two values at one offset": ("H1", history([ok("a", 0, 1, 2), ok("b", 0, 3, 4)], ["a"])),
    "H2 one value at two offsets": ("H2", history([ok("a", 0, 1, 2)], ["a", "a"])),
    "H3 an acknowledged tail is lost": ("H3", history([ok("a", 0, 1, 2), ok("b", 1, 3, 4)], ["a"])),
    "H3 the beginning is lost": ("H3", history([ok("a", 0, 1, 2), ok("b", 1, 3, 4)], ["b"], first=1)),
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
    "H5 a read begins behind what it asked for": (
        "H5",
        history([ok("a", 0, 1, 2), ok("b", 1, 3, 4)], ["a", "b"], reads=[Read(Q, ((1, "b"),), 5, 6, start=0)]),
    ),
    "H6 a follower tells of a message before the leader does": (
        "H6",
        history(
            [Send("u", Outcome.UNKNOWN, 1), ok("z", 1, 20, 21)],
            ["u", "z"],
            reads=[Read(Q, ((0, "u"),), 3, 4), Read(Q, (), 5, 6, 0)],
        ),
    ),
    "H6 against real time": ("H6", history([ok("a", 1, 1, 2), ok("b", 0, 3, 4)], ["b", "a"])),
    "H6 a stale strong read": ("H6", history([ok("a", 0, 1, 2)], ["a"], reads=[Read(Q, (), 3, 4, 0)])),
    "H8 an end before what was read": (
        "H6",
        history(
            [Send("u", Outcome.UNKNOWN, 1), ok("z", 1, 20, 21)],
            ["u", "z"],
            reads=[Read(Q, ((0, "u"),), 3, 4), Read(Q, (), 5, 6, 0)],
        ),
    ),
    "H8 an end that falls": (
        "H6",
        history(
            [Send("u", Outcome.UNKNOWN, 1), ok("z", 1, 20, 21)],
            ["u", "z"],
            reads=[Read(Q, (), 3, 4, 1), Read(Q, (), 5, 6, 0)],
        ),
    ),
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


def test_without_a_drain_the_verdict_is_unknown() -> None:
    assert check_log(History()).name == "unknown"
    undrained = replace(history([ok("a", 0, 1, 2)], ["a"]), drained=False)
    assert check_log(undrained).name == "unknown"


def test_with_too_little_in_it_a_run_is_void() -> None:
    shown, end = Read(Q, ((0, "a"),), 3, 4), Read(Q, (), 3, 4, 1)
    seen = history([ok("a", 0, 1, 2)], ["a"], reads=[shown, end])
    assert check_log(seen, ok_sends_min=1, reads_min=1).name == "valid"
    assert check_log(seen, ok_sends_min=2).name == "void"
    for left in (shown, end):
        assert check_log(replace(seen, reads=[left]), reads_min=1).name == "void"


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


@pytest.mark.parametrize("deletes", [False, True])
def test_every_mutant_of_a_chapter_is_found_by_its_rule(deletes: bool) -> None:
    """As tests/system/group_chaos.py has them of what its clients saw."""
    for seed in range(20):
        good = replace(real_history(seed), deletes=deletes)
        mutants = dict(log_mutants(good, random.Random(seed)))
        assert len(mutants) == 8 - deletes
        for name, mutant in mutants.items():
            assert name[:2] in {violation.rule for violation in check_log(mutant).violations}, name
