"""From nothing to messages: what a user installs and applies, what the objects look like, a stock client in a pod."""

import json

import pytest

from compat.driver import message
from e2e.cluster.kube import eventually
from e2e.orders import LEADER, NAMES, NAMESPACE
from e2e.scene import Scene

pytestmark = [pytest.mark.timeout(900, func_only=True)]


def test_a_stock_client_in_a_pod_sends_and_receives_through_the_leaders_service(scene: Scene) -> None:
    driver, topic = scene.driver, "greetings"
    driver.call("producer.start", name="p", group="greeters", nameServer=NAMES)
    try:
        sent = driver.call(
            "producer.send", name="p", topic=topic, mode="sync", messages=[message(f"hello {n}") for n in range(20)]
        )
    finally:
        driver.call("producer.stop", name="p")
    assert {answer["status"] for answer in sent} == {"SEND_OK"}
    driver.call("consumer.push", name="c", topic=topic, nameServer=NAMES, group="hearers")
    try:
        seen = driver.call("consumer.received", name="c", count=20, timeoutMs=50_000)
    finally:
        driver.call("consumer.stop", name="c")
    assert len(seen) == 20
    eventually(lambda: scene.routed() == LEADER, f"routes name {LEADER}", words=scene.orders.words)


def test_the_leader_renews_its_lease_from_its_pods_address(scene: Scene) -> None:
    leader = scene.orders.leader()
    page = eventually(scene.orders.page, "a page of the group", words=scene.orders.words)
    address = scene.orders.pods("broker")[leader]["status"]["podIP"]
    assert page["leader"]["renewedFrom"] == address
    assert scene.orders.endpoint == address


def test_no_pod_with_data_has_a_token_of_the_api_server(scene: Scene) -> None:
    for pod in (*scene.orders.pods("broker").values(), *scene.orders.pods("controller").values()):
        for container in pod["spec"]["containers"]:
            mounted = {each["mountPath"] for each in container["volumeMounts"]}
            has_token = "/var/run/secrets/kubernetes.io/serviceaccount" in mounted
            assert has_token == (container["name"] == "leader-endpoint"), (pod["metadata"]["name"], container["name"])


def test_no_object_carries_a_finalizer_or_notes_of_a_framework(scene: Scene) -> None:
    found = scene.cluster.kubectl(
        "-n", NAMESPACE, "get", "brokergroups,statefulsets,services,configmaps,pods", "-o", "json"
    )
    for each in json.loads(found)["items"]:
        assert not each["metadata"].get("finalizers"), each["metadata"]["name"]
        assert not any("kopf" in note for note in each["metadata"].get("annotations", {})), each["metadata"]["name"]
