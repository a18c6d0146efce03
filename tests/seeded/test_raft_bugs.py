"""Every seeded defect of consensus is caught, by an invariant that is meant for it; without it the seed is clean."""

import pytest

from logherd.raft.memory import MemoryLog
from logherd.replication.receiver import Receiver
from script.play import play
from seeded.raft_bugs import BUGS, PLANS, apply_dropping_image, apply_repeating_numbers
from sim.consensus.run import run_plan

FOLLOWER_READ_AFTER_RESTART = """\
> group n1 n2 n3
> elect n1
> read n2
> deliver n2>n1
> deliver n1>n2
> deliver n2>n1
> keep n1>n2
> drop *>*
> crash n2
> start n2
> propose n1 new
> deliver n1>n3
> deliver n3>n1
> drop *>*
> link n1 n2
> deliver n1>n2
> drop *>*
> read n2
> drop *>*
> late
"""


@pytest.mark.parametrize("name", BUGS)
def test_the_kept_plan_is_caught_by_a_rule_of_its_own_and_clean_without_the_defect(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug = BUGS[name]
    plan = bug.plan(name)
    assert run_plan(plan).failure is None
    bug.apply(monkeypatch)
    failure = run_plan(plan).failure
    assert bug.is_caught(failure), failure


def test_no_plan_is_kept_for_a_defect_that_is_gone() -> None:
    assert sorted(path.stem for path in PLANS.glob("*.json")) == sorted(BUGS)


def test_a_read_number_that_repeats_after_a_restart_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """etcd-io/etcd#20418: the answer to a question of the former life would serve a read that is newer."""
    assert "read ready" not in play(FOLLOWER_READ_AFTER_RESTART)
    apply_repeating_numbers(monkeypatch)
    assert "read ready" in play(FOLLOWER_READ_AFTER_RESTART)


def test_an_image_that_drops_a_longer_log_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """B14, directed: the store's contract has it too."""
    from unit.raft.test_memory import test_records_that_continue_an_installed_image_stay as longer

    longer(MemoryLog(128))
    apply_dropping_image(monkeypatch)
    with pytest.raises(AssertionError):
        longer(MemoryLog(128))


def test_a_straggler_that_is_not_refused_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """B15, directed: a receiver that takes messages of an old connection answers them with an old generation."""
    from unit.replication.test_shipping import test_a_straggler_of_an_old_connection_is_dropped as straggler

    straggler()
    monkeypatch.setattr(Receiver, "_is_straggler", lambda self, generation: False)
    with pytest.raises(AssertionError):
        straggler()
