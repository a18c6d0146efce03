"""A controller's file: defaults, bounds, what must agree, and that the rooms accept what is accepted here."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.controller.leases import LeaseTerms
from logherd.raft.options import RaftOptions
from logherd.replication.sender import ShipOptions
from logherd.settings.aside import CheckAside
from logherd.settings.checked import check_document
from logherd.settings.errors import SettingsError
from logherd.settings.load import load_broker_options, load_controller_options
from logherd.settings.options import ControllerOptions


def member(name: str, place: int) -> dict[str, str]:
    return {"name": name, "peer": f"{name}.example:{9900 + place}", "address": f"{name}.example:{9950 + place}"}


def document(*names: str, **others: Any) -> dict[str, Any]:
    members = [member(name, place) for place, name in enumerate(names or ("c-0", "c-1", "c-2"))]
    return {"nodeName": members[0]["name"], "controllers": members, "dataDir": "data", **others}


def load(tmp_path: Path, content: dict[str, Any], *overrides: str) -> ControllerOptions:
    path = tmp_path / "controller.json"
    path.write_text(json.dumps(content))
    return load_controller_options(path, overrides)


def complaint(tmp_path: Path, content: dict[str, Any]) -> str:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, content)
    return str(caught.value).partition("\n")[2]


def test_defaults_are_the_documented_ones(tmp_path: Path) -> None:
    options = load(tmp_path, document())
    assert (options.cluster_name, options.node_name, options.data_dir) == ("DefaultCluster", "c-0", "data")
    listens = (options.listen, options.peer_listen, options.name_service.listen, options.admin_listen)
    assert [each.port for each in listens] == [9878, 9879, 9876, 8088]
    assert (options.admin_token_file, options.name_service.mode) == (None, "embedded")
    assert (options.lease_ms, options.clock_drift_ppm) == (3000, 20_000)
    election = options.election
    assert (election.timeout_ms, election.spread_ms, election.heartbeat_ms) == (1000, 1000, 150)
    assert (options.snapshot_records, options.snapshot_bytes) == (100_000, 64 << 20)
    path = tmp_path / "broker.yaml"
    path.write_text("brokerGroup: g\ndataDir: d\n")
    assert options.limits == load_broker_options(path).limits


def test_members_keep_their_order_and_addresses(tmp_path: Path) -> None:
    content = document("c-2", "c-0", "c-1")
    content["controllers"][1]["admin"] = "[::1]:8088"
    options = load(tmp_path, content)
    assert [each.name for each in options.controllers] == ["c-2", "c-0", "c-1"]
    found = options.member("c-0")
    assert found is not None
    assert [str(each) for each in (found.peer, found.address, found.admin)] == [
        "c-0.example:9901", "c-0.example:9951", "[::1]:8088",
    ]  # fmt: skip
    assert options.member("c-3") is None


def test_units_and_overrides_are_those_of_the_broker(tmp_path: Path) -> None:
    options = load(tmp_path, document(leaseMs="5s", snapshotBytes="1MiB"), "election.timeoutMs=2s", "listen=[::1]:0")
    assert (options.lease_ms, options.snapshot_bytes, options.election.timeout_ms) == (5000, 1 << 20, 2000)
    assert str(options.listen) == "[::1]:0"


def test_the_check_in_another_process_gives_the_same(tmp_path: Path) -> None:
    options = load(tmp_path, document(), "adminTokenFile=secret")
    check = CheckAside("controller", tmp_path / "controller.json", ["adminTokenFile=secret"])
    assert check.result(ControllerOptions) == options
    assert options.admin_token_file == "secret"


@pytest.mark.parametrize("count", [1, 3, 5])
def test_an_odd_number_up_to_five_is_accepted(tmp_path: Path, count: int) -> None:
    assert len(load(tmp_path, document(*(f"c-{n}" for n in range(count)))).controllers) == count


@pytest.mark.parametrize("count", [0, 2, 4, 6, 7])
def test_any_other_number_is_refused(tmp_path: Path, count: int) -> None:
    content = document() | {"controllers": [member(f"c-{n}", n) for n in range(count)]}
    assert f"controllers has {count} entries; a majority needs an odd number: write 1, 3 or 5" in complaint(
        tmp_path, content
    )


@pytest.mark.parametrize("name", ["a", "0", "c-0", "a" * 63, "a--b"])
def test_a_name_that_a_host_could_have_is_accepted(tmp_path: Path, name: str) -> None:
    assert load(tmp_path, document(name)).node_name == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a_b", "a.b", "a" * 64, "a\n", "ä"])
def test_any_other_name_is_refused_in_both_places(tmp_path: Path, name: str) -> None:
    lines = complaint(
        tmp_path, document("c-0") | {"nodeName": name, "controllers": [member("c-0", 0) | {"name": name}]}
    )
    assert [line.partition(":")[0] for line in lines.splitlines()] == ["nodeName", "controllers.0.name"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"colour": "red"}, "colour: unknown key; known here: clusterName, nodeName, controllers,"),
        ({"leaseMS": 3000}, "leaseMS: unknown key; did you mean leaseMs?"),
        ({"brokerGroup": "g"}, "brokerGroup: unknown key;"),
        ({"election": {"timeout": 1}}, "election.timeout: unknown key; did you mean timeoutMs?"),
        ({"election": 5}, "election: 5 is not right: "),
        (
            {"nameService": {"mode": "external"}},
            "nameService.mode: 'external' is not right: write embedded",
        ),
        ({"nameService": {"addresses": []}}, "nameService.addresses: unknown key; known here: mode, listen"),
        ({"nodeName": "c-9"}, "nodeName is 'c-9'; it should be one of controllers: c-0, c-1, c-2"),
        ({"listen": "9878"}, "listen: '9878' is not right: write host:port"),
        ({"leaseMs": 599}, "leaseMs: 599 is not right: write 600 or more"),
        ({"leaseMs": "2m"}, "leaseMs: 120000 is not right: write 60000 or less"),
        ({"clockDriftPercent": 0}, "clockDriftPercent: 0 is not right: write 1 or more"),
        ({"clockDriftPercent": 26}, "clockDriftPercent: 26 is not right: write 25 or less"),
        ({"snapshotRecords": 9}, "snapshotRecords: 9 is not right: write "),
        ({"snapshotBytes": "1KiB"}, "snapshotBytes: 1024 is not right: write "),
        ({"adminTokenFile": ""}, "adminTokenFile: '' is not right: write 1 or more characters"),
        ({"dataDir": ""}, "dataDir: '' is not right"),
        ({"limits": {"connections": 0}}, "limits.connections: 0 is not right"),
        ({"log": {"level": "loud"}}, "log.level: 'loud' is not right"),
        (
            {"election": {"heartbeatMs": 251}},
            "election: heartbeatMs is 251; four heartbeats must fit into timeoutMs, which is 1000: write at most 250,",
        ),
        (
            {"leaseMs": 2040},
            "leaseMs is 2040, of which 1999 count after clockDriftPercent; that should be more than election.timeoutMs",
        ),
        ({"peerListen": "127.0.0.1:9878"}, "listen is 127.0.0.1:9878 and peerListen is 127.0.0.1:9878; each needs a"),
        ({"adminListen": "0.0.0.0:9876"}, "adminListen is 0.0.0.0:9876 and nameService.listen is 127.0.0.1:9876; each"),
    ],
)
def test_every_fault_names_path_value_and_what_is_right(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    assert expected in complaint(tmp_path, document() | changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"nam": "x"}, "controllers.1.nam: unknown key; did you mean name?"),
        ({"address": None}, "controllers.1.address: null is not right"),
        (
            {"peer": "c-1:0"},
            "controllers.1.peer: 'c-1:0' is not right: others connect to it, so write a host that they",
        ),
        ({"address": "0.0.0.0:1"}, "controllers.1.address: '0.0.0.0:1' is not right: others connect to it"),
        ({"admin": "[::]:1"}, "controllers.1.admin: '[::]:1' is not right: others connect to it"),
        ({"name": "c-0"}, "controllers names 'c-0' more than once; each needs a name of its own"),
        ({"peer": "c-0.example:9900"}, "controllers has c-0.example:9900 more than once; each peer, address and"),
        ({"admin": "c-1.example:9951"}, "controllers has c-1.example:9951 more than once; each peer, address and"),
    ],
)
def test_a_fault_of_one_member_names_its_place(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    content = document()
    content["controllers"][1] |= changes
    assert expected in complaint(tmp_path, content)


def test_faults_of_the_whole_are_told_together(tmp_path: Path) -> None:
    lines = complaint(tmp_path, document(nodeName="x", leaseMs=2000, adminListen="127.0.0.1:9879"))
    assert [part.split()[0] for part in lines.removeprefix("the document: ").split("; ") if " is " in part] == [
        "nodeName", "peerListen", "leaseMs",
    ]  # fmt: skip


def test_listeners_without_a_name_service_or_with_any_port_do_not_collide(tmp_path: Path) -> None:
    assert (
        load(tmp_path, document(adminListen="127.0.0.1:9876", nameService={"mode": "none"})).admin_listen.port == 9876
    )
    zero = "127.0.0.1:0"
    assert load(tmp_path, document(listen=zero, peerListen=zero, adminListen=zero)).listen.port == 0


@given(
    lease_ms=st.integers(500, 61_000), drift=st.integers(0, 26), timeout_ms=st.integers(90, 3_000),
    spread_ms=st.integers(5, 3_000), heartbeat_ms=st.integers(5, 400),
)  # fmt: skip
def test_times_that_are_accepted_keep_every_invariant_of_the_rooms(
    lease_ms: int, drift: int, timeout_ms: int, spread_ms: int, heartbeat_ms: int
) -> None:
    election = {"timeoutMs": timeout_ms, "spreadMs": spread_ms, "heartbeatMs": heartbeat_ms}
    content = document(leaseMs=lease_ms, clockDriftPercent=drift, election=election)
    sound = (
        600 <= lease_ms <= 60_000 and 1 <= drift <= 25 and timeout_ms >= 100 and spread_ms >= 10 and heartbeat_ms >= 10
        and heartbeat_ms * 4 <= timeout_ms
        and LeaseTerms(lease_ms, drift * 10_000).holder_ms > timeout_ms + spread_ms
    )  # fmt: skip
    if not sound:
        with pytest.raises(SettingsError):
            check_document("controller", content, source="it")
        return
    check_document("controller", content, source="it")
    ship = ShipOptions(heartbeat_ms=heartbeat_ms)
    assert RaftOptions(election_ms=timeout_ms, election_spread_ms=spread_ms, ship=ship).lease_ms < timeout_ms


@pytest.mark.parametrize("key", ["dataDir", "adminTokenFile"])
def test_what_the_system_takes_for_no_path_is_refused(tmp_path: Path, key: str) -> None:
    assert complaint(tmp_path, document(**{key: "a\0b"})) == f"{key}: 'a\\x00b' is not right: a path holds no NUL byte"
