"""An object that the API server refuses: it is told, and what does not rest on it goes on."""

from dataclasses import replace
from typing import Any

import pytest

from k8s.driving import OPTIONS, Drive
from k8s.kubelet import NAME, NAMESPACE
from logherd_operator.clients.errors import OwnFault
from logherd_operator.handlers.objects import Refresh

SPEC: dict[str, Any] = {"replicas": 3, "image": "logherd:good-1"}
BROKERS = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{NAME}-broker"
CONTROLLERS = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{NAME}-controller"
BUDGET = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{NAME}-broker"
CONFIG = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}-broker-config"


async def founded(**fields: Any) -> Drive:
    drive = Drive.of({**SPEC, **fields})
    await drive.settle()
    drive.api.journal.clear()
    return drive


def uids(drive: Drive) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in drive.api.of_kind("pods")}


def stuck(drive: Drive) -> list[str]:
    pods = drive.api.of_kind("pods")
    return [each["metadata"]["name"] for each in pods if each["status"]["containerStatuses"]]


AWAY = 'Internal error occurred: failed calling webhook "rules.example.com": failed to call webhook: '


@pytest.mark.parametrize(("status", "because"), [(422, ""), (500, AWAY), (500, "")])
async def test_an_ordered_hand_over_is_done_while_the_stateful_set_is_refused_and_nobody_is_restarted(
    status: int, because: str
) -> None:
    drive = await founded()
    drive.api.faults.because = because
    drive.api.faults.refuse = {f"statefulsets/{NAME}-broker": status}
    before = uids(drive)
    drive.set_spec({**SPEC, "image": "logherd:good-2"}, switchover="2@1")
    await drive.steps(120)
    assert drive.status["leader"]["brokerId"] == 2
    assert uids(drive) == before
    (block,) = drive.status["blocked"]
    assert block["code"] == "ObjectRefused"
    assert f"the StatefulSet {NAME}-broker: " in block["message"]
    assert f"{status}: {because}refused: statefulsets/{NAME}-broker" in block["message"]
    drive.api.faults.refuse = {}
    await drive.settle()
    assert (drive.status["blocked"], drive.status["updatedReplicas"], drive.status["phase"]) == ([], 3, "Running")


@pytest.mark.parametrize("word", ["configmaps", "services/", f"statefulsets/{NAME}-controller"])
async def test_a_stuck_pod_is_replaced_while_another_object_is_refused(word: str) -> None:
    drive = await founded()
    drive.set_spec({**SPEC, "image": "logherd:bad-1"})
    await drive.steps(120)
    assert stuck(drive)
    drive.set_spec(SPEC)
    for _ in range(2):
        await drive.look()  # each sets one StatefulSet right
    assert stuck(drive)
    drive.api.faults.refuse = {word: 403}
    drive.kubelet.tick(2.0)
    drive.begin()
    await drive.steps(300)
    assert stuck(drive) == []
    assert drive.condition("Degraded")["reason"] == "ObjectRefused"


async def test_what_starts_from_a_file_that_is_refused_is_not_changed() -> None:
    """A pod that goes comes back as it was, from the file as it was."""
    drive = await founded()
    drive.api.faults.refuse = {CONFIG: 422}
    template = (drive.api.find(BROKERS) or {})["spec"]["template"]
    before = uids(drive)
    drive.set_spec({**SPEC, "config": {"mappedFileSizeCommitLog": "1048576"}})
    await drive.steps(120)
    assert ((drive.api.find(BROKERS) or {})["spec"]["template"], uids(drive)) == (template, before)
    drive.api.faults.refuse = {}
    await drive.settle()
    assert (drive.api.find(BROKERS) or {})["spec"]["template"] != template
    assert drive.status["updatedReplicas"] == 3


async def test_what_was_refused_is_in_the_way_also_of_a_look_in_which_no_controller_answers() -> None:
    """Then it is not tried again, and holds back what starts from it as before."""
    drive = await founded()
    drive.api.faults.refuse = {CONFIG: 422}
    template = (drive.api.find(BROKERS) or {})["spec"]["template"]
    drive.set_spec({**SPEC, "config": {"mappedFileSizeCommitLog": "1048576"}})
    await drive.steps(4)
    assert "ObjectRefused" in [each["code"] for each in drive.status["blocked"]]
    drive.kubelet.silent |= {f"{NAME}-controller-{n}" for n in range(3)}
    await drive.steps(60)
    assert (drive.api.find(BROKERS) or {})["spec"]["template"] == template
    assert "ObjectRefused" in [each["code"] for each in drive.status["blocked"]]


async def test_what_starts_from_a_file_at_which_the_api_server_fails_is_not_changed_and_the_others_are_kept() -> None:
    drive = await founded()
    drive.api.faults.refuse = {CONFIG: 500}
    template = (drive.api.find(BROKERS) or {})["spec"]["template"]
    drive.api.drop(BUDGET)
    drive.begin()
    drive.set_spec({**SPEC, "config": {"mappedFileSizeCommitLog": "1048576"}})
    await drive.steps(30)
    assert ((drive.api.find(BROKERS) or {})["spec"]["template"], drive.api.find(BUDGET) is None) == (template, False)
    assert f"fails at the ConfigMap {NAME}-broker-config: " in drive.condition("Degraded")["message"]
    assert drive.condition("Available")["status"] == "True"
    drive.api.faults.refuse = {}
    await drive.settle()
    assert (drive.status["blocked"], drive.status["updatedReplicas"]) == ([], 3)


async def test_a_fault_of_the_api_server_that_passes_is_not_told_and_the_look_is_soon_repeated() -> None:
    drive = await founded()
    drive.set_spec({**SPEC, "disruption": {"budget": False}})
    drive.api.faults.refuse = {BUDGET: 500}
    assert await drive.reconciler.reconcile(drive.key) == 1.0
    drive.api.faults.refuse = {}
    await drive.settle()
    assert drive.api.find(BUDGET) is None
    assert "ObjectRefused" not in {each["reason"] for each in drive.api.of_kind("events")}


async def test_what_failed_once_keeps_no_look_without_controllers_from_being_told() -> None:
    drive = await founded()
    drive.api.faults.refuse = {CONFIG: 500}
    drive.set_spec({**SPEC, "config": {"mappedFileSizeCommitLog": "1048576"}})
    assert await drive.reconciler.reconcile(drive.key) == 1.0
    drive.kubelet.silent |= {f"{NAME}-controller-{n}" for n in range(3)}
    await drive.steps(10)
    assert drive.condition("Degraded")["reason"] == "QuorumUnreachable"


async def test_an_api_server_that_can_do_nothing_now_is_asked_for_nothing_more_in_that_look() -> None:
    drive = await founded()
    drive.api.faults.refuse = {"": 503}
    drive.begin()
    drive.api.seen.clear()
    with pytest.raises(OwnFault):
        await drive.reconciler.reconcile(drive.key)
    assert sum(count for (_, _, verb), count in drive.api.seen.items() if verb != "get") == 1


async def test_an_action_at_which_the_api_server_fails_is_told() -> None:
    drive = await founded()
    drive.set_spec({**SPEC, "image": "logherd:bad-1"})
    await drive.steps(120)
    drive.api.faults.refuse = {f"pods/{stuck(drive)[0]}": 500}
    drive.set_spec(SPEC)
    await drive.steps(30)
    said = [each for each in drive.api.of_kind("events") if each["reason"] == "RestartRefused"]
    assert "500: refused" in said[0]["note"]
    drive.api.faults.refuse = {}
    await drive.settle()
    assert (stuck(drive), drive.status["phase"]) == ([], "Running")


async def test_what_starts_from_a_file_that_nobody_can_tell_is_not_changed() -> None:
    """Without the controllers: a pod that goes comes back as it was. Their own pods may be what has to be set right."""
    drive = await founded()
    drive.kubelet.silent |= {f"{NAME}-controller-{n}" for n in range(3)}
    template, controllers = ((drive.api.find(path) or {})["spec"]["template"] for path in (BROKERS, CONTROLLERS))
    config = (drive.api.find(CONFIG) or {})["data"]
    spec = {**SPEC, "image": "logherd:good-2", "config": {"mappedFileSizeCommitLog": "1048576"}}
    drive.set_spec(spec)
    await drive.steps(60)
    assert (drive.api.find(CONFIG) or {})["data"] == config
    assert (drive.api.find(BROKERS) or {})["spec"]["template"] == template
    assert (drive.api.find(CONTROLLERS) or {})["spec"]["template"] != controllers
    applied = drive.condition("ConfigApplied")
    assert (applied["status"], applied["reason"]) == ("Unknown", "QuorumUnreachable")
    assert drive.status["updatedReplicas"] == 0
    assert applied["message"] == (
        f"not changed before a controller answers: ConfigMap {NAME}-broker-config, StatefulSet {NAME}-broker"
    )
    drive.kubelet.silent.clear()
    await drive.settle()
    assert (drive.api.find(BROKERS) or {})["spec"]["template"] != template
    assert drive.status["updatedReplicas"] == 3
    assert drive.condition("ConfigApplied")["reason"] == "Applied"


async def test_what_is_as_it_was_applied_is_not_said_to_wait_for_a_controller() -> None:
    """Who begins as a learner is as it was told last: nothing else is known, and nothing was changed."""
    drive = await founded()
    drive.kubelet.silent |= {f"{NAME}-controller-{n}" for n in range(3)}
    await drive.steps(60)
    applied = drive.condition("ConfigApplied")
    assert (applied["status"], applied["reason"]) == ("True", "Applied")
    drive.set_spec({**SPEC, "config": {"mappedFileSizeCommitLog": "1048576"}})
    await drive.steps(10)
    assert f"ConfigMap {NAME}-broker-config" in drive.condition("ConfigApplied")["message"]
    drive.set_spec(SPEC)
    await drive.steps(10)
    assert drive.condition("ConfigApplied")["reason"] == "Applied"


async def test_files_are_kept_also_while_nobody_keeps_the_pods_that_start_from_them() -> None:
    """As when somebody has deleted the StatefulSet without its pods, and the operator begins anew."""
    drive = await founded()
    pods, config = uids(drive), (drive.api.find(CONFIG) or {})["data"]
    drive.kubelet.silent |= {f"{NAME}-controller-{n}" for n in range(3)}
    drive.api.drop(BROKERS)
    drive.begin()
    drive.set_spec({**SPEC, "config": {"mappedFileSizeCommitLog": "1048576"}})
    await drive.steps(60)
    assert (drive.api.find(CONFIG) or {})["data"] == config
    assert (drive.api.find(BROKERS), uids(drive)) == (None, pods)
    assert drive.condition("ConfigApplied")["status"] == "False"
    drive.kubelet.silent.clear()
    await drive.settle()
    assert (drive.api.find(CONFIG) or {})["data"] != config
    assert (drive.status["updatedReplicas"], drive.status["phase"]) == (3, "Running")


async def test_what_others_change_in_a_stateful_set_is_set_right_also_while_no_controller_answers() -> None:
    drive = await founded()
    before = drive.api.find(BROKERS) or {}
    drive.kubelet.silent |= {f"{NAME}-controller-{n}" for n in range(3)}
    drive.api.put(BROKERS, {**before, "spec": {**before["spec"], "serviceName": "theirs"}})
    await drive.steps(30)
    assert (drive.api.find(BROKERS) or {})["spec"] == before["spec"]


async def test_a_group_is_not_made_while_an_object_is_refused_that_it_needs() -> None:
    drive = Drive.of(SPEC)
    drive.api.faults.refuse = {"serviceaccounts": 403}
    await drive.steps(60)
    assert drive.api.of_kind("statefulsets") == []
    assert f"the ServiceAccount {NAME}-controller: " in drive.status["blocked"][0]["message"]
    drive.api.faults.refuse = {}
    await drive.settle()
    assert drive.status["phase"] == "Running"


async def test_what_was_refused_is_tried_again_now_and_then_and_when_the_spec_changes() -> None:
    drive = await founded()
    drive.api.faults.refuse = {BUDGET: 403}
    drive.api.drop(BUDGET)
    drive.begin()
    await drive.look()
    drive.api.seen.clear()
    await drive.steps(100)
    assert drive.api.seen["policy", "poddisruptionbudgets", "patch"] == 3
    drive.set_spec({**SPEC, "disruption": {"budget": False}})
    await drive.steps(5)
    assert (drive.status["blocked"], drive.condition("Degraded")["status"]) == ([], "False")


async def test_what_is_refused_stays_so_while_few_objects_may_be_applied_again() -> None:
    """Each try is one more of those, of which all groups together have only so many."""
    drive = await founded()
    drive.options = replace(OPTIONS, refresh=Refresh(every=100.0, apart=1000.0, at_once=20))
    drive.begin()
    await drive.settle()
    drive.api.faults.refuse = {CONFIG: 403}
    drive.kubelet.tick(200.0)
    told = []
    for _ in range(90):
        await drive.steps(2)
        told.append(drive.condition("Degraded")["reason"])
    first = told.index("ObjectRefused")
    assert set(told[first:]) == {"ObjectRefused"}


async def test_a_claim_that_is_refused_is_named() -> None:
    drive = await founded()
    drive.api.faults.refuse = {"persistentvolumeclaims": 422}
    drive.set_spec({**SPEC, "storage": {"retention": {"whenDeleted": "Delete"}}})
    await drive.steps(10)
    assert f"the PersistentVolumeClaim data-{NAME}-broker-2: " in drive.condition("Degraded")["message"]
    assert drive.condition("Available")["status"] == "True"


async def test_what_else_the_group_needs_is_kept_while_one_object_is_refused() -> None:
    drive = await founded()
    drive.api.faults.refuse = {CONFIG: 422}
    drive.api.drop(BUDGET)
    drive.begin()
    await drive.steps(30)
    assert drive.api.find(BUDGET) is not None
    assert f"the ConfigMap {NAME}-broker-config: " in drive.condition("Degraded")["message"]
