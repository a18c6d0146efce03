"""The settings that make a broker one of several replicas."""

from pathlib import Path

import pytest
import yaml

from logherd.settings.errors import SettingsError
from logherd.settings.load import load_broker_options
from logherd.settings.options import Endpoint

REPLICA = """
brokerGroup: orders
brokerId: 2
dataDir: data
nameService: {mode: external, addresses: ["c1:9876"]}
replication:
  mode: controller
  controllers: ["c1:9878", "c2:9878"]
  peers: {1: "b1:10912", 2: "b2:10912"}
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "broker.yaml"
    path.write_text(text)
    return path


def test_a_replica_names_its_controllers_and_peers(tmp_path: Path) -> None:
    options = load_broker_options(write(tmp_path, REPLICA))
    assert options.broker_id == 2
    assert options.replication.controllers == (Endpoint(host="c1", port=9878), Endpoint(host="c2", port=9878))
    assert options.replication.peers[1] == Endpoint(host="b1", port=10912)
    assert (options.replication.replicas, options.replication.min_in_sync) == (3, 2)


def test_a_broker_is_alone_by_default(tmp_path: Path) -> None:
    options = load_broker_options(write(tmp_path, "brokerGroup: orders\ndataDir: data\n"))
    assert (options.replication.mode, options.replication.peers) == ("alone", {})


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("brokerId=0", "brokerId must be at least 1 with replication.mode controller"),
        ("replication.mode=alone", "mode alone needs no controllers"),
        ("replication.minInSync=4", "minInSync 4 must not exceed replicas 3"),
        ("replication.peers.0=b0:1", "replication.peers: the key '0' is not right: write 1 or more"),
        ("replication.peers.3=b3:0", "replication.peers.3: 'b3:0' is not right: needs a real port"),
        ("replication.sync=1", "replication.sync: unknown key; known here: followerReads, followerReadsBehind, mode"),
        ("nameService={mode: embedded}", "nameService"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, override: str, expected: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_broker_options(write(tmp_path, REPLICA), [override])
    assert expected in str(raised.value)


def test_a_number_in_a_group_needs_a_group(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="brokerId 3 is for a replicated group"):
        load_broker_options(write(tmp_path, "brokerGroup: orders\nbrokerId: 3\ndataDir: data\n"))


ALONE = "brokerGroup: orders\ndataDir: data\nlisten: 10.0.0.1:10911\n"


def test_the_classic_ha_protocol_is_off_unless_an_address_is_given(tmp_path: Path) -> None:
    path = write(tmp_path, ALONE)
    off = load_broker_options(path).replication.classic_ha
    assert (off.listen, off.master) == (None, None)
    leads = load_broker_options(path, ["replication.classicHa.listen=10.0.0.1:10912"]).replication.classic_ha
    assert leads.listen == Endpoint(host="10.0.0.1", port=10912)
    follows = load_broker_options(path, ["replication.classicHa.master=10.0.0.2:10911"]).replication.classic_ha
    assert (follows.master, follows.metadata_interval_ms) == (Endpoint(host="10.0.0.2", port=10911), 10_000)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["replication.classicHa.listen=h:1", "replication.classicHa.master=h:2"], "give one of them"),
        (["replication.classicHa.listen=h:0"], "needs a real port"),
        (["replication.classicHa.listen=h:1", "listen=h:2"], "listen needs a real port above 2"),
        (
            ["replication.classicHa.master=h:1", "replication.mode=controller", "brokerId=1",
             "nameService={mode: external, addresses: [h:1]}"],
            "replication.classicHa.master is for brokers alone, not for replication.mode controller",
        ),
        (
            ["replication.classicHa.listen=h:1", "replication.mode=controller", "brokerId=1",
             "nameService={mode: external, addresses: [h:1]}"],
            "replication.classicHa.listen is for brokers alone and mode static, not for replication.mode controller",
        ),
    ],
)  # fmt: skip
def test_what_the_classic_ha_protocol_cannot_do_is_refused(tmp_path: Path, overrides: list[str], expected: str) -> None:
    document = ALONE + ('replication: {controllers: ["c:1"]}\n' if "controller" in str(overrides) else "")
    path = tmp_path / "broker.yaml"
    path.write_text(document)
    values = [each for each in overrides if not each.startswith("nameService")]
    if len(values) < len(overrides):
        path.write_text(document + 'nameService: {mode: external, addresses: ["h:1"]}\n')
    with pytest.raises(SettingsError) as raised:
        load_broker_options(path, values)
    assert expected in str(raised.value)


VOTING = """
brokerGroup: orders
brokerId: 2
dataDir: data
nameService: {mode: external, addresses: ["c1:9876"]}
replication:
  mode: raft
  peers: {3: "b3:10912", 1: "b1:10912", 2: "b2:10912"}
"""
STATIC = VOTING.replace("mode: raft", "mode: static\n  static: {leader: 1, synchronous: [2]}")


def test_whoever_votes_is_founded_by_all_peers_in_one_order(tmp_path: Path) -> None:
    options = load_broker_options(write(tmp_path, VOTING)).replication
    assert options.controllers == ()
    assert options.raft.founders == (1, 2, 3)
    assert options.raft.election.timeout_ms == 1000


def test_a_founder_may_have_gone_since(tmp_path: Path) -> None:
    later = VOTING.replace("mode: raft", "mode: raft\n  raft: {founders: [4, 1, 2]}")
    assert load_broker_options(write(tmp_path, later)).replication.raft.founders == (1, 2, 4)


def test_the_first_roles_wait_for_all_synchronous_followers(tmp_path: Path) -> None:
    roles = load_broker_options(write(tmp_path, STATIC)).replication.static
    assert roles is not None
    assert (roles.leader, roles.synchronous, roles.copies) == (1, (2,), 2)


@pytest.mark.parametrize(
    ("text", "override", "expected"),
    [
        (VOTING, "replication.peers={2: 'b2:1'}", "mode raft begins with 3 replicas, but its founders are [2]"),
        (VOTING, "replication.raft.founders=[1, 2, 2]", "its founders are [1, 2, 2]"),
        (VOTING, "brokerId=4", "replication.peers holds all brokers in mode raft; this one, 4, is not there"),
        (VOTING, "flush=async", "flush must be sync with replication.mode raft"),
        (VOTING, "replication.learner=true", "2 is among the founders"),
        (VOTING, "replication.raft.election.heartbeatMs=300ms", "four heartbeats must fit into timeoutMs"),
        (VOTING, "replication.static.leader=1", "static says who leads in mode static, and in no other mode"),
        (VOTING, "replication.mode=controller", "mode controller needs the addresses of the controllers"),
        (STATIC, "replication.static.leader=2", "the leader is none of them"),
        (STATIC, "replication.static.leader=4", "replication.static names [4], which replication.peers lacks"),
        (STATIC, "replication.static.copies=3", "with so many synchronous followers write 2 to 2"),
        (STATIC, "replication.static.copies=1", "with so many synchronous followers write 2 to 2"),
    ],
)
def test_what_does_not_fit_a_group_without_controllers_is_refused(
    tmp_path: Path, text: str, override: str, expected: str
) -> None:
    path = write(tmp_path, text)
    key, _, value = override.partition("=")
    document = yaml.safe_load(path.read_text())
    inner = document
    for part in key.split(".")[:-1]:
        inner = inner.setdefault(part, {})
    inner[key.split(".")[-1]] = yaml.safe_load(value)
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(SettingsError) as raised:
        load_broker_options(path)
    assert expected in str(raised.value)


STATIC_WITH_SLAVES = """
brokerGroup: orders
brokerId: 2
dataDir: data
listen: 10.0.0.1:10911
nameService: {mode: external, addresses: ["c1:9876"]}
replication:
  mode: static
  static: {leader: 1, synchronous: [2]}
  peers: {1: "10.0.0.1:10912", 2: "10.0.0.2:10912"}
  classicHa: {listen: "10.0.0.1:10913"}
"""


def test_rocketmq_slaves_may_follow_a_group_whose_leader_is_named_by_hand(tmp_path: Path) -> None:
    path = write(tmp_path, STATIC_WITH_SLAVES)
    leads = load_broker_options(path).replication.classic_ha
    assert leads.listen == Endpoint(host="10.0.0.1", port=10913)
    with pytest.raises(SettingsError, match="followers in routes, where RocketMQ slaves are looked for"):
        load_broker_options(path, ["replication.followerReads=true"])


def test_who_belongs_to_a_voting_group_are_some_of_the_peers(tmp_path: Path) -> None:
    path = write(tmp_path, REPLICA)
    raft = ["replication.mode=raft", "replication.replicas=2"]
    assert load_broker_options(path, [*raft, "replication.raft.members=2"]).replication.raft.members == (2,)
    assert load_broker_options(path, raft).replication.raft.members == ()
    with pytest.raises(SettingsError, match=r"raft\.members names \[3\], which peers lacks"):
        load_broker_options(path, [*raft, "replication.raft.members=1,3"])
