"""A group in raft mode, as real processes without controllers of its own: who leads is decided by its brokers alone."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from checkers.history import Outcome
from checkers.log_checks import check_log
from logherd.wire.bodies import decode_body
from logherd.wire.bodies.routes import TopicRoute
from logherd.wire.codes import RequestCode
from system.blocking import BlockingClient
from system.guarded import knocking
from system.guarded_group import GuardedGroup, GuardedReplica
from system.guardians import eventually
from system.load import TOPIC, Load, drained_history
from system.replica_orders import admins, replica_command, token_file

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(240)]

RAFT = {"mode": "raft", "controllers": []}
STORE = {"segmentSize": "4MiB", "messageSizeMax": "64KiB", "reservedPercent": 0}
SECONDS = 60.0


def others(group: GuardedGroup, *but: GuardedReplica) -> list[GuardedReplica]:
    return [each for each in group.brokers if each not in but]


def judge(group: GuardedGroup, load: Load, witness: GuardedReplica, *, ok_sends_min: int) -> None:
    """All replicas have one log, in which everything is that was answered, once and in order."""
    group.agree()
    verdict = check_log(drained_history(witness, load), ok_sends_min=ok_sends_min)
    assert verdict.name == "valid", verdict


def test_a_killed_leader_is_followed_by_another_and_nothing_is_lost(tmp_path: Path) -> None:
    with GuardedGroup(tmp_path, replication=RAFT, guarded=False, store=STORE) as group:
        leader, epoch = group.leader()
        with Load(others(group, leader)[0], senders=4) as load:
            load.wait_for(Outcome.OK, 200, seconds=SECONDS)
            leader.kill()
            another, _ = group.leader(after=epoch)
            assert another is not leader
            load.wait_for(Outcome.OK, 200, seconds=SECONDS)
            there = {0: f"{another.host}:{another.port}"}
            eventually(lambda: routed(group) == there, "the name service knows another leader", SECONDS)
            leader.start()
            load.wait_for(Outcome.OK, 100, seconds=SECONDS)
        judge(group, load, leader, ok_sends_min=500)


def routed(group: GuardedGroup) -> dict[int, str]:
    """Whom the name service names to clients, by id."""
    host, _, port = group.name_server.rpartition(":")
    client = BlockingClient(int(port), host=host)
    try:
        answer = client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC})
    finally:
        client.close()
    brokers = decode_body(TopicRoute, answer.body).brokers if answer.code == 0 else []
    return {number: address for broker in brokers for number, address in broker.addresses.items()}


def test_clients_of_a_killed_leader_under_a_guardian_are_served_on_at_its_own_address(tmp_path: Path) -> None:
    with GuardedGroup(tmp_path, replication=RAFT, store=STORE) as group:
        leader, epoch = group.leader()
        with Load(leader, senders=4) as load, knocking(leader) as outcomes:
            load.wait_for(Outcome.OK, 200, seconds=SECONDS)
            child = leader.kill_child()
            group.leader(after=epoch)
            load.wait_for(Outcome.OK, 200, seconds=SECONDS)
            leader.wait_for_another(child)
        judge(group, load, leader, ok_sends_min=400)
    assert [each for each in outcomes if each.startswith("not connected")] == []


def test_a_leader_that_hangs_is_killed_by_its_guardian_once_its_lease_is_over(tmp_path: Path) -> None:
    with GuardedGroup(tmp_path, replication=RAFT, store=STORE) as group:
        leader, epoch = group.leader()
        with Load(leader, senders=2) as load:
            load.wait_for(Outcome.OK, 100, seconds=SECONDS)
            child = leader.child
            os.kill(child, signal.SIGSTOP)
            group.leader(after=epoch)
            leader.wait_for_another(child)
            load.wait_for(Outcome.OK, 100, seconds=SECONDS)
        judge(group, load, leader, ok_sends_min=200)
        assert f"killed: lease over and not released, epoch={epoch}" in leader.log()


def test_a_group_whose_brokers_all_died_goes_on_with_what_it_had(tmp_path: Path) -> None:
    with GuardedGroup(tmp_path, replication=RAFT, guarded=False, store=STORE) as group:
        leader, epoch = group.leader()
        with Load(leader, senders=2) as load:
            load.wait_for(Outcome.OK, 100, seconds=SECONDS)
            for broker in group.brokers:
                broker.kill()
            for broker in group.brokers:
                broker.start()
            group.leader(after=epoch)
            load.wait_for(Outcome.OK, 100, seconds=SECONDS)
        judge(group, load, leader, ok_sends_min=200)


def test_a_wiped_replica_is_another_member_and_gets_the_vote_of_the_lost_one(tmp_path: Path) -> None:
    """Its old store voted and held copies; the new one may count only once it has everything. Then it must count: the
    group goes on without the third one."""
    with GuardedGroup(tmp_path, replication=RAFT, guarded=False, store=STORE) as group:
        leader, _ = group.leader()
        wiped, third = others(group, leader)
        with Load(leader, senders=2) as load:
            load.wait_for(Outcome.OK, 100, seconds=SECONDS)
            before = stores_known(leader)
            wiped.kill()
            shutil.rmtree(wiped.directory / "data")
            load.wait_for(Outcome.OK, 50, seconds=SECONDS)
            wiped.start()
            number = group.number(wiped)
            eventually(lambda: has_new_vote(leader, number, before), f"no vote: {leader.replication()}", SECONDS)
            third.kill()
            load.wait_for(Outcome.OK, 50, seconds=SECONDS)
            third.start()
        judge(group, load, wiped, ok_sends_min=200)
        assert "joining without a vote" in wiped.log()


def stores_known(broker: GuardedReplica) -> int:
    """The version of the membership, as its leader has it."""
    return int(broker.replication()["inSync"]["version"])


def has_new_vote(leader: GuardedReplica, number: int, before: int) -> bool:
    said = leader.replication()
    settled = said["pending"] is None and said["inSync"]["version"] > before
    return settled and number in said["inSync"]["members"] and len(said["inSync"]["members"]) == 3


def test_leadership_is_handed_over_by_order_and_no_send_fails(tmp_path: Path) -> None:
    token = token_file(tmp_path)
    with GuardedGroup(
        tmp_path, replication=RAFT, guarded=False, store=STORE, adminTokenFile=str(token)
    ) as group:  # fmt: skip
        leader, epoch = group.leader()
        target, witness = others(group, leader)
        eventually(lambda: len(leader.replication()["inSync"]["members"]) == 3, "not in sync", SECONDS)
        with Load(witness, senders=2) as load:
            load.wait_for(Outcome.OK, 50, seconds=SECONDS)
            refused = hand_over(group, "--to", str(group.number(target)))
            assert refused.returncode != 0
            assert "--token-file" in refused.stderr
            done = hand_over_once_in_sync(group, "--to", str(group.number(target)), "--token-file", str(token))
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["brokerId"] == group.number(target)
            load.wait_for(Outcome.OK, 50, seconds=SECONDS)
            assert target.leads_in > epoch
            # The same without an order: whoever stops hands over first.
            assert target.stop() == 0
            group.leader(after=target_epoch(done))
            load.wait_for(Outcome.OK, 50, seconds=SECONDS)
            target.start()
        assert [send for send in load.sends if send.outcome is not Outcome.OK] == []
        judge(group, load, witness, ok_sends_min=150)


def target_epoch(done: subprocess.CompletedProcess[str]) -> int:
    return int(json.loads(done.stdout)["epoch"])


def hand_over(group: GuardedGroup, *options: str) -> subprocess.CompletedProcess[str]:
    return replica_command("hand-over", *admins(group.brokers), *options)


def hand_over_once_in_sync(group: GuardedGroup, *options: str) -> subprocess.CompletedProcess[str]:
    """Who lags at the moment of the order cannot take over; then it is given again."""
    while "cannot take over; in sync are" in (done := hand_over(group, *options)).stderr:
        time.sleep(0.1)  # the test's own limit ends this
    return done


def test_what_is_left_of_a_lost_majority_goes_on_by_order_and_takes_in_new_stores(tmp_path: Path) -> None:
    token = token_file(tmp_path)
    with GuardedGroup(
        tmp_path, replication=RAFT, guarded=False, store=STORE, adminTokenFile=str(token)
    ) as group:  # fmt: skip
        leader, epoch = group.leader()
        left, lost = others(group, leader)[0], [leader, others(group, leader)[1]]
        recover = ("recover", *admins([left]), "--token-file", str(token), "--yes")
        given_up = [part for broker in lost for part in ("--give-up", str(group.number(broker)))]
        with Load(left, senders=2) as load:
            load.wait_for(Outcome.OK, 100, seconds=SECONDS)
            eventually(lambda: votes(left)["leader"] is not None, "no leader is heard", SECONDS)
            works = replica_command(*recover, *given_up, "--accept-loss")
            assert "a leader is heard here" in works.stderr
        group.agree()
        for broker in lost:
            broker.kill()
            (broker.directory / "data").rename(broker.directory / "lost")
        eventually(lambda: votes(left)["leader"] is None, "a leader is heard", SECONDS)
        assert "are lost, although they were acknowledged" in replica_command(*recover, *given_up).stderr
        assert "name them" in replica_command(*recover, *given_up[:2], "--accept-loss").stderr
        done = replica_command(*recover, *given_up, "--accept-loss")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["epoch"] > epoch
        with Load(left, senders=2, first=2) as more:
            more.wait_for(Outcome.OK, 50, seconds=SECONDS)
        for broker in lost:
            broker.start()
        # Who votes is decided when it is committed, and then those who vote know it. A change that was begun for the
        # lost stores gives way to one for these.
        eventually(lambda: all(voters(each) == 3 for each in group.brokers), "they do not vote", 3 * SECONDS)
        with Load(left, senders=2, first=4) as between:  # a new store votes when the leader has heard it and said so
            between.wait_for(Outcome.OK, 50, seconds=SECONDS)
        group.agree()
        left.kill()
        another, _ = group.leader(after=target_epoch(done))
        assert another in lost
        left.start()
        with Load(left, senders=2, first=6) as last:
            last.wait_for(Outcome.OK, 50, seconds=SECONDS)
        group.agree()
        verdict = check_log(drained_history(left, load, more, between, last), ok_sends_min=150)
        assert verdict.name == "valid", verdict


def voters(broker: GuardedReplica) -> int:
    """How many vote, as far as a broker knows."""
    return len(broker.replication()["inSync"]["members"])


def votes(broker: GuardedReplica) -> dict[str, Any]:
    """What a broker knows of who votes and leads."""
    page = json.loads(replica_command("votes", *admins([broker])).stdout)[0]
    assert isinstance(page, dict)
    return page
