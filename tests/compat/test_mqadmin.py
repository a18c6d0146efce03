"""Every `mqadmin` command prints for LogHerd what it prints for RocketMQ 5.3.3 with the same history.

Differences that are meant stand in `ALLOWED`, each with its reason; anything else fails with a diff.
"""

import difflib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat.driver import Driver
from compat.history import CHANGE, CREATE, LOOK, tell
from compat.logherd_server import start_logherd
from compat.normalise import normalise
from compat.rocketmq import start_rocketmq
from compat.server import Server

KIND = os.environ.get("LOGHERD_COMPAT_AGAINST", "logherd")
# The history is told once for all of these, which takes a minute of mostly waiting.
pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]


@dataclass(frozen=True, slots=True)
class Allowed:
    """Text that may differ: in steps that begin so ("" = all), what the pattern matches is replaced on both sides.

    One that does not occur fails a test, unless it depends on timing (`always` is false).
    """

    steps: str
    pattern: str
    why: str
    replacement: str = ""
    always: bool = True


LATER_TOPICS = (
    "RMQ_SYS_TRANS_HALF_TOPIC|RMQ_SYS_TRANS_OP_HALF_TOPIC|SCHEDULE_TOPIC_XXXX|rmq_sys_wheel_timer|"
    "rmq_sys_SYNC_BROKER_MEMBER_broker-a|rmq_sys_REVIVE_LOG_compat-cluster"
)
STORE_TIMERS = (
    "commitLogDiskRatio_\\S+|getMessageEntireTimeMax|putLatency99|putLatency999|putMessageDistributeTime|"
    "putMessageEntireTimeMax|putMessageFailedTimes"
)
ALLOWED = [
    Allowed("", r"TPS: \d+\.\d+", "a rate of the moment", "TPS: <rate>"),
    Allowed("progress", r"(?<=CLUSTERING )\d+", "the rate again, rounded", "<rate>"),
    Allowed("statistics", r"\d+\.\d\d", "rates of the moment", "<rate>"),
    Allowed("clusters", r"V5_3_3 \d+\.\d\d\(0,0ms\) \d+\.\d\d\(", "rates of the moment", "V5_3_3 <rate>( <rate>("),
    Allowed("clusters", r"(?<=\) )\d+ \d+\.\d\d \d\.\d{4} true", "page cache wait, age and disk use", "<moment>"),
    Allowed("clusters", r"\d+-\d+(?=\(\d+\.\dw, )", "how far RocketMQ's timer is behind at the moment", "<behind>"),
    Allowed(
        "broker status", rf"(?m)^(<broker> )?({STORE_TIMERS})\s*:.*\n",
        "RocketMQ's timing of its own locks and maps, and its ratio for each of several log directories",
    ),
    Allowed(
        "broker status", r"(?m)^(<broker> )?(\w+?)(_/\S+)?(\s*:.*)$", "figures of the moment; their names are compared",
        r"\1\2",
    ),
    Allowed("broker config", r"(?m) =.*$", "values of another program; the names are compared"),
    Allowed("topics", rf"(?m)^(compat-cluster )?({LATER_TOPICS})(\n|$)", "topics of features to come"),
    Allowed("", r"(?m)^(compat-cluster )?Orders Orders\b.*\n", "5.3.3 counts a topic as a group of its own name"),
    Allowed("message", r"(?s)MessageTrack \[consumerGroup=Orders,.*?\)\]\n?", "the same, with the error it leads to"),
    Allowed("clusters with totals", r"(?<= 9 )[67]$", "5.3.3 counts what wakes a waiting pull twice", "<got>"),
    Allowed("statistics", r"(?m)(?<=^Orders billing 0 <rate> <rate> 7 )[67]$", "the same", "<got>"),
    Allowed("", r"__CRC32#=\d{10}, ", "every record of LogHerd has a checksum (rule H1)"),
    Allowed("", r"CommitLog Offset: \d+", "positions in two different logs", "CommitLog Offset: <position>"),
    Allowed("", r"commitLogOffset=\d+", "the same", "commitLogOffset=<position>"),
    Allowed("", r"storeSize=\d+", "the checksum takes 20 bytes", "storeSize=<size>"),
    Allowed("progress", r"(?m)^%RETRY%billing .*\n", "the client commits the empty retry queue when it likes",
            always=False),
    Allowed(
        "progress after the resets", r"(?m)^(Orders .* 2) \d <time>$|(?<=Inflight Total: )\d+",
        "5.3.3 goes on counting what was pulled before the reset as in flight", r"\1 <inflight>",
    ),
]  # fmt: skip
# Steps where LogHerd says something else on purpose: what it must say, and why.
OURS = {
    "update a missing setting": (
        r"\S+SubCommandException: UpdateBrokerConfigSubCommand command failed\nCaused by: \S+Exception: CODE: (1|29)",
        "RocketMQ takes any key and forgets it; LogHerd refuses one that does not exist (issue 3)",
    ),
}  # fmt: skip


def without_allowed(step: str, text: str) -> str:
    for allowed in ALLOWED:
        if step.startswith(allowed.steps):
            text = re.sub(allowed.pattern, allowed.replacement, text)
    return text


def play(java_classes: str, directory: Path, kind: str) -> dict[str, str]:
    """Step -> normalised text of a fresh server of this kind."""
    start = start_logherd if kind == "logherd" else lambda where: start_rocketmq(java_classes, where)
    with start(directory) as server, Driver(java_classes, directory / "driver") as driver:
        history = tell(driver, server)
        for answer in history.answers:
            for path in re.findall(r"/tmp/rocketmq/msgbodys/\S+", answer.out):
                Path(path).unlink(missing_ok=True)
        place = Server(server.name_server_port, server.broker_port)
        return {answer.step: normalise(answer, place, history.ids) for answer in history.answers}


@pytest.fixture(scope="module")
def told(java_classes: str, workspace: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The history of RocketMQ and of the server under test, told at the same time."""
    kinds = ("rocketmq", KIND)
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(play, java_classes, workspace / f"told-{i}-{kind}", kind) for i, kind in enumerate(kinds)]
        theirs, ours = (job.result() for job in jobs)
    return theirs, ours


@pytest.mark.parametrize("step", [step for step, _ in (*CREATE, *LOOK, *CHANGE)])
def test_mqadmin_prints_what_it_prints_for_rocketmq(told: tuple[dict[str, str], dict[str, str]], step: str) -> None:
    theirs, ours = (without_allowed(step, side[step]).splitlines() for side in told)
    if step in OURS and KIND != "rocketmq":
        pattern, why = OURS[step]
        assert re.fullmatch(pattern, "\n".join(ours)), why
        return
    if step == "broker config":
        # Settings of another program: each name that LogHerd has is one of RocketMQ's, not the other way round.
        theirs = [line for line in theirs if line in ours]
    if step.startswith(("topics", "broker config")):
        # A hash table's order on the way; both sides are sets.
        theirs, ours = sorted(theirs), sorted(ours)
    changed = list(difflib.unified_diff(theirs, ours, "RocketMQ 5.3.3", "LogHerd", lineterm="", n=1))
    said = ["RocketMQ said:", repr(told[0][step]), "LogHerd said:", repr(told[1][step])]
    assert not changed, "\n".join([*changed, *said])


@pytest.mark.skipif(KIND == "rocketmq", reason="compares RocketMQ with itself, which differs in nothing")
def test_every_allowed_difference_occurs(told: tuple[dict[str, str], dict[str, str]]) -> None:
    unused = {allowed for allowed in ALLOWED if allowed.always}
    for side in told:
        for step, text in side.items():
            for allowed in ALLOWED:
                if step.startswith(allowed.steps) and re.search(allowed.pattern, text):
                    unused.discard(allowed)
                    text = re.sub(allowed.pattern, allowed.replacement, text)
    assert not unused
