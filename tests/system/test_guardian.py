"""The guardian with real processes: deaths, pauses, reports, signals, strays, memory."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from logherd_guardian.proxy import GREETING
from system.guardians import Controller, Guardian, Peer, eventually, flood, is_alive, nobody_at

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

LEASE = ("lease_ms=500",)
PSS_KB_MAX = 12 << 10


def guarded(path: Path, controller: Controller, child: tuple[str, ...] = ()) -> Guardian:
    return Guardian(path, "--controllers", controller.address, child=child)


def test_a_child_killed_9_costs_a_client_no_refused_connection(tmp_path: Path) -> None:
    with Peer() as peer, Guardian(tmp_path, "--peer", peer.address, child=("ready_after=0.7",)) as guardian:
        guardian.wait_for("the child serves")
        with flood(guardian) as answers:
            for life in range(1, 4):
                child = f"child {guardian.child}"
                eventually(lambda child=child: child in answers, f"{child} does not answer")  # type: ignore[misc]
                seen = len(answers)
                os.kill(guardian.child, signal.SIGKILL)
                eventually(lambda seen=seen: answers[seen:].count("peer") > 1, "nobody stands in")  # type: ignore[misc]
                guardian.wait_for("the child serves", life + 1)
            eventually(lambda: answers[-1] == f"child {guardian.child}", "the last child does not answer")
    assert "refused" not in answers
    # At most the one connection that the child had accepted, or that lay in its hands, is cut at each death.
    assert sum(answer.startswith("cut") for answer in answers) <= 3
    # Each life begins while the peer still serves: until the guardian has heard that the child accepts, both do.
    first_of = [answers.index(each) for each in dict.fromkeys(answers) if each.startswith("child")]
    assert len(first_of) == 4
    assert all("peer" in answers[begin:end] for begin, end in pairwise(first_of))
    assert answers.count("peer") > 100


def test_without_a_live_peer_connections_wait_for_the_next_child(tmp_path: Path) -> None:
    with nobody_at() as nobody, Guardian(tmp_path, "--peer", nobody, child=("ready_after=0.5",)) as guardian:
        guardian.wait_for("the child serves")
        first = guardian.child
        os.kill(first, signal.SIGKILL)
        guardian.wait_for("the child has exited")
        assert guardian.ask().startswith(b"child ")
        assert guardian.child != first
        assert guardian.log.count(f"peer does not serve: {nobody}") == 1, "only a change is said"
        assert "peer serves" not in guardian.log


def test_a_child_that_died_while_it_waited_is_started_like_any_other(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    with ours, Guardian(tmp_path, "--waiting", f"1:{ours.fileno()}", inherited=(ours.fileno(),)) as guardian:
        assert guardian.ask() == f"child {guardian.child} hello".encode()
        assert guardian.log.count("child started") == 1


def test_the_peer_is_told_whose_connection_it_is_given(tmp_path: Path) -> None:
    with Peer() as peer, Guardian(tmp_path, "--peer", peer.address, child=("ready_after=60",)) as guardian:
        with guardian.connect() as client:
            client.sendall(b"hello")
            assert client.recv(100) == b"peer hello"
            source, destination = client.getsockname()[1], guardian.port
        expected = "0d0a0d0a000d0a515549540a" + "21" + "11" + "0017" + "7f000001" * 2
        name = "e0" + "0008" + b"remoting".hex()
        assert [header.hex() for header in peer.headers] == [expected + f"{source:04x}{destination:04x}" + name]


def test_names_of_peers_and_controllers_are_resolved(tmp_path: Path) -> None:
    with Peer() as peer, Controller() as controller:
        options = ("--peer", f"localhost:{peer.port}", "--controllers", f"localhost:{controller.port}")
        with Guardian(tmp_path, *options, child=(f"ready_when={tmp_path}/go",)) as guardian:
            assert guardian.ask() == b"peer hello"
            (tmp_path / "go").touch()
            guardian.wait_for("the child serves")
            os.kill(guardian.child, signal.SIGKILL)
            controller.wait_for_reports(1)


def test_a_child_that_is_paused_past_its_lease_is_killed_and_its_exit_reported(tmp_path: Path) -> None:
    with Controller() as controller, Guardian(tmp_path, "--controllers", controller.address, child=LEASE) as guardian:
        guardian.wait_for("the child serves")
        child = guardian.child
        paused = time.monotonic()
        os.kill(child, signal.SIGSTOP)
        guardian.wait_for("killed: lease over and not released, epoch=1")
        took = time.monotonic() - paused
        assert took >= 1.4, "a lease of 0.5 s and a second"
        guardian.wait_for("the child has exited: signal=9")
        controller.wait_for_reports(1)
        assert not is_alive(child)
        guardian.wait_for("the child serves", 2)
        # A lease that is renewed harms nobody.
        time.sleep(2)
        assert guardian.log.count("killed") == 1


def test_after_a_suspension_nobody_is_killed_before_the_guardian_has_ticked(tmp_path: Path) -> None:
    with Guardian(tmp_path, child=LEASE) as guardian:
        guardian.wait_for("the child serves")
        child = guardian.child
        guardian.signal(signal.SIGSTOP)
        os.kill(child, signal.SIGSTOP)
        time.sleep(2.5)  # the length of the suspension is the fault
        awake = time.monotonic()
        guardian.signal(signal.SIGCONT)
        guardian.wait_for("killed: lease over")
        assert time.monotonic() - awake >= 1.0
        eventually(lambda: not is_alive(child), "it lives")


def test_a_host_that_wakes_up_loses_no_child(tmp_path: Path) -> None:
    with Guardian(tmp_path, child=LEASE) as guardian:
        guardian.wait_for("the child serves")
        child = guardian.child
        for _ in range(2):
            guardian.signal(signal.SIGSTOP)
            os.kill(child, signal.SIGSTOP)
            time.sleep(2)  # the length of the suspension is the fault
            guardian.signal(signal.SIGCONT)
            time.sleep(0.5)  # the guardian wakes first, by less than its second
            os.kill(child, signal.SIGCONT)
            time.sleep(1.5)
            assert is_alive(child)
        assert "killed" not in guardian.log


def test_exactly_the_incarnation_that_died_is_reported(tmp_path: Path) -> None:
    with Controller() as controller, Guardian(tmp_path, "--controllers", controller.address) as guardian:
        for number in range(1, 4):
            guardian.wait_for("the child serves", number)
            assert len(controller.heard) == number - 1, "nothing is reported of the living"
            os.kill(guardian.child, signal.SIGKILL)
            controller.wait_for_reports(number)
        guardian.wait_for("the child serves", 4)
        notes = guardian.notes
    assert [frame.code for frame in controller.heard] == [27001] * 3
    expected = {"clusterName": "cluster", "brokerName": "group", "brokerId": "3", "storeId": "store", "exited": "true"}
    assert [frame.ext for frame in controller.heard] == [
        expected | {"incarnation": note["incarnation"]} for note in notes[:3]
    ]
    drawn = [str(note["incarnation"]) for note in notes]
    assert len(set(drawn)) == len(drawn) == 4
    assert all(len(bytes.fromhex(each)) == 16 for each in drawn)


def test_a_report_finds_the_leader_past_a_dead_a_paused_and_a_lost_controller(tmp_path: Path) -> None:
    with ExitStack() as held_open:
        dead = held_open.enter_context(nobody_at())
        leader, paused = held_open.enter_context(Controller()), held_open.enter_context(Controller(silent=True))
        follower = held_open.enter_context(Controller(2007, leader.address))
        controllers = ",".join([dead, paused.address, follower.address])
        options = ("--controllers", controllers)
        guardian = held_open.enter_context(Guardian(tmp_path, *options, child=("ready_after=5",)))
        eventually(lambda: guardian.notes, "no child")
        os.kill(guardian.child, signal.SIGKILL)
        leader.wait_for_reports(1, 2)
        guardian.wait_for(f"the controllers know of the exit: {leader.address}")
        assert len(follower.heard) == 1


def test_a_report_is_repeated_until_there_is_a_leader_again(tmp_path: Path) -> None:
    with Controller(2007) as controller, guarded(tmp_path, controller, child=("ready_after=5",)) as guardian:
        eventually(lambda: guardian.notes, "no child")
        os.kill(guardian.child, signal.SIGKILL)
        controller.wait_for_reports(4)
        assert "the controllers know" not in guardian.log
        controller.code = 0
        guardian.wait_for("the controllers know of the exit")


def test_a_controller_that_was_paused_is_asked_again(tmp_path: Path) -> None:
    with Controller(silent=True) as controller, guarded(tmp_path, controller, child=("ready_after=9",)) as guardian:
        eventually(lambda: guardian.notes, "no child")
        os.kill(guardian.child, signal.SIGKILL)
        controller.wait_for_reports(1)
        controller.silent = False
        guardian.wait_for("the controllers know of the exit")
        assert len(controller.heard) == 2


def test_garbage_from_controllers_and_peers_harms_nobody(tmp_path: Path) -> None:
    class Garbage(Controller):
        def handle(self, connection: socket.socket) -> None:
            connection.recv(100)
            connection.sendall(os.urandom(1 << 20))

    with ExitStack() as held:
        liar, honest = held.enter_context(Garbage()), held.enter_context(Controller())
        greetings = (b"HTTP/1.1 400 Bad Request\r\n", b"", os.urandom(1 << 20), GREETING[:-1], GREETING)
        peers = [held.enter_context(Peer(greeting=greeting)) for greeting in greetings]
        options = ["--controllers", f"{liar.address},{honest.address}"]
        options += [part for peer in peers for part in ("--peer", peer.address)]
        guardian = held.enter_context(Guardian(tmp_path, *options, child=(f"ready_when={tmp_path}/go",)))
        assert [guardian.ask() for _ in range(20)] == [b"peer hello"] * 20
        (tmp_path / "go").touch()
        guardian.wait_for("the child serves")
        (tmp_path / "go").unlink()
        os.kill(guardian.child, signal.SIGKILL)
        honest.wait_for_reports(1)
        assert [guardian.ask() for _ in range(20)] == [b"peer hello"] * 20
        (tmp_path / "go").touch()
        guardian.wait_for("the child serves", 2)
        guardian.wait_for(f"peer does not serve: {peers[0].address}: no greeting of a child")
        guardian.wait_for(f"peer does not serve: {peers[1].address}: no greeting in time")
        assert [len(peer.headers) > 0 for peer in peers] == [False, False, False, False, True]


def test_a_guardian_never_passes_on_to_a_guardian(tmp_path: Path) -> None:
    """Two that name each other's lent ports by mistake, while both children are down."""
    first_path, second_path = tmp_path / "first", tmp_path / "second"
    first_path.mkdir()
    second_path.mkdir()
    with Guardian(first_path, child=("ready_after=60",)) as first:
        wrong = f"127.0.0.1:{first.port}"
        with Guardian(second_path, "--peer", wrong, child=("ready_after=1.5",)) as second:
            second.wait_for(f"peer does not serve: {wrong}")
            assert second.ask().startswith(b"child ")
            assert "peer serves" not in second.log


def test_what_a_child_leaves_behind_is_killed(tmp_path: Path) -> None:
    with Controller() as controller, guarded(tmp_path, controller, child=("stray=yes",)) as guardian:
        guardian.wait_for("the child serves")
        strays = guardian.notes[0]["strays"]
        assert len(strays) == 3
        assert all(is_alive(pid) for pid in strays)
        os.kill(guardian.child, signal.SIGKILL)
        controller.wait_for_reports(1)
        eventually(lambda: not any(is_alive(pid) for pid in strays), "strays live", 1)
        guardian.wait_for("the child serves", 2)
        strays = guardian.notes[1]["strays"]
        assert all(is_alive(pid) for pid in strays)
        guardian.signal(signal.SIGTERM)
        guardian.process.wait(40)
        eventually(lambda: not any(is_alive(pid) for pid in strays), "strays live", 1)


def test_as_init_it_reaps_strangers_and_kills_none(tmp_path: Path) -> None:
    """Two orphans that it never started: one ends and leaves a zombie, the other runs on over deaths of the child."""
    states = "for each in /proc/[0-9]*; do cat $each/stat; done"
    life = f"{states} >> {tmp_path}/lives; echo end >> {tmp_path}/lives; sleep 0.3; exit 1"
    guardian = f'exec {sys.executable} -m logherd_guardian --listen 127.0.0.1:0 -- sh -c "$0"'
    init = f"(setsid sleep 0.2 &); (setsid sleep 1000 &); {guardian}"
    apart = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
    with (tmp_path / "init.log").open("wb") as log:
        process = subprocess.Popen([*apart, "sh", "-c", init, life], stdout=log, stderr=log)
    try:
        lives = tmp_path / "lives"
        eventually(
            lambda: lives.exists() and lives.read_text().count("end\n") >= 4, (tmp_path / "init.log").read_text()
        )
    finally:
        process.kill()
        process.wait(10)
    last = lives.read_text().split("end\n")[3].splitlines()
    found = [(line.split()[1], line.rpartition(")")[2].split()[0]) for line in last]
    assert "Z" not in {state for _, state in found}
    assert [name for name, _ in found].count("(sleep)") == 1
    assert last[0].startswith("1 (python")


def test_the_child_dies_with_its_guardian(tmp_path: Path) -> None:
    with Guardian(tmp_path) as guardian:
        guardian.wait_for("the child serves")
        child = guardian.child
        guardian.signal(signal.SIGKILL)
        eventually(lambda: not is_alive(child), "it lives", 2)


def test_a_stop_is_forwarded_and_the_exit_code_is_the_childs(tmp_path: Path) -> None:
    command = ("sh", "-c", "trap 'exit 42' TERM; trap 'echo hangup' HUP; echo up; while :; do sleep 0.05; done")
    with Guardian(tmp_path, command=command) as guardian:
        guardian.wait_for("up\n")
        guardian.signal(signal.SIGHUP)
        guardian.wait_for("hangup\n")
        guardian.signal(signal.SIGTERM)
        assert guardian.process.wait(40) == 42
    with pytest.raises(ConnectionRefusedError):
        guardian.ask()


def test_a_child_that_is_deaf_to_a_stop_is_killed_in_time(tmp_path: Path) -> None:
    with Guardian(tmp_path, "--stop-seconds", "1", child=("deaf=yes",)) as guardian:
        guardian.wait_for("the child serves")
        began = time.monotonic()
        guardian.signal(signal.SIGTERM)
        assert guardian.process.wait(5) == 137
        assert time.monotonic() - began >= 0.9


def test_a_child_that_cannot_start_is_told_and_tried_again_later(tmp_path: Path) -> None:
    with Guardian(tmp_path, command=("sh", "-c", "echo started; exit 3")) as guardian:
        guardian.wait_for("code=3, which means that it cannot start")
        guardian.wait_for("next start in 1000 ms")
        guardian.wait_for("started\n", 2)
        guardian.signal(signal.SIGTERM)
        assert guardian.process.wait(40) == 3


def test_a_command_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with Guardian(tmp_path, command=("/does/not/exist",)) as guardian:
        guardian.wait_for("/does/not/exist: No such file or directory")
        guardian.wait_for("code=127, which means that it cannot start")


def test_a_port_that_is_taken_is_told_by_name(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        taken = f"127.0.0.1:{held.getsockname()[1]}"
        with Guardian(tmp_path, "--listen", f"names={taken}", command=("true",)) as guardian:
            assert guardian.process.wait(40) == 3
            assert f"cannot start: [Errno 98] names at {taken}: Address already in use" in guardian.log
            assert "child started" not in guardian.log


def test_a_wrong_command_line_is_told() -> None:
    command = [Path(sys.executable).with_name("logherd-guardian"), "--wrong", "1", "--", "true"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 2
    assert answer.stderr == "logherd-guardian: --wrong is unknown or given twice (--help shows the usage)\n"


def test_nothing_leaks_over_a_hundred_restarts(tmp_path: Path) -> None:
    script = f"exec ls -m /proc/self/fd >> {tmp_path}/notes"
    with Peer() as peer, Controller() as controller:
        options = ("--peer", peer.address, "--controllers", controller.address, "--restart-ms-max", "20")
        with Guardian(tmp_path, *options, command=("sh", "-c", script)) as guardian:
            guardian.wait_for("child started", 10, 60)
            early = guardian.memory("Anonymous")
            assert [guardian.ask() for _ in range(20)] == [b"peer hello"] * 20
            guardian.wait_for("child started", 101, 120)
            # Those that are always there, spares and dials under way.
            assert guardian.descriptors() <= 16
            assert guardian.memory("Anonymous") <= early + 1024
        starts = [line.split() for line in guardian.notes_path.read_text().splitlines()]
    assert len(starts) >= 100
    # Standard ones, the listener, the page, and the folder that is being listed.
    assert {len(start) for start in starts} == {6}


def test_the_guardian_is_small(tmp_path: Path) -> None:
    with Peer() as peer, Guardian(tmp_path, "--peer", peer.address, child=(f"ready_when={tmp_path}/go",)) as guardian:
        assert guardian.ask() == b"peer hello"
        crowd = [guardian.connect() for _ in range(200)]
        for client in crowd:
            client.sendall(b"x")
            assert client.recv(10) == b"peer x"
        (tmp_path / "go").touch()
        guardian.wait_for("the child serves")
        crowded = guardian.memory("Pss")
        for client in crowd:
            client.close()
        eventually(lambda: guardian.descriptors() <= 12, "relays stay")
        shown = {field: guardian.memory(field) for field in ("Rss", "Pss", "Anonymous")}
        print(f"guardian: {shown} kB; with 200 connections passed on: Pss {crowded} kB")
        assert shown["Pss"] <= PSS_KB_MAX
        assert crowded <= PSS_KB_MAX
        assert shown["Anonymous"] <= PSS_KB_MAX - 2048


def test_a_page_file_is_of_the_owner_only_and_new_for_each_child(tmp_path: Path) -> None:
    path = Path("/dev/shm") / f"logherd-guardian-{os.getpid()}"
    try:
        with Guardian(tmp_path, "--state-file", str(path)) as guardian:
            guardian.wait_for("the child serves")
            first = path.stat()
            assert first.st_mode & 0o777 == 0o600
            assert b'"group":"group"' in path.read_bytes()
            assert str(guardian.notes[0]["incarnation"]).encode() not in path.read_bytes()
            os.kill(guardian.child, signal.SIGKILL)
            guardian.wait_for("the child serves", 2)
            assert path.stat().st_ino != first.st_ino or path.stat().st_ctime_ns != first.st_ctime_ns
    finally:
        path.unlink(missing_ok=True)


def test_a_child_has_no_signal_ignored_or_blocked(tmp_path: Path) -> None:
    with Guardian(tmp_path, command=("grep", "Sig", "/proc/self/status")) as guardian:
        guardian.wait_for("SigCgt")
        masks = dict(line.split(":\t") for line in guardian.log.splitlines() if line.startswith("Sig"))
    of_programs = ~(0b11 << 31)  # 32 and 33 are the C library's own, which no program can change
    assert int(masks["SigIgn"], 16) & of_programs == int(masks["SigBlk"], 16) & of_programs == 0


def test_an_idle_guardian_uses_next_to_no_processor_time(tmp_path: Path) -> None:
    with Guardian(tmp_path) as guardian:
        guardian.wait_for("the child serves")
        used = guardian.processor_seconds()
        time.sleep(2)  # the time that is measured
        assert guardian.processor_seconds() - used <= 0.1, "more than a twentieth of a processor"


def test_a_child_has_only_what_it_was_lent(tmp_path: Path) -> None:
    with Guardian(tmp_path) as guardian:
        guardian.wait_for("the child serves")
        note = guardian.notes[0]
    assert len(note["descriptors"]) == 6  # standard ones, listener, page, and the folder that was just read
    assert note["session"] == note["pid"]
