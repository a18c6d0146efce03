"""Bad input to controllers: each is refused by name, and the others go on as if nothing had happened.

Damaged, foreign and stolen data directories are copies of a living controller's, started beside it in a namespace of
their own; strangers and other versions knock at the ports of the others.
"""

import itertools
import json
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from checkers.operations import Recorder
from logherd.peers.frames import FrameReader, Kind, make_frame
from logherd.peers.hello import PROTOCOL_VERSION, RefusalCode, decode_refusal
from logherd.raftlog.kept import Kept, decode_kept
from logherd.store.files_os import OsFiles
from logherd.store.slots import SlotPair
from system.controller_client import ControllerClient
from system.controllers import (
    NODES,
    PEER_PORT,
    admin_page,
    connect_from,
    controller,
    member_of,
    names_by_address,
    status_of,
)
from system.fake_brokers import GroupFacts, ask_claim, drain_group
from system.faults import prove_within
from system.netns import Network, why_unavailable
from system.nodes import NodeProcess, Quorum

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(why_unavailable()), reason=why_unavailable() or "everything is there"),
]

STRANGER = "stranger"
CANNOT_START = 3


@dataclass(slots=True)
class House:
    """Three controllers, a fourth node for whoever does not belong, and copies of the data of c3: `young` was made
    before anything was dropped from the log, `stolen` later."""

    network: Network
    quorum: Quorum
    directory: Path
    stolen: Path
    young: Path
    numbers: Iterator[int]

    def copy(self, *, young: bool = False) -> Path:
        """A directory of its own with the copied data in `data`."""
        place = self.directory / f"copy-{next(self.numbers)}"
        shutil.copytree(self.young if young else self.stolen, place / "data")
        return place

    def intruder(self, directory: Path, name: str = "c3", **settings: object) -> NodeProcess:
        """A controller at the stranger's address that calls itself `name`."""
        members = [member_of(self.network, each, STRANGER if each == name else each) for each in NODES]
        node = controller(self.network, STRANGER, directory, **({"nodeName": name, "controllers": members} | settings))
        node.launch()
        return node

    def decide(self) -> GroupFacts:
        """Have something decided that was not before."""
        facts = GroupFacts(f"group-{next(self.numbers)}")
        with Recorder(self.directory / f"history-{facts.name}", 1) as recorder:
            client = ControllerClient(connect_from(self.network, STRANGER), names_by_address(self.network), recorder)
            for broker_id in range(1, 13):
                while (asked := client.ask(ask_claim(facts.name, broker_id, f"code-{broker_id}"))) is None or (
                    asked.outcome.value != "ok"
                ):
                    assert self.quorum.leader(seconds=60)
                assert asked.answer["granted"]
            facts.claims = {broker_id: f"code-{broker_id}" for broker_id in range(1, 13)}
            drain_group(client, facts)
            client.close()
        return facts


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    directory = tmp_path_factory.mktemp("house")
    with Network((*NODES, STRANGER)) as network:
        nodes = [controller(network, node, directory / node, snapshotRecords=10) for node in NODES]
        with Quorum(nodes, status_of(network)) as quorum:
            quorum.agree()
            found = House(network, quorum, directory, directory / "stolen", directory / "young", itertools.count(1))
            victim = quorum.nodes["c3"]
            assert victim.stop() == 0
            shutil.copytree(victim.directory / "data", found.young)
            assert kept_of(found.young).base_position == 0, "the log goes back to its first record"
            victim.start()
            # Enough for records below an image to be dropped. Opening a log notes durably how far it is flushed: what
            # is decided before the restart lies below that mark, what is decided after it does not.
            for _ in range(3):
                found.decide()
            for copied in (False, True):
                quorum.converge()
                assert victim.stop() == 0
                if copied:
                    shutil.copytree(victim.directory / "data", found.stolen)
                victim.start()
                quorum.agree()
                found.decide()
            kept = kept_of(found.stolen)
            assert 0 < kept.base_position < kept.mark_position, "there is an image that is needed, and records"
            yield found


@contextmanager
def nobody_is_disturbed(house: House) -> Iterator[None]:
    """Whatever happens inside, the three keep their leader and their term, and go on deciding."""
    leader = house.quorum.agree()
    term = house.quorum.ask(leader)["term"]
    yield
    house.decide()
    assert house.quorum.agree() == leader
    assert house.quorum.ask(leader)["term"] == term
    assert all(node.running for node in house.quorum.nodes.values())


def kept_of(data: Path) -> Kept:
    slots = SlotPair.open(OsFiles(), str(data / "raft" / "promises"))
    try:
        return decode_kept(slots.value)
    finally:
        slots.close()


def flip(path: Path, at: int) -> None:
    """Turn one bit of one byte over."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes((byte ^ 0x40,)))


def first_segment(data: Path) -> Path:
    return min((data / "raft" / "log").iterdir())


def flip_below_the_mark(data: Path) -> None:
    kept = kept_of(data)
    assert kept.mark_position > kept.base_position + 64, "there are records that were promised"
    flip(first_segment(data), (kept.base_position + kept.mark_position) // 2)


def cut_below_the_mark(data: Path) -> None:
    kept = kept_of(data)
    with first_segment(data).open("r+b") as file:
        file.truncate((kept.base_position + kept.mark_position) // 2)


def zero_the_promises(data: Path) -> None:
    path = data / "raft" / "promises"
    path.write_bytes(bytes(path.stat().st_size))


def damage_all_images(data: Path) -> None:
    for image in (data / "raft" / "images").iterdir():
        flip(image, image.stat().st_size - 1)


def remove_all(folder: str) -> Callable[[Path], None]:
    def remove(data: Path) -> None:
        for path in (data / folder).iterdir():
            path.unlink()

    return remove


def write(path: Path, text: str) -> None:
    path.write_text(text)


def later_format(name: str) -> Callable[[Path], None]:
    def change(data: Path) -> None:
        path = data / name
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))

    return change


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a bit of a flushed record": (flip_below_the_mark, "it is damaged, not torn"),
    "a log cut below what was flushed": (cut_below_the_mark, "it is damaged, not torn"),
    "no segments": (remove_all("raft/log"), "damaged"),
    "no promises": (zero_the_promises, "promise lost"),
    "damaged images": (damage_all_images, "image damaged"),
    "no images": (remove_all("raft/images"), "image missing"),
    "a format file of something else": (lambda data: write(data / "raft/raftlog.json", "{}"), "not a log"),
    "a log of a later release": (later_format("raft/raftlog.json"), "later release"),
    "no format file": (lambda data: (data / "raft/raftlog.json").unlink(), "format lost"),
    "no identity": (lambda data: (data / "identity.json").unlink(), "is gone, but the log beside it holds promises"),
    "a damaged identity": (lambda data: flip(data / "identity.json", 0), "identity.json is damaged"),
    "an identity of a later release": (later_format("identity.json"), "is of format 99"),
    "a wiped log": (lambda data: shutil.rmtree(data / "raft"), "what it promised is lost"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_directory_is_refused_by_name(house: House, kind: str) -> None:
    damage, words = DAMAGES[kind]
    with nobody_is_disturbed(house):
        place = house.copy()
        damage(place / "data")
        node = house.intruder(place)
        assert node.wait(60) == CANNOT_START, node.log_text()
        assert words in node.log_text()
        assert str(place / "data") in node.log_text(), "the file or folder is named"


def test_a_founder_without_its_first_image_is_refused_by_name(house: House) -> None:
    """All records are there, but who the voters are is not."""
    with nobody_is_disturbed(house):
        place = house.copy(young=True)
        remove_all("raft/images")(place / "data")
        node = house.intruder(place)
        assert node.wait(60) == CANNOT_START, node.log_text()
        assert "this node has founded the group with one" in node.log_text()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"clusterName": "elsewhere"}, "belongs to the cluster 'proof', not to 'elsewhere'"),
        ({"name": "c2"}, "belongs to the node 'c3', not to 'c2'"),
    ],
    ids=["another cluster", "another node"],
)
def test_a_directory_of_somebody_else_is_refused_by_name(house: House, settings: dict[str, str], words: str) -> None:
    with nobody_is_disturbed(house):
        node = house.intruder(house.copy(), **settings)
        assert node.wait(60) == CANNOT_START, node.log_text()
        assert words in node.log_text()


def test_a_second_process_over_one_directory_is_refused_by_name(house: House) -> None:
    with nobody_is_disturbed(house):
        place = house.directory / f"place-{next(house.numbers)}"
        node = house.intruder(place, dataDir=str(house.quorum.nodes["c3"].directory / "data"))
        assert node.wait(60) == CANNOT_START, node.log_text()
        assert "another process holds the lock of this log" in node.log_text()


def test_a_torn_tail_is_no_damage(house: House) -> None:
    """The look-alike: what was written after the last flush may be anything, and is cut."""
    victim = house.quorum.nodes["c3"]
    assert victim.stop() == 0
    end = kept_of(victim.directory / "data").mark_position
    assert end < 1 << 23, "all of it is in the first segment"
    with first_segment(victim.directory / "data").open("r+b") as file:
        file.seek(0)
        whole = file.read().rstrip(b"\0")
        file.seek(len(whole) + 40)
        file.write(b"half a record")
    victim.start()
    house.quorum.agree()
    house.decide()
    house.quorum.converge()


def refusal_seen(house: House, node: NodeProcess, words: str) -> bool:
    """By the intruder itself: in what it says of its peers."""
    try:
        peers = admin_page(house.network, STRANGER, "/status")["peers"]
    except OSError:
        assert node.running, node.log_text()
        return False
    return any(words in (peer["refused"] or "") for peer in peers)


def logged(house: House, words: str) -> int:
    """In how many logs of the three these words stand."""
    return sum(words in node.log_text() for node in house.quorum.nodes.values())


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("c3", {"clusterName": "elsewhere"}, "this is the cluster 'proof', not 'elsewhere'"),
        ("c9", {}, "no node is called c9 here"),
        ("c3", {}, "another process is connected as c3; two must not share a data directory or its copy"),
    ],
    ids=["another cluster", "a node that nobody knows", "an empty directory under a living name"],
)
def test_a_new_node_that_does_not_belong_is_refused_by_name(
    house: House, name: str, settings: dict[str, str], words: str
) -> None:
    before = logged(house, words)
    with nobody_is_disturbed(house):
        place = house.directory / f"place-{next(house.numbers)}"
        members = [member_of(house.network, each, each) for each in NODES[:2]]
        members.append(member_of(house.network, name, STRANGER))
        node = house.intruder(place, name, controllers=members, **settings)
        try:
            prove_within(60, words, lambda: refusal_seen(house, node, words))
            prove_within(60, f"{words}, in the log of the others", lambda: logged(house, words) > before or before > 0)
            assert admin_page(house.network, STRANGER, "/status")["role"] != "leader"
        finally:
            node.kill()


def test_a_stolen_identity_is_refused_by_name(house: House) -> None:
    """A copy of a living controller's directory, term and vote included: it must not speak for it."""
    words = "another process is connected as c3; two must not share a data directory or its copy"
    with nobody_is_disturbed(house):
        node = house.intruder(house.copy())
        try:
            prove_within(60, words, lambda: refusal_seen(house, node, words))
            # Who refuses says so once the refused one has closed, which may be later than that one tells of it.
            prove_within(60, f"{words}, in the log of the others", lambda: logged(house, words) >= 1)
            said = admin_page(house.network, STRANGER, "/status")
            assert said["role"] != "leader"
            assert not said["ready"]
        finally:
            node.kill()


def test_a_node_that_lost_its_directory_gets_no_vote_under_its_old_name(house: House) -> None:
    victim = house.quorum.nodes["c3"]
    assert victim.stop() == 0
    leader = house.quorum.agree()
    before = admin_page(house.network, leader, "/quorum")["members"]
    node = house.intruder(house.directory / f"place-{next(house.numbers)}", controllers=[
        member_of(house.network, each, each) for each in NODES[:2]
    ] + [member_of(house.network, "c3", STRANGER)])  # fmt: skip
    try:
        words = "joining without a vote"
        prove_within(60, words, lambda: words in node.log_text())
        house.decide()
        own = admin_page(house.network, STRANGER, "/status")["identity"]
        members = admin_page(house.network, leader, "/quorum")["members"]
        assert {each["identity"] for each in members if each["voter"]} == {each["identity"] for each in before}
        assert own not in {each["identity"] for each in members if each["voter"]}
    finally:
        node.kill()
    victim.start()
    house.quorum.agree()


def exchange(house: House, node: str, data: bytes) -> list[memoryview]:
    """Send raw bytes to a controller's peer port, and take what comes back until it closes."""
    frames: list[memoryview] = []
    reader = FrameReader(1 << 20)
    with house.network.doorway(STRANGER).connect(house.network.address(node), PEER_PORT, seconds=30) as made:
        made.sendall(data)
        made.shutdown(socket.SHUT_WR)
        while received := made.recv(65536):
            frames += reader.feed(received)
    return frames


@pytest.mark.parametrize("version", [PROTOCOL_VERSION + 1, 0, 65535])
def test_a_peer_of_another_protocol_version_is_refused_by_name(house: House, version: int) -> None:
    with nobody_is_disturbed(house):
        hello = bytes((Kind.HELLO,)) + version.to_bytes(2, "big") + b"whatever that version says"
        refusals = [
            decode_refusal(each) for each in exchange(house, "c1", make_frame(hello)) if each[0] == Kind.REFUSAL
        ]
        assert [each.code for each in refusals] == [RefusalCode.VERSION]
        sentence = f"protocol version {version} is not spoken here, {PROTOCOL_VERSION} is"
        assert refusals[0].sentence == sentence
        log = house.quorum.nodes["c1"]
        prove_within(60, sentence, lambda: sentence in log.log_text())


@pytest.mark.parametrize(
    "data",
    [b"GET /status HTTP/1.1\r\n\r\n", bytes(64), b"\xff" * 64, make_frame(b"\x05 an envelope without a hello")],
    ids=["http", "zeros", "ones", "an envelope without a hello"],
)
def test_bytes_of_another_protocol_end_the_connection_and_nothing_else(house: House, data: bytes) -> None:
    with nobody_is_disturbed(house):
        exchange(house, "c1", data)
