"""A group without controllers of its own (`controllers.ref`): `bills` is led by those of `till`."""

import json
from collections.abc import Iterator

import pytest

from e2e.cluster.kube import eventually
from e2e.orders import NAMESPACE, PODS
from e2e.scene import Scene
from e2e.small import QUEUES, SmallGroup

pytestmark = [pytest.mark.timeout(1800, func_only=True)]
_OWNER, _USER = "till", "bills"
_LEADER = f"{_USER}-leader.{NAMESPACE}.svc.cluster.local:10911"
_SLICE = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/{_USER}-leader"
_TOPIC, _COUNT = "invoices", 20


@pytest.fixture(scope="module")
def bills(scene: Scene) -> Iterator["Bills"]:
    """Both groups, each place with a volume. They are gone when the tests here are over."""
    for pod in (f"{_OWNER}-controller-0", f"{_OWNER}-broker-0", *(f"{_USER}-broker-{n}" for n in range(3))):
        scene.cluster.add_volume("node1", NAMESPACE, f"data-{pod}")
    scene.orders.settle()
    made = Bills(scene)
    try:
        made.till.apply(replicas=1)
        made.apply(replicas=3, controllers={"ref": {"name": _OWNER}})
        yield made
    finally:
        made.remove()
        made.till.remove()
        eventually(lambda: not made.pods() and not made.till.pods(), "their pods are gone", words=made.words)


class Bills(SmallGroup):
    """The group that uses another's controllers."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, _USER, _OWNER)
        self.till = SmallGroup(scene, _OWNER)

    def settle(self) -> str:
        """Wait until it is led, and routes name its Service, which leads to the leader; the pod that leads."""
        pod = super().settle()
        self.routes_name(_LEADER, _TOPIC)
        eventually(self._leads_to_leader, "the Service leads to the leader", seconds=600, words=self.words)
        eventually(lambda: self._count() is not None, "the leader answers", words=self.words)
        return pod

    def _leads_to_leader(self) -> bool:
        leader, ends = self.leader, self.scene.cluster.kube.get(_SLICE).get("endpoints") or ()
        pod = self.pods().get(leader, {})
        return bool(ends) and ends[0]["addresses"] == [pod.get("status", {}).get("podIP")]

    def stored(self) -> int:
        """As its leader says through its Service."""
        return int(eventually(self._count, "the leader says that something is stored", words=self.words))

    def _count(self) -> int:
        return self.scene.stored(_TOPIC, QUEUES, _USER)

    def words(self) -> str:
        """What there is to say when something did not happen."""
        return f"{self.till.words()}\n{json.dumps(self.status)}"


def test_a_group_is_led_by_another_groups_controllers_and_clients_use_its_service(bills: Bills) -> None:
    eventually(lambda: bills.leader, f"{_USER} is led", seconds=900, pause=0.5, words=bills.words)
    bills.make_topic(_TOPIC)
    bills.settle()
    bills.send("first", _TOPIC, _COUNT)
    assert bills.stored() >= _COUNT
    assert not [name for name in bills.pods() if "controller" in name]


def test_its_leaders_pod_is_deleted_and_it_goes_on(scene: Scene, bills: Bills) -> None:
    leader = bills.settle()
    epoch = int(bills.status["leader"]["epoch"])
    scene.cluster.kube.delete(f"{PODS}/{leader}")
    eventually(
        lambda: int((bills.status.get("leader") or {}).get("epoch") or 0) > epoch, "another epoch", seconds=600,
        words=bills.words,
    )  # fmt: skip
    bills.settle()
    bills.send("second", _TOPIC, _COUNT)
    assert bills.stored() >= 2 * _COUNT


def test_the_sidecar_of_those_controllers_touches_both_slices_and_nothing_else(scene: Scene, bills: Bills) -> None:
    del bills
    asked = scene.cluster.asked(f"system:serviceaccount:{NAMESPACE}:{_OWNER}-controller")
    assert {f"{each.verb} {each.what} {each.name}" for each in asked} == {
        f"{verb} endpointslices {group}-leader" for verb in ("get", "patch") for group in (_OWNER, _USER)
    }
    assert 403 not in {each.status for each in asked}


def test_the_group_with_the_controllers_is_deleted_and_made_again_and_nothing_is_lost(bills: Bills) -> None:
    bills.settle()
    before = bills.uids()
    bills.till.remove()
    eventually(lambda: not bills.till.pods(), "its pods are gone", seconds=600, words=bills.words)
    eventually(
        lambda: "QuorumUnreachable" in json.dumps(bills.status), "the operator says that no controller answers",
        words=bills.words,
    )  # fmt: skip
    bills.till.apply(replicas=1)
    bills.settle()
    bills.send("third", _TOPIC, _COUNT)
    assert bills.stored() >= 3 * _COUNT
    assert bills.uids() == before, "no broker was restarted for it"
