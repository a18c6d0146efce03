"""A replica whose log is damaged fetches what is damaged from the others, no more; until it has, it is no replica."""

import os
import signal
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from checkers.history import Outcome
from checkers.log_checks import check_log
from logherd.store import StoreDamaged
from logherd.store.damage_note import DAMAGE_NOTE, note_damage
from logherd.store.files_os import OsFiles
from system.blocking import BlockingClient
from system.guarded_group import GuardedGroup, GuardedReplica
from system.guardians import eventually
from system.load import Load, drained_history
from system.replica_orders import token_file
from system.test_damage import pull_header

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(300)]

MIB = 1 << 20
SEGMENT = 4 * MIB
STORE = {"segmentSize": "4MiB", "messageSizeMax": "64KiB", "reservedPercent": 0}
MODES: dict[str, dict[str, Any]] = {
    "controller": {},
    "raft": {"mode": "raft", "controllers": []},
    "static": {"mode": "static", "controllers": [], "static": {"leader": 1, "synchronous": [2]}},
}
SECONDS = 120.0


def group_of(tmp_path: Path, mode: str, *, guarded: bool = False) -> GuardedGroup:
    token = str(token_file(tmp_path))
    return GuardedGroup(tmp_path, replication=MODES[mode], guarded=guarded, store=STORE, adminTokenFile=token)


def fill(broker: GuardedReplica, size: int) -> None:
    """Store so many bytes of messages."""
    with closing(BlockingClient(broker.port, host=broker.host)) as client:
        for number in range(size // 60_000 + 1):
            assert client.send("Fill", number % 4, f"fill-{number}", padding=60_000).outcome is Outcome.OK


def segment_of(broker: GuardedReplica, number: int) -> Path:
    return broker.directory / "data" / "commitlog" / f"{number * SEGMENT:020d}"


def damage(broker: GuardedReplica, number: int, start: int, size: int) -> None:
    """Spoil bytes of a segment, also of a broker that runs and has the file mapped."""
    with segment_of(broker, number).open("r+b") as file:
        file.seek(start)
        data = file.read(size)
        file.seek(start)
        file.write(bytes(each ^ 0x55 for each in data))


def same_segments(group: GuardedGroup, numbers: Iterable[int]) -> None:
    for number in numbers:
        contents = {segment_of(broker, number).read_bytes() for broker in group.brokers}
        assert len(contents) == 1, f"segment {number} differs"


def fetched(broker: GuardedReplica) -> int:
    """Bytes that it says it has fetched, over all its lives."""
    lines = [line for line in broker.log().splitlines() if "the log is whole again fetched_bytes=" in line]
    return sum(int(line.rpartition("=")[2]) for line in lines)


def store_id(broker: GuardedReplica) -> str:
    return str(broker.status()["storeId"])


def healed(broker: GuardedReplica, times: int = 1) -> None:
    def whole() -> bool:
        noted = (broker.directory / "data" / DAMAGE_NOTE).exists()
        return broker.log().count("the log is whole again") >= times and not noted

    eventually(whole, f"it does not heal: {broker.log()[-3000:]}", SECONDS)


def judge(group: GuardedGroup, load: Load, witness: GuardedReplica, *, ok_sends_min: int) -> None:
    group.agree()
    verdict = check_log(drained_history(witness, load), ok_sends_min=ok_sends_min)
    assert verdict.name == "valid", verdict


@pytest.mark.parametrize("mode", list(MODES))
def test_a_follower_fetches_the_record_that_was_spoilt_while_it_was_down(tmp_path: Path, mode: str) -> None:
    with group_of(tmp_path, mode) as group:
        leader, _ = group.leader()
        follower = next(each for each in reversed(group.brokers) if each is not leader)  # static: nobody waits for it
        fill(leader, 3 * SEGMENT)
        group.agree()
        before = store_id(follower)
        with Load(leader, senders=2) as load:
            load.wait_for(Outcome.OK, 50, seconds=SECONDS)
            assert follower.stop() == 0
            damage(follower, 1, SEGMENT // 2, 1)
            follower.start()
            healed(follower)
            load.wait_for(Outcome.OK, 50, seconds=SECONDS)
        judge(group, load, follower, ok_sends_min=100)
        assert "range mended" in follower.log()
        assert 0 < fetched(follower) < 200_000, "about the damaged record"
        assert store_id(follower) == before
        same_segments(group, range(3))
        assert load.count(Outcome.FAILED) == 0


def test_a_leader_that_a_consumer_shows_its_damage_lets_another_lead_and_heals(tmp_path: Path) -> None:
    with group_of(tmp_path, "controller") as group:
        fill(group.leader()[0], 2 * SEGMENT)
        for broker in group.brokers:  # what a process wrote itself is not compared
            group.agree()
            lives = broker.log().count("the log was read through")
            assert broker.stop() == 0
            broker.start()
            eventually(
                lambda broker=broker, lives=lives: broker.log().count("the log was read through") > lives,
                f"it does not read its log: {broker.log()[-2000:]}", SECONDS,
            )  # fmt: skip
        group.agree()
        leader, epoch = group.leader()
        witness = next(each for each in group.brokers if each is not leader)
        at = segment_of(leader, 1).read_bytes().index(b"fill-100.....")
        with Load(witness, senders=2) as load:
            load.wait_for(Outcome.OK, 50, seconds=SECONDS)
            damage(leader, 1, at + 50, 1)
            client = BlockingClient(leader.port, host=leader.host)
            answer = client.ask(11, {**pull_header(25), "topic": "Fill"})
            client.close()
            assert (answer.code, answer.body) == (1, b"")
            group.leader(after=epoch)
            healed(leader)
            load.wait_for(Outcome.OK, 50, seconds=SECONDS)
        judge(group, load, leader, ok_sends_min=100)
        assert "hands leadership over" in leader.log()
        assert 0 < fetched(leader) < 200_000
        client = BlockingClient(leader.port, host=leader.host)
        assert client.pull("Fill", 0, 25)[0][1].startswith("fill-100")
        client.close()
        same_segments(group, range(2))


def test_a_former_leader_under_its_guardian_fetches_what_was_spoilt(tmp_path: Path) -> None:
    with group_of(tmp_path, "controller", guarded=True) as group:
        leader, epoch = group.leader()
        fill(leader, 4 * SEGMENT)
        group.agree()
        witness = next(each for each in group.brokers if each is not leader)
        with Load(witness, senders=2) as load:
            load.wait_for(Outcome.OK, 50, seconds=SECONDS)
            child = leader.child
            os.kill(leader.pid, signal.SIGKILL)  # with its guardian, so that nothing is started again yet
            leader.kill()
            eventually(lambda: not Path(f"/proc/{child}").exists(), "the broker outlives its guardian", SECONDS)
            group.leader(after=epoch)
            damage(leader, 1, 100, 1)
            damage(leader, 2, 0, 300_000)
            damage(leader, 2, SEGMENT - 300_000, 300_000)
            leader.start()
            healed(leader)
            load.wait_for(Outcome.OK, 50, seconds=SECONDS)
        judge(group, load, leader, ok_sends_min=100)
        assert 600_000 <= fetched(leader) < 1_200_000
        same_segments(group, range(4))


def test_a_kill_in_the_middle_of_healing_costs_nothing_but_time(tmp_path: Path) -> None:
    with group_of(tmp_path, "controller") as group:
        leader, _ = group.leader()
        follower = next(each for each in group.brokers if each is not leader)
        fill(leader, 8 * SEGMENT)
        group.agree()
        before = store_id(follower)
        with Load(leader, senders=2) as load:
            load.wait_for(Outcome.OK, 50, seconds=SECONDS)
            assert follower.stop() == 0
            for _ in range(5):
                for number in range(1, 8):
                    damage(follower, number, 0, SEGMENT)
                if killed_while_it_heals(follower):
                    break
            else:
                raise AssertionError(f"it never was caught while it fetched: {follower.log()[-3000:]}")
            assert (follower.directory / "data" / DAMAGE_NOTE).exists()
            follower.start()
            healed(follower)
            load.wait_for(Outcome.OK, 50, seconds=SECONDS)
        judge(group, load, follower, ok_sends_min=100)
        assert store_id(follower) == before
        same_segments(group, range(8))


def killed_while_it_heals(follower: GuardedReplica) -> bool:
    """Start it, and kill it after it has fetched something and before it has everything; whether that came about."""
    files, root = OsFiles(), str(follower.directory / "data")
    note_damage(files, root, StoreDamaged(str(segment_of(follower, 1)), 0, "spoilt", root))
    follower.spawn()
    caught = False

    def seen() -> bool:
        nonlocal caught
        try:
            said = follower.status()
        except OSError:
            return False
        healing = said.get("healing")
        caught = isinstance(healing, dict) and 0 < healing["fetchedBytes"] < healing["damagedBytes"]
        return caught or said["role"] != "healing"

    eventually(seen, f"it does not heal: {follower.log()[-3000:]}", SECONDS)
    follower.kill()
    return caught and (follower.directory / "data" / DAMAGE_NOTE).exists()


def test_while_it_is_the_only_one_that_could_lead_nobody_does(tmp_path: Path) -> None:
    """Two hold everything. One is gone, the other is damaged: the third may not lead, and nothing is given up."""
    with group_of(tmp_path, "controller") as group:
        leader, _ = group.leader()
        damaged, third = (each for each in group.brokers if each is not leader)
        third.kill()
        fill(leader, 2 * SEGMENT)
        with Load(leader, senders=2) as load:
            load.wait_for(Outcome.OK, 50, seconds=SECONDS)
            damaged.kill()
        leader.kill()
        damage(damaged, 1, SEGMENT // 2, 1)
        files, root = OsFiles(), str(damaged.directory / "data")
        note_damage(files, root, StoreDamaged(str(segment_of(damaged, 1)), SEGMENT // 2, "spoilt", root))
        third.start()
        damaged.spawn()

        def waits() -> bool:
            try:
                said = damaged.status().get("healing")
            except OSError:
                return False
            return isinstance(said, dict) and said["doing"] == "waiting" and len(said["said"]) == 2

        eventually(waits, f"it does not wait: {damaged.log()[-3000:]}", SECONDS)
        said: Any = damaged.status()["healing"]
        assert said["said"][str(group.number(third))] == "not known to be committed here"
        assert third.leads_in == 0
        leader.start()
        healed(damaged)
        group.leader()
        judge(group, load, damaged, ok_sends_min=50)
        assert fetched(damaged) < 200_000


def test_a_leader_of_mode_static_does_not_wait_for_what_all_others_have_deleted(tmp_path: Path) -> None:
    with group_of(tmp_path, "static") as group:
        leader, epoch = group.leader()
        followers = [each for each in group.brokers if each is not leader]
        fill(leader, 4 * SEGMENT)
        for follower in followers:
            assert follower.configure(**{"store.retention.size": "8MiB"})[0] == 200
        for follower in followers:
            fill(leader, SEGMENT)
            gone = segment_of(follower, 0)  # of later ones the snapshot that the leader wrote last may be in the way
            eventually(lambda gone=gone: not gone.exists(), f"it deletes nothing: {follower.log()[-2000:]}", SECONDS)
        for follower in followers:  # so that what is compared below is not deleted meanwhile
            assert follower.configure(**{"store.retention.size": "1GiB"})[0] == 200
        group.agree()
        before = store_id(leader)
        leader.kill()
        damage(leader, 0, SEGMENT // 2, 1)
        files, root = OsFiles(), str(leader.directory / "data")
        note_damage(files, root, StoreDamaged(str(segment_of(leader, 0)), SEGMENT // 2, "spoilt", root))
        leader.start()
        healed(leader)
        assert group.leader(after=epoch)[0] is leader
        fill(leader, SEGMENT)
        group.agree()
        assert (store_id(leader), fetched(leader)) == (before, 0)
        assert "what is damaged is deleted elsewhere" in leader.log()
        assert not segment_of(leader, 0).exists()
        kept = [each for each in range(8) if all(segment_of(broker, each).exists() for broker in group.brokers)]
        assert len(kept) >= 2, "too little is left to compare"
        same_segments(group, kept)
