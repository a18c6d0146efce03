"""One leader per term, one lease holder per moment: each rule on a legal look-alike and on what breaks it."""

import pytest

from checkers.leadership import Lease, Sighting, check_leases, check_terms, percentile


def test_many_sightings_of_one_leader_are_valid() -> None:
    seen = [Sighting(1, "a", "x"), Sighting(1, "a", "y"), Sighting(2, "b", "x"), Sighting(3, "a", "x")]
    assert check_terms(seen, terms_min=3).name == "valid"


def test_two_leaders_in_one_term_are_caught() -> None:
    verdict = check_terms([Sighting(1, "a", "status of a"), Sighting(2, "a", "x"), Sighting(1, "b", "log of b")])
    assert (verdict.name, [each.rule for each in verdict.violations]) == ("invalid", ["C1"])
    assert "log of b" in verdict.violations[0].evidence


def test_too_few_terms_show_nothing() -> None:
    assert check_terms([Sighting(1, "a", "x")], terms_min=2).name == "void"
    assert check_terms([]).name == "void"


LEGAL = [
    [Lease("g", 0, 10, "a", 1), Lease("g", 5, 15, "a", 1)],
    [Lease("g", 0, 10, "a", 1), Lease("g", 10, 20, "b", 2)],
    [Lease("g", 0, 10, "a", 1), Lease("h", 5, 20, "b", 1)],
    [Lease("g", 0, 10, "a", 1), Lease("g", 11, 20, "a", 2)],
]
BROKEN = [
    [Lease("g", 0, 10, "a", 1), Lease("g", 9, 20, "b", 2)],
    [Lease("g", 0, 30, "a", 1), Lease("g", 5, 15, "a", 1), Lease("g", 20, 40, "b", 2)],
    [Lease("g", 0, 10, "a", 2), Lease("g", 10, 20, "b", 1)],
    [Lease("g", 0, 10, "a", 1), Lease("g", 10, 20, "b", 1)],
]


@pytest.mark.parametrize("leases", LEGAL)
def test_leases_one_after_another_are_valid(leases: list[Lease]) -> None:
    assert check_leases(leases, leases_min=2).name == "valid"


@pytest.mark.parametrize("leases", BROKEN)
def test_two_holders_at_once_or_a_lower_epoch_are_caught(leases: list[Lease]) -> None:
    verdict = check_leases(leases)
    assert verdict.name == "invalid"
    assert {each.rule for each in verdict.violations} == {"R2"}


def test_too_few_leases_show_nothing() -> None:
    assert check_leases([], leases_min=1).name == "void"


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.5, 0.99, 1.0, 0.0)] == [50.0, 99.0, 100.0, 1.0]
    assert percentile([7.0], 0.99) == 7.0
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.5)
