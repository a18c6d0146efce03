"""What is lost without being asked for: processes, pods, volumes, the operator, the API server, a node.

A stock producer sends 200 messages a second all the time. That none is lost is judged when all tests are over. Where no
send may fail, those do not count that were on their way while the whole machine stood still (`cluster/pulse.py`), nor
those that the client, by its own log, left waiting on a connection that had ended (`checkers/client_log.py`).
"""

import os
import time
from collections.abc import Callable

import pytest

from e2e.cluster.kube import eventually
from e2e.orders import GROUP, LEADER, NAMESPACE
from e2e.scene import TOPIC, Scene

pytestmark = [pytest.mark.timeout(1500, func_only=True)]
_LEASE_SECONDS = 3
_OUTAGE_MAX = 60
"""Seconds. How long it takes where there are processors is in the table; this is for machines with none to spare."""
_AWAY_SECONDS = int(os.environ.get("LOGHERD_OPERATOR_AWAY", "60"))
"""How long no operator runs; `make e2e` takes AWAY for it."""


def test_the_leaders_process_dies_and_no_send_fails(scene: Scene) -> None:
    orders = scene.orders
    with scene.during("process of the leader killed") as row:
        epoch = orders.epoch
        orders.kill_process(orders.leader())
        orders.wait_for_epoch(epoch)
    assert row[0].blamed == ()


def test_the_leaders_process_is_paused_until_its_guardian_ends_it(scene: Scene) -> None:
    orders = scene.orders
    with scene.during("process of the leader paused") as row:
        epoch = orders.epoch
        orders.pause_process(orders.leader())
        orders.wait_for_epoch(epoch)
    assert row[0].gap < _OUTAGE_MAX + row[0].still


def test_the_leaders_pod_is_deleted_and_no_send_fails(scene: Scene) -> None:
    orders = scene.orders
    with scene.during("pod of the leader deleted") as row:
        epoch = orders.epoch
        orders.delete_pod(orders.leader())
        orders.wait_for_epoch(epoch)
    assert row[0].blamed == ()


def test_the_leaders_pod_is_deleted_without_grace(scene: Scene) -> None:
    orders = scene.orders
    with scene.during("pod of the leader deleted without grace") as row:
        epoch = orders.epoch
        orders.delete_pod(orders.leader(), grace=0)
        orders.wait_for_epoch(epoch)
    assert row[0].gap < _OUTAGE_MAX + row[0].still


@pytest.mark.timeout(2000 + _AWAY_SECONDS, func_only=True)
def test_the_group_fails_over_while_no_operator_runs(scene: Scene) -> None:
    orders = scene.orders
    with scene.during(f"no operator for {_AWAY_SECONDS} s; three failovers") as row:
        orders.scale_operator(0)
        gone = time.monotonic()
        try:
            _fail_over(scene, orders.kill_process)
            _fail_over(scene, orders.delete_pod)
            while time.monotonic() < gone + _AWAY_SECONDS:
                scene.producer.wait_for(200, since=time.time())
            _fail_over(scene, orders.kill_process)
        finally:
            orders.scale_operator(1)
    assert row[0].gap < _OUTAGE_MAX + row[0].still


def _fail_over(scene: Scene, hurt: Callable[[str], None]) -> None:
    orders = scene.orders
    epoch = orders.epoch
    hurt(orders.leader())
    orders.wait_for_epoch(epoch)
    eventually(lambda: _leads_to_leader(scene), "the Service leads to the new leader", words=orders.words)
    eventually(lambda: _all_in_sync(scene), "all are in sync", words=orders.words)


def test_the_group_fails_over_while_no_api_server_runs(scene: Scene) -> None:
    orders = scene.orders
    leader = orders.leader()
    pid = orders.process(leader)
    with scene.during("no API server; process of the leader") as row:
        epoch = orders.epoch
        scene.cluster.stop_api()
        try:
            orders.kill(pid)
            orders.wait_for_epoch(epoch)
            own = f"{orders.leader()}.{GROUP}-brokers.{NAMESPACE}.svc.cluster.local:10911"
            eventually(lambda: scene.routed() == own, f"routes name {own}", words=lambda: f"they name {scene.routed()}")
            scene.producer.wait_for(400, since=time.time())
        finally:
            scene.cluster.start_api()
    assert row[0].blamed == ()
    eventually(lambda: scene.routed() == LEADER, f"routes name {LEADER}", words=lambda: f"they name {scene.routed()}")


def test_the_leaders_endpoint_is_emptied_and_deleted_and_stands_again(scene: Scene) -> None:
    """Connections that stand go on. Its sidecar reads it again in ten seconds, and the operator makes what is gone."""
    orders = scene.orders
    orders.settle()
    uid = orders.slice["metadata"]["uid"]
    with scene.during("endpoint of the leader emptied, then deleted") as row:
        orders.empty_slice()
        eventually(lambda: _leads_to_leader(scene), "the emptied one leads to the leader", words=orders.words)
        orders.delete_slice()
        eventually(lambda: orders.slice["metadata"]["uid"] != uid, "another one is made", words=orders.words)
        eventually(lambda: _leads_to_leader(scene), "it leads to the leader", words=orders.words)
        eventually(lambda: scene.stored(TOPIC, 1), "who connects now reaches the leader", words=orders.words)
    assert row[0].blamed == ()


def test_a_followers_volume_is_lost_and_filled_again(scene: Scene) -> None:
    orders = scene.orders
    follower = next(name for name in orders.pods("broker") if name != orders.leader())
    scene.cluster.add_volume(orders.node(follower), NAMESPACE, f"data-{follower}")
    with scene.during("volume of a follower lost", seconds=900) as row:
        orders.lose_volume(follower)
    assert row[0].blamed == ()


@pytest.mark.parametrize("grace", [None, 0], ids=["with grace", "without grace"])
def test_a_controller_is_lost(scene: Scene, grace: int | None) -> None:
    orders = scene.orders
    orders.settle()
    pod = orders.leading_controller()
    uid = orders.pods("controller")[pod]["metadata"]["uid"]
    with scene.during(f"leading controller deleted, {'its grace' if grace is None else 'no grace'}") as row:
        orders.delete_pod(pod, grace=grace)
        eventually(lambda: orders.leading_controller() not in ("", pod), "another controller leads", words=orders.words)
        eventually(lambda: (orders.pod(pod) or {}).get("metadata", {}).get("uid") not in (None, uid), "a new pod")
    assert row[0].blamed == ()


def test_the_leaders_node_is_drained(scene: Scene) -> None:
    """Its volumes are that node's, so its pods wait until it takes pods again."""
    cluster = scene.cluster
    there = _lead_on_second_node(scene)
    with scene.during("node of the leader drained", seconds=900) as row:
        epoch = scene.orders.epoch
        try:
            cluster.kubectl("drain", "node2", "--delete-emptydir-data", "--timeout=300s", seconds=360)
            scene.orders.wait_for_epoch(epoch)
            scene.producer.wait_for(400, since=time.time())
            assert not scene.orders.is_ready(there)
        finally:
            cluster.kubectl("uncordon", "node2")
    assert row[0].blamed == ()


def test_a_node_is_lost_with_the_leader_on_it(scene: Scene) -> None:
    """Not the API server's word about the node is waited for: it takes it for dead after 40 seconds or more."""
    orders, cluster = scene.orders, scene.cluster
    _lead_on_second_node(scene)
    with scene.during("node of the leader cut off", seconds=900) as row:
        epoch, begin = orders.epoch, time.time()
        cluster.cut()
        try:
            orders.wait_for_epoch(epoch)
            scene.producer.wait_for(400, since=time.time())
            resumed = min(send.returned for send in scene.producer.sends if send.ok and send.invoked > begin + 1)
            assert cluster.node_ready("node2") or resumed < begin + 40
        finally:
            cluster.join()
    assert resumed - begin < _LEASE_SECONDS + 5 + scene.pulse.still(begin, resumed), row[0]


def _lead_on_second_node(scene: Scene) -> str:
    """Order a switchover if need be; the pod that leads."""
    orders = scene.orders
    orders.settle()
    there = next(name for name in orders.pods("broker") if orders.node(name) == "node2")
    if orders.leader() != there:
        scene.cluster.kubectl(
            "-n", NAMESPACE, "annotate", "brokergroup", GROUP, "--overwrite",
            f"logherd.dev/switchover={int(there.rsplit('-', 1)[1]) + 1}@{orders.epoch}",
        )  # fmt: skip
        eventually(lambda: orders.leader() == there, f"{there} leads", words=orders.words)
    return there


def _leads_to_leader(scene: Scene) -> bool:
    leader = scene.orders.leader()
    return scene.orders.endpoint == scene.orders.pods("broker")[leader]["status"].get("podIP")


def _all_in_sync(scene: Scene) -> bool:
    page = scene.orders.page()
    return page is not None and len(page["inSync"]) == scene.orders.brokers
