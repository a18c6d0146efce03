"""Groups that no controllers lead: `votes`, whose brokers vote, and `table`, where a person says who leads.

They have no Service of the leader: routes name its pod, and a stock client that lost it asks for routes within 30 s.
"""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from e2e.cluster.kube import Refused, eventually
from e2e.orders import NAMESPACE, admin_page
from e2e.scene import Scene
from e2e.small import QUEUES, SmallGroup
from logherd.wire.codes import RequestCode
from system.blocking import BlockingClient, NoAnswerError, drain_queue
from system.steady import SteadyProducer, compare, longest_gap

pytestmark = [pytest.mark.timeout(1800, func_only=True)]
_PLACES = {
    "votes-controller-0": "node1", "votes-broker-0": "node1", "votes-broker-1": "node2", "votes-broker-2": "node1",
    "table-controller-0": "node1", "table-broker-0": "node2", "table-broker-1": "node1",
}  # fmt: skip
"""The second node has nobody whom the rest could not do without; in `table` that is whoever leads first."""
_TOPIC, _LOAD, _COUNT, _READERS = "greetings", "steady", 20, "hearers"
_SOME = 50
"""Sends that must be stored after each thing that was done."""


class Led(NamedTuple):
    """Who leads, as that broker says itself."""

    pod: str
    address: str
    epoch: int


class OwnLed(SmallGroup):
    """One of the two. Its brokers are asked: the operator may look a minute later at what they have decided."""

    def look(self) -> Led | None:
        """Who leads and serves. Raises Refused."""
        found = []
        for name, pod in self.pods().items():
            address = pod.get("status", {}).get("podIP", "")
            said = (admin_page(address, "/status") or {}).get("replication", {}) if "-broker-" in name else {}
            if said.get("serving"):
                found.append(Led(name, address, int(said["epoch"])))
        return max(found, key=lambda each: each.epoch, default=None)

    def led(self, after: int = 0) -> Led:
        """Wait until somebody leads in a later epoch."""

        def look() -> Led | None:
            now = self.look()
            return now if now is not None and now.epoch > after else None

        found = eventually(look, f"{self.name} is led in an epoch after {after}", seconds=600, words=self.words)
        assert isinstance(found, Led)
        return found

    def in_step(self) -> bool:
        """Whether all pods are ready, and all brokers in sync, as the leader says. Raises Refused."""
        led = self.look()
        said = (admin_page(led.address, "/status") or {}).get("replication", {}) if led is not None else {}
        return bool(said) and len(said["inSync"]["members"]) == self.brokers and self.all_ready()

    def recover(self) -> None:
        """Wait for that."""
        eventually(self.in_step, f"{self.name} is complete", seconds=900, pause=0.5, words=self.words)

    def settle(self) -> str:
        """Wait for that, and until the operator is content; it need not hear at once of another leader."""
        self.recover()
        return super().settle()

    def ended_epoch(self) -> str:
        """Which epoch it was, as the operator says once nobody leads; "" before. Raises Refused."""
        elected = (each for each in self.status.get("conditions", ()) if each["type"] == "LeaderElected")
        found = re.search(r"in epoch (\d+), and does not serve", next(elected, {"message": ""})["message"])
        return found[1] if found else ""

    def client(self) -> BlockingClient:
        """A connection to the leader's own pod. Raises Refused if there is none."""
        try:
            return BlockingClient(10911, host=self.led().address)
        except OSError as error:
            raise Refused(0, str(error)) from error

    def committed(self, readers: str, topic: str) -> int:
        """How many messages a group of consumers has read, as the leader knows it. Raises Refused."""
        client = self.client()
        try:
            answers = [
                client.ask(
                    RequestCode.QUERY_CONSUMER_OFFSET,
                    {"consumerGroup": readers, "topic": topic, "queueId": str(n), "setZeroIfNotFound": "true"},
                )
                for n in range(QUEUES)
            ]
        except NoAnswerError as error:
            raise Refused(0, str(error)) from error
        finally:
            client.close()
        return sum(int(answer.ext["offset"]) for answer in answers if answer.code == 0)

    @contextmanager
    def load(self) -> Iterator[SteadyProducer]:
        """A stock producer sends meanwhile. Raises AssertionError at the end if a message is lost."""
        self.make_topic(_LOAD)
        producer = SteadyProducer(
            self.scene.driver, self.names, _LOAD, name=self.name, per_second=50, patience=240
        )  # fmt: skip
        with producer:
            producer.wait_for(_SOME, since=0)
            yield producer
            producer.wait_for(_SOME, since=time.time())
            self.settle()
        client = self.client()
        try:
            stored = {(_LOAD, number): drain_queue(client, _LOAD, number) for number in range(QUEUES)}
        finally:
            client.close()
        found = compare(_LOAD, producer.sends, stored)
        assert found.clean, f"lost {found.lost[:5]}, foreign {found.foreign[:5]}"

    def tell_outage(self, producer: SteadyProducer, what: str, begin: float) -> None:
        """Print what the client saw."""
        end = time.time()
        failed = [each.fault for each in producer.sends if not each.ok and begin <= each.returned]
        print(f"{what}: outage {longest_gap(producer.sends, begin, end):.2f} s, {len(failed)} failed", *failed[:3])

    def exchange(self) -> None:
        """A stock client sends, another one receives."""
        self.make_topic(_TOPIC)
        self.send("greeters", _TOPIC, _COUNT)
        self.hear(_READERS, _TOPIC, _COUNT)

    def routes_name_pod(self, pod: str) -> None:
        """Wait until clients are told that this pod leads."""
        self.routes_name(f"{pod}.{self.name}-brokers.{NAMESPACE}.svc.cluster.local:10911", _LOAD)


@pytest.fixture(scope="module")
def groups(scene: Scene) -> Iterator[dict[str, OwnLed]]:
    """Both, begun at the same time. They are gone when the tests here are over."""
    for pod, node in _PLACES.items():
        scene.cluster.add_volume(node, NAMESPACE, f"data-{pod}")
    scene.orders.settle()
    made = {name: OwnLed(scene, name) for name in ("votes", "table")}
    try:
        made["votes"].apply(replicas=3, replication={"mode": "Raft"})
        made["table"].apply(
            replicas=2, replication={"mode": "Static", "static": {"leader": 1, "synchronous": [2]}}
        )  # fmt: skip
        yield made
    finally:
        for each in made.values():
            each.remove()
        for each in made.values():
            eventually(lambda each=each: not each.pods(), "their pods are gone", words=each.words)


def test_brokers_that_vote_outlive_their_leaders_process_and_its_pod(scene: Scene, groups: dict[str, OwnLed]) -> None:
    votes = groups["votes"]
    votes.settle()
    votes.exchange()
    with votes.load() as producer:
        begin, before = time.time(), votes.led()
        votes.routes_name_pod(before.pod)
        scene.orders.kill_process(before.pod)
        votes.led(after=before.epoch)
        producer.wait_for(_SOME, since=time.time())
        votes.recover()
        votes.tell_outage(producer, "mode Raft, process of the leader killed", begin)

        begin, before, uids = time.time(), votes.led(), votes.uids()
        scene.orders.delete_pod(before.pod)
        after = votes.led(after=before.epoch)
        assert votes.uids()[after.pod] != uids[before.pod]
        producer.wait_for(_SOME, since=time.time())
        votes.tell_outage(producer, "mode Raft, pod of the leader deleted", begin)
        votes.routes_name_pod(votes.led().pod)


def test_a_follower_that_is_promoted_by_hand_has_everything_that_the_lost_leader_acknowledged(
    scene: Scene, groups: dict[str, OwnLed]
) -> None:
    """Its leader's node takes no pods meanwhile, so that the leader does not come back by itself."""
    table, cluster = groups["table"], scene.cluster
    assert table.settle() == "table-broker-0"
    table.exchange()
    eventually(lambda: table.committed(_READERS, _TOPIC) == _COUNT, "what was read is committed", words=table.words)
    with table.load() as producer:
        begin, before = time.time(), table.led()
        cluster.kubectl("cordon", "node2")
        try:
            scene.orders.delete_pod(before.pod, grace=0)
            epoch = eventually(table.ended_epoch, "the operator says that nobody leads", words=table.words)
            cluster.kubectl("-n", NAMESPACE, "annotate", "brokergroup", "table", f"logherd.dev/switchover=2@{epoch}")
            assert table.led(after=before.epoch).pod == "table-broker-1"
            eventually(lambda: table.committed(_READERS, _TOPIC) == _COUNT, "what was read is known there, too")
            producer.wait_for(_SOME, since=time.time())
            table.tell_outage(producer, "mode Static, pod of the leader lost, another promoted", begin)
        finally:
            cluster.kubectl("uncordon", "node2")
        _await_first_broker_again(table)


def _await_first_broker_again(table: OwnLed) -> None:
    """Sends wait for nobody since the promotion, for broker 1 was away. The next table is given by hand."""
    eventually(table.all_ready, "broker 1 is ready", seconds=600, words=table.words)
    here = ("--admin", "127.0.0.1:8088")
    inside = ("-n", NAMESPACE, "exec", "table-broker-1", "-c", "broker", "--", "logherd", "replica")
    roles = json.loads(table.scene.cluster.kubectl(*inside, "roles", *here, "-o", "json"))[0]
    assert (roles["leader"], roles["synchronous"]) == (2, [])
    table.scene.cluster.kubectl(
        *inside, "promote", *here, "--after", str(roles["table"]), "--synchronous", "1", "--token-file",
        "/etc/logherd-admin/token",
    )  # fmt: skip
