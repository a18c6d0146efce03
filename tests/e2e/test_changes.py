"""What is asked for: another image, a wrong one, more brokers, fewer, other settings. Under load no send may fail, but
for those that were on their way while the whole machine stood still (`cluster/pulse.py`).
"""

import time

import pytest

from e2e.cluster.kube import eventually
from e2e.orders import GROUP
from e2e.scene import BAD, SECOND, Scene

pytestmark = [pytest.mark.timeout(2400, func_only=True)]


def test_an_image_rolls_leader_last(scene: Scene) -> None:
    orders = scene.orders
    orders.settle()
    epoch = orders.epoch
    with scene.during("image rolled", seconds=900) as row:
        orders.change(image=SECOND)
        eventually(lambda: _runs(scene, SECOND), "all pods run the new image", seconds=900, words=orders.words)
    assert row[0].blamed == ()
    assert orders.epoch == epoch + 1 or row[0].still, "one switchover"


def test_a_bad_image_hurts_one_pod_and_reverting_heals(scene: Scene) -> None:
    orders = scene.orders
    orders.settle()
    before = _uids(scene)
    good = orders.pods("broker")[f"{GROUP}-broker-0"]["spec"]["containers"][0]["image"]
    with scene.during("bad image, reverted", seconds=900) as row:
        orders.change(image=BAD)
        eventually(lambda: _bad_pods(scene), "one pod is tried", seconds=900, words=orders.words)
        time.sleep(20)  # time in which a second one could follow
        touched = {name for name, uid in _uids(scene).items() if uid != before[name]}
        orders.change(image=good)
        eventually(lambda: _runs(scene, good), "all pods run the good image", seconds=900, words=orders.words)
    assert row[0].blamed == ()
    assert len(touched) == 1, touched


def test_brokers_come_and_go(scene: Scene) -> None:
    orders = scene.orders
    with scene.during("scaled from 3 to 5", seconds=900) as row:
        orders.brokers = 5
        orders.change(replicas=5)
    assert row[0].blamed == ()
    with scene.during("scaled from 5 to 3", seconds=900) as row:
        orders.brokers = 3
        orders.change(replicas=3)
    assert row[0].blamed == ()


def test_a_setting_that_running_brokers_take_restarts_none(scene: Scene) -> None:
    orders = scene.orders
    orders.settle()
    before = {name: pod["metadata"]["uid"] for name, pod in orders.pods("broker").items()}
    with scene.during("setting changed, hot") as row:
        orders.change(config={"fileReservedTime": "48"})
    assert {name: pod["metadata"]["uid"] for name, pod in orders.pods("broker").items()} == before
    assert row[0].blamed == ()


def test_a_setting_that_needs_a_restart_rolls(scene: Scene) -> None:
    orders = scene.orders
    orders.settle()
    before = {name: pod["metadata"]["uid"] for name, pod in orders.pods("broker").items()}
    with scene.during("setting changed, rolled", seconds=900) as row:
        orders.change(config={"maxMessageSize": "3145728"})
        eventually(lambda: _all_replaced(scene, before), "all pods are new", seconds=900, words=orders.words)
    assert row[0].blamed == ()


def _uids(scene: Scene) -> dict[str, str]:
    return {
        name: pod["metadata"]["uid"]
        for component in ("broker", "controller") for name, pod in scene.orders.pods(component).items()
    }  # fmt: skip


def _runs(scene: Scene, image: str) -> bool:
    pods = (*scene.orders.pods("broker").values(), *scene.orders.pods("controller").values())
    return {pod["spec"]["containers"][0]["image"] for pod in pods} == {image}


def _bad_pods(scene: Scene) -> bool:
    return BAD in {
        pod["spec"]["containers"][0]["image"]
        for component in ("broker", "controller") for pod in scene.orders.pods(component).values()
    }  # fmt: skip


def _all_replaced(scene: Scene, before: dict[str, str]) -> bool:
    now = {name: pod["metadata"]["uid"] for name, pod in scene.orders.pods("broker").items()}
    return now.keys() == before.keys() and not (now.items() & before.items())
