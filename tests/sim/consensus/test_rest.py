"""A member that knows when its last life ended owes only the rest of what that life promised, and no lease suffers."""

import pytest

from sim.consensus.member import Member
from sim.consensus.run import repeat_command, run_seed

_SEEDS = 40
_A_LEASE_IN_FORCE = 1670
"""Here a member starts again while a leader still counts on its promise to vote for nobody else."""


@pytest.fixture(autouse=True)
def every_new_life_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Member, "knows_rest", True)


@pytest.mark.parametrize("seed", [*range(_SEEDS), _A_LEASE_IN_FORCE])
def test_no_promise_is_broken_by_who_knows_how_long_it_was_silent(seed: int) -> None:
    result = run_seed(seed, files=seed % 3 == 0)
    assert result.failure is None, repeat_command(seed)


def test_a_claim_of_a_longer_silence_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    boot = Member._boot

    def boast(self: Member) -> None:
        if self.ended_ms is not None:
            self.ended_ms = max(0, self.ended_ms - 100_000)
        boot(self)

    monkeypatch.setattr(Member, "_boot", boast)
    assert "C7: a read is as new as what was answered before it" in str(run_seed(_A_LEASE_IN_FORCE).failure)
