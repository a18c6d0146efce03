"""S1: 1,500 seeds are clean, one in twenty is the same when repeated elsewhere, and together they reach rare states.

1,000 run over a log in memory, whose disk may lose any part of what was not flushed, and 500 over the controllers'
store on simulated disks, which takes half as long again. Groups of seeds go to whatever worker is free; the one that
ends last judges the whole run.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from sim.consensus.marks import MARKS
from sim.consensus.plan import draw_plan
from sim.consensus.run import Result, explain, repeat_command, run_seed

ROOT = Path(__file__).parents[3]
SEEDS_EACH = 20
MEMORY_GROUPS = 50
FILE_GROUPS = 25
GROUPS = MEMORY_GROUPS + FILE_GROUPS
PARTS = 5
MISSED_MAX = len(MARKS) // 5


def is_over_files(group: int) -> bool:
    return group >= MEMORY_GROUPS


def seeds_of(group: int) -> range:
    return range(group * SEEDS_EACH, (group + 1) * SEEDS_EACH)


@pytest.fixture(scope="session")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of this run, whichever worker looks."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "consensus"
    folder.mkdir(exist_ok=True)
    return folder


def write_down(ledger: Path, group: int, results: list[Result]) -> None:
    hits: Counter[str] = Counter()
    for result in results:
        hits.update(result.marks)
    summary = {
        "seeds": len(results),
        "committed": sum(result.committed for result in results),
        "reads": sum(result.reads for result in results),
        "changed leaders": sum(result.leaders > 1 for result in results),
        "halted": sum(result.halted for result in results),
        "hits": hits,
    }
    half = ledger / f"{group}.half"
    half.write_text(json.dumps(summary))
    half.rename(ledger / f"{group}.json")


def judge(summaries: Iterable[dict[str, int]], hits: Counter[str]) -> list[str]:
    """What is wrong with the run as a whole."""
    total: Counter[str] = Counter()
    for summary in summaries:
        total.update(summary)
    missed = [f"{name}: {meaning}" for name, meaning in MARKS.items() if not hits[name]]
    wrong = [f"never reached: {line}" for line in missed] if len(missed) > MISSED_MAX else []
    for what, least in (("committed", 50), ("reads", 30)):
        if total[what] < least * total["seeds"]:
            wrong.append(f"only {total[what]} {what} in {total['seeds']} seeds")
    if 2 * total["changed leaders"] < total["seeds"]:
        wrong.append(f"only {total['changed leaders']} of {total['seeds']} seeds had more than one leader")
    if 50 * total["halted"] > total["seeds"]:
        wrong.append(f"{total['halted']} seeds ended without a leader: too many doubtful disks to say much")
    return wrong


@pytest.mark.timeout(300)
@pytest.mark.parametrize("group", range(GROUPS))
def test_every_seed_is_clean_and_together_they_reach_rare_states(group: int, ledger: Path) -> None:
    files = is_over_files(group)
    results = [run_seed(seed, files=files) for seed in seeds_of(group)]
    write_down(ledger, group, results)
    failed = [result.seed for result in results if result.failure]
    for seed in failed[:1]:
        pytest.fail(f"seeds {failed}\n{explain(draw_plan(seed, files=files), repeat_command(seed, files=files))}")
    done = [json.loads(path.read_text()) for path in ledger.glob("*.json")]
    if len(done) == GROUPS:
        hits: Counter[str] = Counter()
        for summary in done:
            hits.update(summary.pop("hits"))
        assert judge(done, hits) == []


def test_a_run_that_is_blind_idle_or_halted_is_not_taken_for_a_good_one() -> None:
    good = {"seeds": 100, "committed": 9_000, "reads": 9_000, "changed leaders": 80, "halted": 1}
    hits = Counter(dict.fromkeys(MARKS, 1))
    assert judge([good], hits) == []
    blind = Counter(dict.fromkeys(list(MARKS)[MISSED_MAX + 1 :], 1))
    assert len(judge([good], blind)) == MISSED_MAX + 1
    for what in ("committed", "reads", "changed leaders"):
        assert len(judge([{**good, what: 10}], hits)) == 1
    assert "without a leader" in judge([{**good, "halted": 3}], hits)[0]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(PARTS))
def test_one_seed_in_twenty_gives_the_same_bits_in_two_processes(part: int) -> None:
    """The digest is over every event and message; the processes differ in hash seed, and run other seeds first."""
    chosen = [(group * SEEDS_EACH + part, is_over_files(group)) for group in range(part, GROUPS, PARTS)]
    outputs = []
    for hash_seed, order in (("1", chosen), ("2", chosen[::-1])):
        code = (
            "from sim.consensus.run import run_seed\n"
            f"for seed, files in {order}: print(seed, run_seed(seed, files=files, messages=True).digest)"
        )
        environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}/broker:{ROOT}/tests"}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
        outputs.append(sorted(done.stdout.splitlines()))
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == GROUPS // PARTS
