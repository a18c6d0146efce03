"""`mqadmin`'s commands for controllers print for LogHerd's what they print for RocketMQ 5.3.3's, asked at any of them.

Three controllers and three brokers each, with the same history. What is meant to differ stands in `OURS`, with what
LogHerd says instead, and why.
"""

import difflib
import json
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from compat.controllers import Controllers, start_logherd_controllers, start_rocketmq_controllers
from compat.driver import Driver
from compat.fake_broker import NOTIFY, FakeBroker, in_sync
from compat.history import Answer
from compat.normalise import normalise
from compat.remoting import ask
from compat.server import BROKER, CLUSTER, Server

# The history is told once for all of these, which takes half a minute of mostly waiting.
pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

SET = f"getSyncStateSet -a {{follower}} -b {BROKER}"
ELECT = f"electMaster -a {{follower}} -c {CLUSTER} -bn {BROKER} -b"
CLEAN = f"cleanBrokerMetadata -a {{follower}} -c {CLUSTER} -bn"
UPDATE = "updateControllerConfig -k transferMs -v 2500 -a"

FOUNDED = [
    ("metadata at the leader", "getControllerMetaData -a {leader}"),
    ("metadata at a follower", "getControllerMetaData -a {follower}"),
    ("in-sync set", SET),
    ("in-sync set at the leader", f"getSyncStateSet -a {{leader}} -b {BROKER}"),
    ("in-sync sets of a cluster", f"getSyncStateSet -a {{follower}} -c {CLUSTER}"),
    ("in-sync set of a missing group", "getSyncStateSet -a {follower} -b nobody"),
    ("elect who leads", f"{ELECT} 1"),
    ("elect an unknown broker", f"{ELECT} 9"),
    ("elect in a missing group", f"electMaster -a {{leader}} -c {CLUSTER} -bn nobody -b 1"),
    ("elect", f"{ELECT} 2"),
]
ELECTED = [
    ("in-sync set after the election", SET),
    ("elect at the leader", f"electMaster -a {{leader}} -c {CLUSTER} -bn {BROKER} -b 1"),
]
ONE_GONE = [
    ("in-sync set with one gone", SET),
    ("clean a living broker", f"{CLEAN} {BROKER} -b 2"),
    ("clean several, one of them alive", f"{CLEAN} {BROKER} -b '2;3'"),
    ("clean a group that is led", f"{CLEAN} {BROKER}"),
    ("clean in a missing group", f"{CLEAN} nobody -b 1"),
    ("clean", f"{CLEAN} {BROKER} -b 3"),
    ("in-sync set after the cleaning", SET),
    ("update at the leader", f"{UPDATE} {{leader}}"),
    ("update at all", f"{UPDATE} '{{leader}};{{followers}}'"),
    ("update at a follower", "updateControllerConfig -k gatherMs -v 400 -a {follower}"),
    ("update what nobody may", "updateControllerConfig -k configStorePath -v /nowhere -a {leader}"),
    ("update a missing setting", "updateControllerConfig -k noSuchKey -v 1 -a {leader}"),
    ("configuration of one", "getControllerConfig -a {follower}"),
    ("configuration of all", "getControllerConfig -a '{leader};{followers}'"),
]
STEPS = [*FOUNDED, *ELECTED, *ONE_GONE]

# Steps where LogHerd says something else on purpose: what it must say, and why.
_FAILED = r"\S+SubCommandException: UpdateControllerConfigSubCommand command failed\nCaused by: \S+Exception: CODE: "
_ELECTED = (
    r"#ClusterName compat-cluster\n#BrokerName broker-a\n#BrokerMasterAddr <broker 3000{}>\n#MasterEpoch {}\n"
    r"#SyncStateSetEpoch <version>\n #Broker 1 <broker 30001>\n #Broker 2 <broker 30002>\n #Broker 3 <broker 30003>"
)
_MEMBERS = "5.3.3 looks for the members where its controller does not put them; LogHerd puts them at both places"
OURS = {
    "elect": (_ELECTED.format(2, 2), _MEMBERS),
    "elect at the leader": (_ELECTED.format(1, 3), _MEMBERS),
    "update at a follower": (_FAILED + "2007", "settings are replicated, so the leader takes them and nobody else"),
    "update a missing setting": (_FAILED + "29", "RocketMQ takes any key and forgets it"),
}  # fmt: skip
CONFIGURATIONS = ("configuration of one", "configuration of all")


def tell(kind: str, java_classes: str, directory: Path) -> dict[str, str]:
    """Step -> what mqadmin printed, with what differs between any two runs taken out."""
    start = start_logherd_controllers if kind == "logherd" else None
    running = start(directory) if start is not None else start_rocketmq_controllers(java_classes, directory)
    with running as controllers, Driver(java_classes, directory / "driver") as driver:
        teller = Teller(controllers, driver)
        brokers = [FakeBroker(number, controllers) for number in (1, 2, 3)]
        for broker in brokers:
            broker.start()
        register(controllers, brokers[0])
        if kind == "rocketmq":
            brokers[0].elect_itself()
        settle(controllers, brokers, 1)
        teller.run(FOUNDED)
        settle(controllers, brokers, 2)
        teller.run(ELECTED)
        settle(controllers, brokers, 1)
        brokers[0].alter(1, 2)
        brokers[2].stop()
        in_sync(controllers, 1, 2, alive=2)
        teller.run(ONE_GONE)
        brokers[0].stop()
        brokers[1].stop()
        told = {"pushed": str(sorted({header["code"] for broker in brokers for header in broker.pushed}))}
        return teller.texts | told


def register(controllers: Controllers, broker: FakeBroker) -> None:
    """Make the group known to the name service."""
    fields = {
        "clusterName": CLUSTER, "brokerName": BROKER, "brokerId": "0", "brokerAddr": broker.address,
        "haServerAddr": broker.address, "compressed": "false", "bodyCrc32": "0",
    }  # fmt: skip
    version = {"counter": 1, "timestamp": 1, "stateVersion": 0}
    body = {"topicConfigSerializeWrapper": {"topicConfigTable": {}, "dataVersion": version}, "filterServerList": []}
    header, _ = ask(controllers.name_port, 103, fields, json.dumps(body).encode())
    assert header["code"] == 0, header


def settle(controllers: Controllers, brokers: list[FakeBroker], master: int) -> None:
    """Everybody is in sync again; RocketMQ's election takes the others out, LogHerd's keeps them (rule R10)."""
    if controllers.kind == "rocketmq":
        in_sync(controllers, master, alive=3)
        brokers[master - 1].alter(1, 2, 3)
    in_sync(controllers, 1, 2, 3, alive=3)


class Teller:
    """Runs commands and notes what they print."""

    def __init__(self, controllers: Controllers, driver: Driver) -> None:
        self._controllers = controllers
        self._driver = driver
        leader = controllers.leader
        followers = [node for node in controllers.ports if node != leader]
        self._addresses = {node: f"127.0.0.1:{port}" for node, port in controllers.ports.items()}
        self._names = {leader: "leader", followers[0]: "follower 1", followers[1]: "follower 2"}
        self._places = {
            "leader": self._addresses[leader], "follower": self._addresses[followers[0]],
            "followers": ";".join(self._addresses[node] for node in followers),
        }  # fmt: skip
        self.texts: dict[str, str] = {}

    def run(self, steps: list[tuple[str, str]]) -> None:
        for step, text in steps:
            command = [*shlex.split(text.format(**self._places)), "-n", self._controllers.name_server]
            said = self._driver.call("mqadmin", command=command)
            self.texts[step] = self._plain(Answer(step, command[0], said["out"], said["err"]))

    def _plain(self, answer: Answer) -> str:
        out, err = answer.out, answer.err
        for node, name in self._names.items():
            out, err = (
                re.sub(rf"\b{node}\b", f"<{name}>", text.replace(self._addresses[node], f"<{name}'s address>"))
                for text in (out, err)
            )
        # Brokers' addresses are fixed, and shown as they are.
        kept = re.sub(r"127\.0\.0\.1:(3000\d)", r"<broker \1>", out)
        text = normalise(Answer(answer.step, answer.command, kept, err), Server(65_534, 65_535), {})
        text = re.sub(r"(?m)^#(SyncStateSetEpoch) .*", r"#\1 <version>", text)
        # Peers come in the order of a hash table.
        lines = text.splitlines()
        peers = sorted(line for line in lines if line.startswith("#Peer:"))
        return "\n".join(peers.pop(0) if line.startswith("#Peer:") else line for line in lines)


@pytest.fixture(scope="module")
def told(java_classes: str, workspace: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The history of both, told at the same time."""
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(tell, kind, java_classes, workspace / f"controllers-{kind}") for kind in ("rocketmq", "logherd")
        ]
        theirs, ours = (job.result() for job in jobs)
    return theirs, ours


@pytest.mark.parametrize("step", [step for step, _ in STEPS if step not in CONFIGURATIONS])
def test_mqadmin_prints_what_it_prints_for_rocketmqs_controllers(
    told: tuple[dict[str, str], dict[str, str]], step: str
) -> None:
    theirs, ours = (side[step] for side in told)
    if step in OURS:
        pattern, why = OURS[step]
        assert re.fullmatch(pattern, ours), f"{why}\n{ours}"
        return
    changed = list(difflib.unified_diff(theirs.splitlines(), ours.splitlines(), "RocketMQ 5.3.3", "LogHerd", n=9))
    assert not changed, "\n".join([*changed, "RocketMQ said:", theirs, "LogHerd said:", ours])


@pytest.mark.parametrize("step", CONFIGURATIONS)
def test_configurations_come_from_every_controller_under_rocketmqs_names_where_it_has_them(
    told: tuple[dict[str, str], dict[str, str]], step: str
) -> None:
    theirs, ours = (side[step].splitlines() for side in told)
    heads = [sorted(line for line in side if line.startswith("====")) for side in (theirs, ours)]
    assert heads[0] == heads[1]
    names = [{line.partition(" = ")[0] for line in side if " = " in line} for side in (theirs, ours)]
    shared = {"controllerDLegerGroup", "controllerDLegerPeers", "controllerDLegerSelfId", "controllerStorePath"}
    assert shared <= names[0] & names[1]
    for name in ("controllerDLegerGroup", "controllerDLegerSelfId", "enableElectUncleanMaster"):
        values = [[line for line in side if line.startswith(f"{name} =")] for side in (theirs, ours)]
        assert sorted(values[0]) == sorted(values[1])
    # What was set at the leader is shown by all; what only a follower was told is not.
    assert ours.count("transferMs = 2500") == len(heads[1])
    assert "gatherMs = 400" not in ours


def test_brokers_are_told_of_each_election_on_their_connections(told: tuple[dict[str, str], dict[str, str]]) -> None:
    assert told[1]["pushed"] == str([NOTIFY])
