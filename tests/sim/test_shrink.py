"""Plans keep their meaning on disk, and shrink to what a failure needs; shared work is done once."""

from pathlib import Path

from sim.once import once
from sim.plan import Fault, Plan
from sim.shrink import shrink


def plan_of(*faults: Fault, **shape: int) -> Plan:
    return Plan("none", 7, dict(shape), faults)


def many(count: int) -> tuple[Fault, ...]:
    return tuple(Fault(100 * number, "crash", number, 6_000, number) for number in range(count))


def test_a_plan_comes_back_from_disk(tmp_path: Path) -> None:
    plan = plan_of(*many(3), brokers=3).replaced(why="a reason", bug="B05")
    plan.save(tmp_path / "new" / "plan.json")
    again = Plan.load(tmp_path / "new" / "plan.json")
    assert again == plan
    assert again.digest == plan.replaced(why="another").digest != plan_of().digest


def test_only_the_faults_that_a_failure_needs_are_left_and_these_are_short() -> None:
    def fails(plan: Plan) -> bool:
        lasting = {fault.target: fault.lasts_ms for fault in plan.faults}
        return lasting.get(13, 0) >= 50 and 37 in lasting

    small = shrink(plan_of(*many(60)), fails, seconds=60)
    assert [(fault.target, fault.lasts_ms) for fault in small.faults] == [(13, 50), (37, 5)]
    assert [fault.number for fault in small.faults] == [13, 37]


def test_a_simpler_shape_is_taken_if_it_fails_too() -> None:
    small = shrink(
        plan_of(*many(2), brokers=4), lambda plan: plan.shape["brokers"] >= 2, seconds=60,
        simpler=lambda plan: (plan.replaced(shape={"brokers": brokers}) for brokers in (1, 2, 3)),
    )  # fmt: skip
    assert (small.shape, small.faults) == ({"brokers": 2}, ())


def test_what_fails_without_faults_shrinks_to_none_and_time_is_bounded() -> None:
    assert shrink(plan_of(*many(9)), lambda plan: True, seconds=60).faults == ()
    assert shrink(plan_of(*many(9)), lambda plan: True, seconds=0) == plan_of(*many(9))


def test_shared_work_is_done_once(tmp_path: Path) -> None:
    done: list[int] = []

    def work() -> dict[str, int]:
        done.append(1)
        return {"seeds": 3}

    assert once(tmp_path / "shared", "a", work) == once(tmp_path / "shared", "a", work) == {"seeds": 3}
    assert once(tmp_path / "shared", "b", work) == {"seeds": 3}
    assert len(done) == 2
