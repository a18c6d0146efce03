"""A broker that was alone becomes the first of a replicated group, with all that it had."""

import subprocess
from pathlib import Path

import pytest

from checkers.history import Outcome
from logherd.wire.codes import RequestCode
from system.blocking import BlockingClient, drain_queue
from system.guarded_group import GuardedGroup
from system.guardians import eventually
from system.local_group import LOGHERD
from system.processes import BrokerProcess

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(300)]

STORE = {"segmentSize": "4MiB", "messageSizeMax": "64KiB", "reservedPercent": 0}
QUEUES, MESSAGES, BYTES = 4, 60, 60_000
OFFSET = 7
SECONDS = 120.0


def send(client: BlockingClient, first: int, count: int) -> list[str]:
    sent = [f"m{number}" for number in range(first, first + count)]
    for number, value in enumerate(sent):
        assert client.send("Kept", number % QUEUES, value, padding=BYTES).outcome is Outcome.OK
    return sent


def stored(client: BlockingClient) -> set[str]:
    return {value for queue in range(QUEUES) for _, value in drain_queue(client, "Kept", queue)[1]}


def commit(client: BlockingClient) -> None:
    group = client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b'{"groupName":"Readers"}')
    where = {"consumerGroup": "Readers", "topic": "Kept", "queueId": "0", "commitOffset": str(OFFSET)}
    assert (group.code, client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, where).code) == (0, 0)


def committed(client: BlockingClient) -> int:
    frame = client.ask(
        RequestCode.QUERY_CONSUMER_OFFSET, {"consumerGroup": "Readers", "topic": "Kept", "queueId": "0"}
    )  # fmt: skip
    return int(frame.ext["offset"])


def test_a_broker_that_was_alone_founds_a_group_whose_others_have_all_that_it_had(tmp_path: Path) -> None:
    group = GuardedGroup(tmp_path, store=STORE)
    first = group.brokers[0]
    alone = BrokerProcess(first.directory, store=STORE, clusterName="DefaultCluster")
    sent: list[str] = []
    for life in range(2):  # a log with an epoch for each start
        alone.start()
        client = BlockingClient(alone.port)
        sent += send(client, len(sent), MESSAGES)
        if life:
            commit(client)
        client.close()
        assert alone.stop() == 0
    done = subprocess.run(
        [LOGHERD, "store", "found", "--config", str(first.write_config())], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "broker 1 of DefaultCluster/bg begins with this log" in done.stdout
    with group:
        leader, epoch = group.leader()
        assert leader is first
        group.agree()
        eventually(
            lambda: len(first.replication()["inSync"]["members"]) == 3,
            f"who is in sync? {first.log()[-2000:]}",
            SECONDS,
        )
        leader.kill()
        second, _ = group.leader(after=epoch)
        client = BlockingClient(second.port, host=second.host)
        assert stored(client) == set(sent)
        assert committed(client) == OFFSET
        sent += send(client, len(sent), 8)
        first.start()
        group.agree()
        assert stored(client) == set(sent)
        client.close()
