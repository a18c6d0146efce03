"""A group in static mode, as real processes: broker 1 leads and waits for broker 2, broker 3 copies without being
awaited. Who leads next is said by hand."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from checkers.history import Outcome
from checkers.log_checks import check_log
from system.blocking import BlockingClient, drain_queue
from system.guarded_group import GuardedGroup, GuardedReplica
from system.guardians import eventually
from system.load import TOPIC, Load, drained_history
from system.replica_orders import admins, replica_command, token_file

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(240)]

STORE = {"segmentSize": "4MiB", "messageSizeMax": "64KiB", "reservedPercent": 0}
SECONDS = 60.0


def static_group(
    tmp_path: Path, *, guarded: bool = False, synchronous: Sequence[int] = (2,), recorded: bool = False
) -> GuardedGroup:
    """`recorded`: its controller records who is promoted."""
    replication = {"mode": "static", "static": {"leader": 1, "synchronous": [*synchronous]}}
    replication |= {} if recorded else {"controllers": []}
    token = str(token_file(tmp_path))
    return GuardedGroup(tmp_path, replication=replication, guarded=guarded, store=STORE, adminTokenFile=token)


def wipe(broker: GuardedReplica) -> None:
    """End it, and let its next process find nothing."""
    broker.kill()
    shutil.rmtree(broker.directory / "data")


def promote(tmp_path: Path, broker: GuardedReplica, *options: str) -> subprocess.CompletedProcess[str]:
    return replica_command("promote", *admins([broker]), "--token-file", str(tmp_path / "token"), *options)


def loses_nothing(broker: GuardedReplica) -> bool:
    """Whether the broker says so of its own promotion."""
    page = json.loads(replica_command("roles", *admins([broker])).stdout)[0]
    assert isinstance(page["eligible"], bool)
    return page["eligible"]


def tables_known(broker: GuardedReplica) -> tuple[int, int]:
    """The table that a broker goes by, and who leads by it."""
    page = json.loads(replica_command("roles", *admins([broker])).stdout)[0]
    return page["table"], page["leader"]


def load_that_both_have(group: GuardedGroup) -> Load:
    """Sends that were acknowledged, and are over; both followers, who are awaited, may lead without a loss."""
    first, *others = group.brokers
    with Load(first, senders=2) as load:
        load.wait_for(Outcome.OK, 100, seconds=SECONDS)
    for each in others:
        eventually(lambda each=each: loses_nothing(each), "a synchronous follower has not everything", SECONDS)
    return load


def leave_a_tail(leader: GuardedReplica, awaited: GuardedReplica) -> None:
    """Have the leader append what the broker that it waits for never gets, and die. The other one is back then."""
    client = BlockingClient(leader.port, host=leader.host, timeout_seconds=2.0)
    os.kill(awaited.pid, signal.SIGKILL)
    assert client.send(TOPIC, 0, "never acknowledged").outcome is Outcome.UNKNOWN
    client.close()
    assert int(str(leader.status()["endPosition"])) > int(str(leader.status()["committedPosition"]))
    leader.kill()
    awaited.kill()
    awaited.start()


def judge(group: GuardedGroup, load: Load, witness: GuardedReplica, *, ok_sends_min: int) -> None:
    """All replicas have one log, in which everything is that was answered, once and in order."""
    group.agree()
    verdict = check_log(drained_history(witness, load), ok_sends_min=ok_sends_min)
    assert verdict.name == "valid", verdict


def test_a_synchronous_follower_is_promoted_without_loss_and_the_old_leader_cuts_its_tail(tmp_path: Path) -> None:
    with static_group(tmp_path) as group:
        first, second, third = group.brokers
        assert group.leader()[0] is first
        eventually(lambda: loses_nothing(second), "the synchronous follower has not everything", SECONDS)
        with Load(third, senders=2) as load:
            load.wait_for(Outcome.OK, 100, seconds=SECONDS)
        leave_a_tail(first, second)
        assert promote(tmp_path, third, "--after", "1").returncode != 0, "it was not awaited: it may lack something"
        done = promote(tmp_path, second, "--after", "1", "--synchronous", "3")
        assert done.returncode == 0, done.stderr
        assert (said := json.loads(done.stdout)[0])["table"] == 2, said
        again = promote(tmp_path, second, "--after", "1", "--synchronous", "3")
        assert "table 2 is in force" in again.stderr
        with Load(third, senders=2) as more:
            more.wait_for(Outcome.OK, 100, seconds=SECONDS)
            first.start()
            more.wait_for(Outcome.OK, 50, seconds=SECONDS)
        assert second.leads_in
        assert not first.leads_in
        group.agree()
        assert "log cut" in first.log()
        sent = [*load.sends, *more.sends]
        kept = {entry for _, entries in drained_history(first, load).final.values() for _, entry in entries}
        lost = [send.value for send in sent if send.outcome is Outcome.OK and send.value not in kept]
        assert lost == []
        assert "never acknowledged" not in kept


def test_a_promotion_that_another_one_preceded_is_refused_by_who_recorded_that(tmp_path: Path) -> None:
    """Broker 3 has not heard of the promotion of broker 2, and nobody is left who could tell it but the controller."""
    with static_group(tmp_path, synchronous=(2, 3), recorded=True) as group:
        first, second, third = group.brokers
        load = load_that_both_have(group)
        first.kill()
        third.kill()
        done = promote(tmp_path, second, "--after", "1", "--synchronous", "3")
        assert done.returncode == 0, done.stderr
        second.kill()
        third.start()
        assert loses_nothing(third), "as far as it knows"
        refused = promote(tmp_path, third, "--after", "1", "--synchronous", "2")
        assert f"table 2 is in force: broker 2 leads, in epochs from {2 << 43} on" in refused.stderr, refused
        group.kill_controller()
        refused = promote(tmp_path, third, "--after", "2", "--synchronous", "2")
        assert "the controllers, who record promotions, do not answer" in refused.stderr, refused
        done = promote(tmp_path, third, "--after", "2", "--synchronous", "2", "--unrecorded")
        assert done.returncode == 0, done.stderr
        first.start()
        second.start()
        eventually(lambda: third.leads_in, f"broker 3 does not lead: {third.log()[-2000:]}", SECONDS)
        judge(group, load, first, ok_sends_min=100)


def test_of_two_hands_at_once_one_promotes(tmp_path: Path) -> None:
    with static_group(tmp_path, synchronous=(2, 3), recorded=True) as group:
        first, second, third = group.brokers
        load = load_that_both_have(group)
        first.kill()
        with ThreadPoolExecutor() as hands:
            orders = [
                hands.submit(promote, tmp_path, each, "--after", "1", "--synchronous", str(group.number(other)))
                for each, other in ((second, third), (third, second))
            ]
            done = [order.result() for order in orders]
        assert [each.returncode for each in done].count(0) <= 1, done
        first.start()
        leader, _ = group.leader(after=2 << 43)
        assert leader in (second, third)
        assert done[1 if leader is second else 0].returncode != 0, done
        assert {tables_known(each) for each in group.brokers} == {(2, group.number(leader))}
        judge(group, load, first, ok_sends_min=100)


def test_a_wiped_follower_may_lead_only_once_it_has_everything_again(tmp_path: Path) -> None:
    with static_group(tmp_path) as group:
        first, second, third = group.brokers
        with Load(first, senders=2) as load:
            load.wait_for(Outcome.OK, 100, seconds=SECONDS)
            eventually(lambda: loses_nothing(second), "the synchronous follower has not everything", SECONDS)
            wipe(second)
        # With the leader away nobody can give it anything.
        first.kill()
        second.start()
        refused = promote(tmp_path, second, "--after", "1")
        assert "has not had everything" in refused.stderr, refused
        first.start()
        eventually(lambda: loses_nothing(second), "the wiped follower has not everything", SECONDS)
        done = promote(tmp_path, second, "--after", "1", "--synchronous", "1", "--synchronous", "3")
        assert done.returncode == 0, done.stderr
        eventually(lambda: second.leads_in, f"broker 2 does not lead: {second.log()[-2000:]}", SECONDS)
        judge(group, load, third, ok_sends_min=100)


def test_an_accepted_loss_is_the_end_of_what_only_the_others_had(tmp_path: Path) -> None:
    """Broker 3 was never awaited. It leads because somebody says that this is meant, under the number that he names."""
    with static_group(tmp_path) as group:
        first, second, third = group.brokers
        common = some_sends(first, "common")
        group.agree()
        third.kill()
        gone = some_sends(first, "lost")
        first.kill()
        second.kill()
        third.start()
        assert "is with broker 1, broker 2" in promote(tmp_path, third, "--after", "1").stderr
        done = promote(tmp_path, third, "--after", "1", "--synchronous", "2", "--accept-loss", "--yes")
        assert done.returncode == 0, done.stderr
        for broker in (first, second):
            broker.start()
        eventually(lambda: third.leads_in, f"broker 3 does not lead: {third.log()[-2000:]}", SECONDS)
        group.agree()
        assert stored(first) == common
        assert not {*gone} & {*stored(first)}
        assert some_sends(second, "later") == stored(first)[len(common) :]
        assert all("begins with nothing" in broker.log() for broker in (first, second))


def some_sends(broker: GuardedReplica, what: str) -> list[str]:
    """Send and have answered some messages; what they are."""
    client = BlockingClient(broker.port, host=broker.host)
    try:
        values = [f"{what} {number}" for number in range(20)]
        assert {client.send(TOPIC, 0, value).outcome for value in values} == {Outcome.OK}
    finally:
        client.close()
    return values


def stored(broker: GuardedReplica) -> list[str]:
    client = BlockingClient(broker.port, host=broker.host)
    try:
        return [entry for _, entry in drain_queue(client, TOPIC, 0)[1]]
    finally:
        client.close()


def test_a_killed_leader_under_a_guardian_leads_on_in_another_epoch(tmp_path: Path) -> None:
    with static_group(tmp_path, guarded=True) as group:
        first, _, third = group.brokers
        _, epoch = group.leader()
        with Load(third, senders=2) as load:
            load.wait_for(Outcome.OK, 100, seconds=SECONDS)
            child = first.kill_child()
            first.wait_for_another(child)
            leader, later = group.leader(after=epoch)
            assert leader is first
            load.wait_for(Outcome.OK, 100, seconds=SECONDS)
        judge(group, load, third, ok_sends_min=200)
    assert later > epoch


def set_roles(broker: GuardedReplica, **roles: object) -> None:
    """Let its next start find these first roles in its settings."""
    replication = broker.settings["replication"]
    assert isinstance(replication, dict)
    broker.settings["replication"] = {**replication, "static": roles}


def test_a_broker_with_a_new_disk_and_other_settings_follows_the_group_that_there_is(tmp_path: Path) -> None:
    """Asynchronous, it would have led beside the leader, with nothing in its log, under the same number of a table."""
    with static_group(tmp_path, synchronous=()) as group:
        first, second, third = group.brokers
        sent = some_sends(first, "before")
        wipe(second)
        set_roles(second, leader=2)
        second.start()
        eventually(lambda: tables_known(second) == (1, 1), "it does not take the group's roles", SECONDS)
        sent += some_sends(third, "after")
        group.agree()
        assert (bool(first.leads_in), second.leads_in) == (True, 0)
        assert stored(second) == sent


def test_nobody_leads_a_new_group_whose_brokers_are_set_to_different_roles_and_both_say_why(tmp_path: Path) -> None:
    with static_group(tmp_path, synchronous=()) as group:
        first, second, _ = group.brokers
        for each in group.brokers:
            wipe(each)
        set_roles(second, leader=2)
        for each in group.brokers:
            each.start()
        why = "other roles of the same number are known at broker"
        for each in (first, second):
            eventually(lambda each=each: why in str(each.replication().get("closed")), "it does not say so", SECONDS)
        assert [each.leads_in for each in group.brokers] == [0, 0, 0]
        second.kill()
        set_roles(second, leader=1)
        second.start()
        assert group.leader()[0] is first
        sent = some_sends(second, "once they agree")
        group.agree()
        assert stored(second) == sent


def test_an_asynchronous_leader_with_a_new_disk_acknowledges_nothing(tmp_path: Path) -> None:
    """Its followers have what it acknowledged. It served until it had heard that from one of them, and what it had
    answered until then was not in the group's log."""
    with static_group(tmp_path, synchronous=()) as group:
        first, second, _ = group.brokers
        sent = some_sends(first, "before")
        group.agree()
        wipe(first)
        first.start()
        outcomes = []
        deadline = time.monotonic() + SECONDS
        while "lacks" not in str(first.replication().get("closed")):
            assert time.monotonic() < deadline, first.log()[-2000:]
            client = BlockingClient(first.port, host=first.host, timeout_seconds=0.2)
            outcomes.append(client.send(TOPIC, 0, "after").outcome)
            client.close()
        assert Outcome.OK not in outcomes
        done = promote(tmp_path, second, "--after", "1", "--accept-loss", "--yes")
        assert done.returncode == 0, done.stderr
        eventually(lambda: second.leads_in, f"broker 2 does not lead: {second.log()[-2000:]}", SECONDS)
        group.agree()
        assert stored(first) == sent
