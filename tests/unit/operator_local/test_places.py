"""Processes of a place: found again, started again later each time, and never mistaken for somebody else's."""

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logherd_operator.local.addresses import Addresses, Ports, choose_ports
from logherd_operator.local.down import bring_down
from logherd_operator.local.errors import LocalError
from logherd_operator.local.files import Files
from logherd_operator.local.folder import Folder
from logherd_operator.local.look import child_of, look_at
from logherd_operator.local.places import Places
from logherd_operator.local.processes import is_alive, started_ticks
from logherd_operator.local.state import Began, GroupState, PlaceState, Process, from_json, to_json
from logherd_operator.local.strays import with_strays
from logherd_operator.spec.document import parse_group
from logherd_operator.spec.group import BrokerGroup

HEAD = "apiVersion: logherd.dev/v1alpha1\nkind: BrokerGroup\nmetadata: {name: orders}\n"
PORTS = Ports(name_service=20_000, broker=21_000, admin=21_002)
STATE = GroupState(group="orders", host="127.0.0.1", ports=PORTS, file="group.yaml", cluster="orders")


def group(spec: str = "{}") -> BrokerGroup:
    return parse_group(f"{HEAD}spec: {spec}\n", source="test")


def files(folder: Path, spec: str = "{}") -> Files:
    return Files(group(spec), Addresses("127.0.0.1", PORTS), folder, controllers=3)


def myself() -> Process:
    return Process(os.getpid(), started_ticks(os.getpid()) or 0)


@pytest.fixture
def sleeper() -> Iterator[Process]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        try:
            yield Process(process.pid, started_ticks(process.pid) or 0)
        finally:
            process.kill()


def test_a_state_is_read_as_it_was_written() -> None:
    place = PlaceState(component="broker", ordinal=2, revision="r", guardian=Process(1, 2), told=Process(3, 4))
    state = replace(STATE, keeper=Process(5, 6), name_servers=("a:1", "b:2"), places=(place,))
    document = json.loads(to_json(state))
    assert document.pop("format") == 2
    assert from_json(document) == state


def test_a_state_from_before_groups_led_themselves_is_read() -> None:
    document = json.loads(to_json(STATE))
    del document["format"], document["began"]
    assert from_json({**document, "founded": True}).began == Began(founded=True)


def test_a_revision_changes_with_what_needs_a_restart_and_only_with_that(tmp_path: Path) -> None:
    one = files(tmp_path).revision("broker")
    for same in (
        "{replicas: 5}",
        "{replicas: 1}",
        "{replication: {minInSyncReplicas: 3}}",
        "{replication: {lagTimeoutMs: 900}}",
    ):
        assert files(tmp_path, same).revision("broker") == one
    for other in ("{replication: {flush: Async}}", "{config: {maxMessageSize: '65536'}}"):
        assert files(tmp_path, other).revision("broker") != one
        assert files(tmp_path, other).revision("controller") == files(tmp_path).revision("controller")


def test_all_files_of_a_group_agree_about_addresses_that_no_two_share(tmp_path: Path) -> None:
    rendered = files(tmp_path)
    brokers = [rendered.render(PlaceState(component="broker", ordinal=n, revision="")) for n in range(7)]
    controllers = [rendered.render(PlaceState(component="controller", ordinal=n, revision="")) for n in range(3)]
    own = [each[key] for each in (*brokers, *controllers) for key in ("listen", "adminListen")]
    own += [each["replication"]["peerListen"] for each in brokers] + [each["peerListen"] for each in controllers]
    own += [each["guardian"]["relayListen"] for each in brokers] + [
        each["nameService"]["listen"] for each in controllers
    ]
    assert len(set(own)) == len(own) == 7 * 4 + 3 * 4
    for each in brokers:
        assert each["replication"]["controllers"] == [controller["listen"] for controller in controllers]
        assert each["nameService"]["addresses"] == [controller["nameService"]["listen"] for controller in controllers]
        assert list(each["replication"]["peers"].values()) == [other["replication"]["peerListen"] for other in brokers]


def test_any_port_means_one_that_outgoing_connections_are_not_given() -> None:
    chosen = choose_ports("127.0.0.1", Ports(name_service=0, broker=0, admin=0))
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert 0 < chosen.broker < first
    assert chosen.admin == chosen.broker + 2
    assert choose_ports("127.0.0.1", Ports(name_service=7, broker=0, admin=9)).admin == 9


@pytest.mark.parametrize("first", [1024, 12_000, 12_070, 32_768])
def test_any_port_is_found_where_outgoing_connections_are_given_all(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """As on servers with many clients: `net.ipv4.ip_local_port_range = 1024 65535`."""
    monkeypatch.setattr("logherd_operator.local.addresses._ephemeral_first", lambda: first)
    chosen = choose_ports("127.0.0.1", Ports(name_service=0, broker=0, admin=0))
    assert 12_000 <= chosen.broker < 32_000
    assert 12_000 <= chosen.name_service < 32_000


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        (Ports(name_service=0, broker=0, admin=0), (20_000, 20_050, 20_052)),
        (Ports(name_service=0, broker=20_040, admin=0), (20_110, 20_040, 20_160)),
        (Ports(name_service=0, broker=0, admin=20_001), (20_070, 20_120, 20_001)),
    ],
)
def test_ports_that_are_chosen_are_no_others_of_the_group(
    monkeypatch: pytest.MonkeyPatch, wanted: Ports, chosen: tuple[int, int, int]
) -> None:
    firsts = iter([*range(20_000, 20_200, 10)] * 3)
    monkeypatch.setattr("logherd_operator.local.addresses._fault", lambda host, port: None)
    monkeypatch.setattr("random.randrange", lambda *_: next(firsts))
    found = choose_ports("127.0.0.1", wanted)
    assert (found.name_service, found.broker, found.admin) == chosen


def test_the_process_behind_a_guardian_is_the_one_of_its_ready_file(tmp_path: Path, sleeper: Process) -> None:
    folder = Folder(tmp_path)
    place = PlaceState(component="broker", ordinal=0, revision="r", guardian=myself())
    assert child_of(place, folder) is None
    folder.write_document("broker-1.ready", {"pid": sleeper.pid, "guardian": os.getpid()})
    assert child_of(place, folder) == sleeper
    folder.write_document("broker-1.ready", {"pid": sleeper.pid, "guardian": os.getpid() + 1})
    assert child_of(place, folder) is None
    folder.write_document("broker-1.ready", {"pid": 1, "guardian": os.getpid()})  # older than its guardian
    assert child_of(place, folder) is None


def test_a_stranger_with_the_pid_of_a_ready_file_is_nobodys_child(tmp_path: Path, sleeper: Process) -> None:
    """A process ended, its pid is somebody else's by now, and its successor serves not yet."""
    folder = Folder(tmp_path)
    with subprocess.Popen(["sleep", "600"]) as guardian:
        place = PlaceState(
            component="broker", ordinal=0, revision="r",
            guardian=Process(guardian.pid, min(started_ticks(guardian.pid) or 0, sleeper.ticks)),
        )  # fmt: skip
        folder.write_document("broker-1.ready", {"pid": sleeper.pid, "guardian": guardian.pid})
        found = child_of(place, folder)
        guardian.kill()
    assert found is None


@pytest.mark.parametrize(
    "mark",
    [
        "logherd-guardian: ", "2026-11-27T02:47:17.123Z logherd-guardian: ",
        '{"time": "2026-11-27T02:47:17.123Z", "level": "INFO", "source": "logherd.guardian", "message": "',
    ],
)  # fmt: skip
def test_a_place_whose_process_cannot_start_says_why(tmp_path: Path, mark: str) -> None:
    folder = Folder(tmp_path)
    place = PlaceState(component="broker", ordinal=0, revision="r", guardian=myself())
    log = folder.of(place, ".log")
    log.write_text(
        "logherd broker: an older reason\nlogherd broker: store damaged: at 12; look\nsome line\n"
        f"{mark}the child has exited: code=3, which means that it cannot start\n"
        f"{mark}next start in 1000 ms\n"
    )
    state = replace(STATE, brokers=1, places=(place,))

    def failing() -> str:
        instance = look_at(state, folder).observed.brokers[0].instance
        assert instance is not None
        return instance.failing

    assert failing() == "store damaged: at 12; look"
    with log.open("a") as file:
        file.write(f"{mark}the child serves\n")
    assert failing() == ""


def test_places_of_a_group_with_data_begin_as_learners(tmp_path: Path) -> None:
    places = Places(Folder(tmp_path), STATE)
    places.add("broker", 2, files(tmp_path))
    assert [each.learner for each in places.state.places] == [False, False]
    places.remember(replace(places.state, began=Began(founded=True)))
    places.add("broker", 3, files(tmp_path))
    assert [each.learner for each in places.state.places] == [False, False, True]
    assert Folder(tmp_path).read() == places.state


def test_a_place_that_is_wanted_again_while_it_is_taken_away_stays(tmp_path: Path, sleeper: Process) -> None:
    """Else it would go when its process has ended, and nobody would miss it: the group has its number of places."""
    place = PlaceState(component="broker", ordinal=1, revision="r", guardian=sleeper, leaving=True)
    state = replace(STATE, brokers=1, began=Began(founded=True), places=(place,))
    places = Places(Folder(tmp_path), state)
    places.add("broker", 2, files(tmp_path))
    assert [(each.ordinal, each.leaving, each.learner) for each in places.state.places] == [
        (0, False, True), (1, False, True),
    ]  # fmt: skip
    assert places.state.places[1].guardian == sleeper


@pytest.mark.parametrize("mode", ["Raft", "Static"])
def test_a_group_that_leads_itself_keeps_whom_it_began_with_whatever_its_size(tmp_path: Path, mode: str) -> None:
    """A file that named others as the founders could found another group, and another first table contradict it."""
    places = Places(Folder(tmp_path), STATE)
    rendered = Files(
        group(f"{{replication: {{mode: {mode}}}}}"), Addresses("127.0.0.1", PORTS), tmp_path, controllers=3,
        state=lambda: places.state,
    )  # fmt: skip

    def replication(ordinal: int) -> dict[str, Any]:
        found = rendered.render(PlaceState(component="broker", ordinal=ordinal, revision=""))["replication"]
        assert isinstance(found, dict)
        return found

    places.add("broker", 2, rendered)
    places.add("broker", 3, rendered)
    revision = rendered.revision("broker")
    places.remember(replace(places.state, began=replace(places.state.began, founded=True)))
    places.add("broker", 5, rendered)
    assert rendered.revision("broker") == revision
    if mode == "Raft":
        assert replication(4)["replicas"] == 3
        assert (replication(4)["raft"]["founders"], replication(0)["raft"]["members"]) == ([1, 2, 3], [1, 2, 3, 4, 5])
    else:
        assert replication(4)["static"] == {"leader": 1, "synchronous": [2, 3]}
    assert list(replication(4)["peers"]) == [str(n + 1) for n in range(7)]


def test_what_needs_no_restart_is_written_down_for_the_next_life(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    places = Places(folder, STATE)
    before, after = files(tmp_path, "{replicas: 1}"), files(tmp_path, "{replicas: 3, replication: {flush: Async}}")
    places.add("broker", 1, before)
    folder.write_document("broker-1.json", before.render(places.state.places[0]))
    places.refresh(after)
    assert (folder.document("broker-1.json") or {})["replication"]["replicas"] == 1
    places.refresh(files(tmp_path, "{replicas: 3}"))
    assert (folder.document("broker-1.json") or {})["replication"]["replicas"] == 3


def test_a_process_that_took_over_a_pid_is_never_stopped(tmp_path: Path, sleeper: Process) -> None:
    forged = PlaceState(component="broker", ordinal=0, revision="r", guardian=replace(sleeper, ticks=sleeper.ticks - 1))
    places = Places(Folder(tmp_path), replace(STATE, brokers=1, places=(forged,)))
    assert list(map(str, places.stop(1))) == [f"broker 1 (pid {sleeper.pid}) was not running"]
    assert started_ticks(sleeper.pid) == sleeper.ticks


@pytest.mark.parametrize("remembered", [None, Process(1 << 22, 7)])
def test_a_guardian_that_nobody_wrote_down_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remembered: Process | None
) -> None:
    """Whoever started it was killed just then. It holds the ports of its place."""
    monkeypatch.chdir(tmp_path)
    folder, sleeping = Folder(Path("data")), [sys.executable, "-c", "import time; time.sleep(600)"]
    ours, its_child, anothers = (
        [*sleeping, "logherd_guardian", "--", "logherd", "broker", "--config", "data/broker-1.json"],
        [*sleeping, "logherd", "broker", "--config", "data/broker-2.json"],
        [*sleeping, "logherd_guardian", "--", "logherd", "broker", "--config", "other/broker-3.json"],
    )
    places = tuple(PlaceState(component="broker", ordinal=n, revision="r", guardian=remembered) for n in range(3))
    processes = [subprocess.Popen(command) for command in (ours, its_child, anothers)]
    try:
        found = with_strays(replace(STATE, places=places), folder)
        guardian = Process(processes[0].pid, started_ticks(processes[0].pid) or 0)
        assert [each.guardian for each in found.places] == [guardian, remembered, remembered]
        assert with_strays(found, folder) == found
        folder.prepare()
        folder.write(replace(STATE, brokers=3, places=places))
        ended = [each for each in bring_down(folder, STATE, seconds=30) if each.outcome == "stopped"]
        assert [each.pid for each in ended] == [guardian.pid]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_what_is_remembered_is_on_the_disk_before_it_bears_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of power leaves the former text or this one, and never an empty file."""
    folder, flushed = Folder(tmp_path), list[tuple[str, bool]]()

    def note(descriptor: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name
        flushed.append((name, (tmp_path / "group.json").exists()))

    monkeypatch.setattr(os, "fsync", note)
    folder.write(STATE)
    files = ("group.json.new", "group.boot.new", "group.json.new")
    assert [name for name, _ in flushed] == [each for file in files for each in (file, tmp_path.name)]
    assert [there for _, there in flushed[:2]] == [False, True]


def test_a_process_that_does_not_stop_in_time_is_killed(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        guardian = Process(process.pid, started_ticks(process.pid) or 0)
        place = PlaceState(component="controller", ordinal=0, revision="r", guardian=guardian)
        places = Places(Folder(tmp_path), replace(STATE, controllers=1, places=(place,)))
        expected = f"controller c0 (pid {process.pid}) did not stop in time and was killed"
        assert list(map(str, places.stop(0))) == [expected]
        assert process.wait(10) < 0
    assert places.state.places[0].guardian is None


def test_a_full_disk_keeps_nobody_from_stopping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That they have ended cannot be written down; nor is it needed, for no process is what it was noted as."""

    def refuse(self: Folder, state: GroupState) -> None:
        raise LocalError("no space")

    processes = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    standing = [
        PlaceState(
            component=component, ordinal=0, revision="r",
            guardian=Process(process.pid, started_ticks(process.pid) or 0),
        )
        for component, process in zip(("broker", "controller"), processes, strict=True)
    ]  # fmt: skip
    places = Places(Folder(tmp_path), replace(STATE, brokers=1, controllers=1, places=tuple(standing)))
    places._own.update({process.pid: process for process in processes})
    monkeypatch.setattr(Folder, "write", refuse)
    assert [ended.outcome for ended in places.stop(30)] == ["stopped", "stopped"]
    assert [process.wait(30) for process in processes] == [-15, -15]


def test_what_could_not_be_written_down_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Folder, state: GroupState) -> None:
        raise LocalError("no space")

    places = Places(Folder(tmp_path), STATE)
    with monkeypatch.context() as full:
        full.setattr(Folder, "write", refuse)
        with pytest.raises(LocalError, match="no space"):
            places.remember(replace(STATE, brokers=1))
    assert list(places.tend(files(tmp_path))) == []
    remembered = Folder(tmp_path).read()
    assert remembered is not None
    assert remembered.brokers == 1


def test_of_two_that_begin_at_once_one_makes_the_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other must not replace what processes were started with, nor leave it open to be read."""
    folder, made = Folder(tmp_path), secrets.token_urlsafe
    others: list[str] = []

    def late(size: int) -> str:
        monkeypatch.setattr("secrets.token_urlsafe", made)
        other = Folder(tmp_path)
        other.prepare()
        if (lock := other.lock()) is not None:
            with lock:
                other.make_token()
                others.append(other.token())
        return made(size)

    monkeypatch.setattr("secrets.token_urlsafe", late)
    folder.prepare()
    lock = folder.lock()
    assert lock is not None
    with lock:
        folder.make_token()
    assert others in ([], [folder.token()])
    assert folder.token_file.stat().st_mode & 0o777 == 0o600


def test_a_secret_that_a_loss_of_power_emptied_is_made_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.token_file.write_text("")
    folder.make_token()
    made = folder.token()
    assert made
    assert folder.token_file.stat().st_mode & 0o777 == 0o600
    folder.make_token()
    assert folder.token() == made


@pytest.mark.parametrize("leaving", [True, False])
def test_who_is_to_end_is_told_so_though_the_one_who_noted_it_could_not(
    tmp_path: Path, sleeper: Process, leaving: bool
) -> None:
    """A keeper was killed, or the disk was full, between the note and the signal."""
    with subprocess.Popen(["sleep", "20"]) as process:
        ending = Process(process.pid, started_ticks(process.pid) or 0)
        place = PlaceState(
            component="broker", ordinal=0, revision="r", guardian=ending if leaving else sleeper, leaving=leaving,
            told=None if leaving else ending,
        )  # fmt: skip
        list(Places(Folder(tmp_path), replace(STATE, brokers=1, places=(place,))).tend(files(tmp_path)))
        assert process.wait(30) == -signal.SIGTERM
    assert is_alive(sleeper.pid, sleeper.ticks)


def test_a_guardian_that_is_to_leave_is_told_once(
    tmp_path: Path, sleeper: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that hears it twice kills its process at once."""
    told = list[tuple[int, int]]()

    def note(pid: int, ticks: int, number: int) -> bool:
        told.append((pid, number))
        return is_alive(pid, ticks)

    monkeypatch.setattr("logherd_operator.local.places.signal_process", note)
    place = PlaceState(component="broker", ordinal=2, revision="r", guardian=sleeper)
    places = Places(Folder(tmp_path), replace(STATE, brokers=3, places=(place,)))
    places.take_away(place, 2)
    for _ in range(3):
        list(places.tend(files(tmp_path)))
    assert told == [(sleeper.pid, signal.SIGTERM)]


@pytest.fixture
def deaf() -> Iterator[subprocess.Popen[bytes]]:
    """It does not hear SIGTERM."""
    command = ["sh", "-c", "trap '' TERM; echo deaf; exec sleep 600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_a_process_that_hangs_when_another_is_to_begin_is_killed(
    tmp_path: Path, sleeper: Process, deaf: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its guardian was told nothing, and a restart of the group would wait for it for ever."""
    now = 1000.0
    monkeypatch.setattr("logherd_operator.local.places.time.monotonic", lambda: now)
    told = Process(deaf.pid, started_ticks(deaf.pid) or 0)
    place = PlaceState(component="broker", ordinal=0, revision="r", guardian=sleeper, told=told, started_at=5000.0)
    state, folder = replace(STATE, brokers=1, places=(place,)), Folder(tmp_path)
    (slot,) = look_at(state, folder).observed.brokers
    assert slot.instance is not None
    assert slot.instance.leaves_by == 5060.0, "or nobody would ever hear that it is overdue"
    places = Places(folder, state)
    assert list(places.tend(files(tmp_path))) == []
    now = 1060.0
    assert list(places.tend(files(tmp_path))) == []
    assert deaf.poll() is None
    now = 1060.5
    said = f"broker 1: its process (pid {told.pid}) did not stop in 60 s and is killed"
    assert list(places.tend(files(tmp_path))) == [said]
    os.waitid(os.P_PID, told.pid, os.WEXITED | os.WNOWAIT)
    assert list(places.tend(files(tmp_path))) == []
    assert deaf.wait() == -signal.SIGKILL


def test_a_clock_that_was_set_back_keeps_no_place_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, begun = Process(1 << 22, 7), list[str]()

    def start(self: Places, place: PlaceState, _files: Files) -> Iterator[str]:
        begun.append(place.name)
        yield place.name

    monkeypatch.setattr(Places, "_start", start)
    monkeypatch.setattr("time.time", lambda: 1_000_000.0)
    for ordinal, started_at in enumerate((999_999.0, 999_980.0, 1_003_600.0)):
        place = PlaceState(
            component="broker", ordinal=ordinal, revision="r", guardian=gone, started_at=started_at, starts=2
        )  # fmt: skip
        list(Places(Folder(tmp_path), replace(STATE, brokers=1, places=(place,))).tend(files(tmp_path)))
    assert begun == ["broker 2", "broker 3"]
