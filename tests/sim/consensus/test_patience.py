"""Election time-outs that are changed one member after the other, while leaders are cut off and others restart."""

from dataclasses import replace
from typing import Any

import pytest

from logherd.raft.ground import Ground
from sim.consensus.plan import Fault, Plan, draw_plan
from sim.consensus.run import Result, run_plan
from sim.consensus.streams import stream

SEEDS = 120


def plan_of(seed: int) -> Plan:
    """Three rounds: somebody else leads, is cut off for longer than some wait for a leader, and somebody restarts."""
    drawn, draw = draw_plan(seed), stream(seed, "patience-plan")
    shape = replace(
        drawn.shape, founders=3, spares=0, lease_reads=True, patience=tuple(draw.choices((600, 4_000), k=5)),
        kinds=("transfer", "isolate", "crash"), loss=0.0, preferred=0, drift_ppm=500, faulty_ms=16_000,
    )  # fmt: skip
    faults: list[Fault] = []
    for at in (1_600, 6_600, 11_600):
        faults.append(Fault(at, "transfer", -1, 5, draw.getrandbits(32)))
        faults.append(Fault(at + 1_500, "isolate", -1, 3_000, draw.getrandbits(32)))
        faults.append(Fault(at + 1_520, "crash", draw.randrange(3), 5, draw.getrandbits(32)))
    return replace(drawn, shape=shape, faults=tuple(faults))


def results() -> list[Result]:
    return [run_plan(plan_of(seed)) for seed in range(SEEDS)]


def test_no_read_is_older_than_what_was_answered_while_time_outs_are_changed() -> None:
    ended = results()
    assert {result.seed: result.failure for result in ended if result.failure is not None} == {}
    assert sum(result.leaders >= 4 for result in ended) > SEEDS // 2, (
        "leaders that were cut off were followed by others"
    )


def test_a_leader_that_counts_on_others_as_long_as_on_itself_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ground, "hear_patience", lambda *_: None)
    assert any("C7" in (result.failure or "") for result in results())


def test_a_restarted_member_that_goes_by_its_new_time_out_at_once_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Ground.__init__

    def forget(self: Ground, *given: Any, owed_ms: int = 0, **more: Any) -> None:
        begin(self, *given, **more)

    monkeypatch.setattr(Ground, "__init__", forget)
    assert any("C7" in (result.failure or "") for result in results())


def test_reads_that_ask_a_quorum_need_to_know_of_no_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controllers: they tell each other nothing of theirs, grant leases and answer only after such a read, and may
    be restarted with other ones, too."""
    monkeypatch.setattr(Ground, "hear_patience", lambda *_: None)
    plans = [plan_of(seed) for seed in range(SEEDS)]
    ended = [run_plan(replace(plan, shape=replace(plan.shape, lease_reads=False))) for plan in plans]
    assert {result.seed: result.failure for result in ended if result.failure is not None} == {}
    assert sum(result.leaders >= 4 for result in ended) > SEEDS // 2
    assert sum(result.reads for result in ended) > 20 * SEEDS
