"""The rest of a cluster around one group: StatefulSets get their pods and claims, pods get ready, and the controllers
and brokers in them answer at their admin ports, all as the planner's own world has it (`unit.operator_plan.world`).
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from k8s.api_server import ApiServer, stamp
from logherd_operator.clients.api import Reply
from logherd_operator.plan import actions as act
from logherd_operator.spec.effects import CONFIG_LIVE, MEMBERS
from logherd_operator.spec.group import BrokerGroupSpec
from logherd_operator.spec.machine import quantity_value
from unit.operator_plan.world import Disk, Pod, World

__all__ = ["NAME", "NAMESPACE", "Kubelet", "Pods"]

Document = dict[str, Any]
NAMESPACE, NAME = "shop", "orders"


class Pods(World):
    """The planner's world, but pods come from what the StatefulSets say."""

    wanted: dict[str, str]
    files: dict[str, str]

    @property
    def revision(self) -> str:
        return self.wanted["broker"]

    @property
    def wanted_hot(self) -> dict[str, str]:
        return dict(self.files)

    @property
    def from_file(self) -> dict[str, str]:
        return dict(self.files)


def _sets(name: str) -> str:
    return f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{name}"


@dataclass
class Kubelet:
    """One group's pods. `told` counts orders that arrived at admin ports; `asked` questions."""

    api: ApiServer
    world: Pods
    name: str = NAME
    told: list[tuple[str, str]] = field(default_factory=list)
    asked: int = 0
    silent: set[str] = field(default_factory=set)

    @staticmethod
    def make(spec: Mapping[str, Any], name: str = NAME, api: ApiServer | None = None) -> "Kubelet":
        world = Pods(random=Random(1), spec=BrokerGroupSpec.model_validate(spec))
        world.wanted, world.files = {"broker": "", "controller": ""}, {}
        api = api or ApiServer(clock=lambda: world.now)
        kubelet = Kubelet(api=api, world=world, name=name)
        api.deleting = kubelet.delete
        return kubelet

    # ---- StatefulSets, pods, claims ----

    def tick(self, seconds: float) -> None:
        """Let time pass, a second at a time."""
        for _ in range(int(seconds)):
            self._read()
            self.world.tick(1.0)
        self._write()

    def _read(self) -> None:
        world, brokers = self.world, self._workload("broker")
        world.count = None if brokers is None else int(brokers["spec"]["replicas"])
        if brokers is not None:
            claim = brokers["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]
            world.claim = int(quantity_value(claim))
            for ordinal, pod in world.pods.items():
                if ordinal >= (world.count or 0):
                    world._stop(pod)
        controllers = self._workload("controller")
        if controllers is not None and not world.controllers:
            world.controllers = {n: world._pod() for n in range(int(controllers["spec"]["replicas"]))}
        config = self.api.find(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{self.name}-broker-config")
        if config is not None and "data" in config:
            world.files = hot_of(json.loads(config["data"][f"{self.name}-broker-0.json"]))

    def _workload(self, component: str) -> Document | None:
        path = _sets(f"{self.name}-{component}")
        found = self.api.find(path)
        if found is None:
            return None
        text = json.dumps(found["spec"]["template"], sort_keys=True)
        image = found["spec"]["template"]["spec"]["containers"][0]["image"]
        mark = "bad" if "bad" in image else "rev"
        self.world.wanted[component] = f"{mark}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        status = {
            "observedGeneration": found["metadata"]["generation"], "updateRevision": self.world.wanted[component],
        }  # fmt: skip
        if found.get("status") != status:
            self.api.put(path, {**found, "metadata": {**found["metadata"]}, "status": status})
        return self.api.find(path)

    def _write(self) -> None:
        for component, pods in (("broker", self.world.pods), ("controller", self.world.controllers)):
            present = {f"{self.name}-{component}-{n}" for n in pods}
            for n in range(8):
                name = f"{self.name}-{component}-{n}"
                each = self.api.find(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
                if each is not None and (name not in present or each["metadata"]["uid"] != pods[n].uid):
                    self.api.drop(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
            for n, pod in pods.items():
                self._write_pod(component, n, pod)
        for n, disk in self.world.disks.items():
            self._write_claim(n, disk)
        for n in self.world.controllers:
            self._claim(f"data-{self.name}-controller-{n}", "controller", 5 << 30, f"controller-disk-{n}")

    def _labels(self, component: str) -> dict[str, str]:
        return {
            "app.kubernetes.io/name": "logherd", "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/component": component, "app.kubernetes.io/managed-by": "logherd-operator",
        }  # fmt: skip

    def _write_pod(self, component: str, n: int, pod: Pod) -> None:
        name, world = f"{self.name}-{component}-{n}", self.world
        if component == "controller" and pod.revision != world.wanted["controller"]:
            known = self.api.find(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
            if known is None:  # a fresh one: made from its own StatefulSet
                pod.revision = world.wanted["controller"]
        instance = world._instance(pod)
        assert instance is not None
        waiting = [{"name": component, "state": {"waiting": {"reason": instance.failing}}}] if instance.failing else []
        conditions = [{"type": "Ready", "status": str(instance.ready)}]
        if instance.unschedulable:
            conditions.append({
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": instance.unschedulable,
            })  # fmt: skip
        metadata: Document = {
            "name": name, "namespace": NAMESPACE, "uid": pod.uid, "creationTimestamp": stamp(pod.started_at),
            "labels": {**self._labels(component), "controller-revision-hash": pod.revision},
        }  # fmt: skip
        if pod.leaves_at is not None:
            metadata["deletionTimestamp"] = stamp(pod.leaves_at)
        self._put(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}", {
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": f"node-{n}"},
            "status": {"phase": "Running", "conditions": conditions, "containerStatuses": waiting},
        })  # fmt: skip

    def _put(self, path: str, document: Document) -> None:
        before = self.api.find(path)
        if before is not None:
            document = {**before, **document, "metadata": {**before["metadata"], **document["metadata"]}}
        self.api.put(path, document)

    def _write_claim(self, n: int, disk: Disk) -> None:
        name = f"data-{self.name}-broker-{n}"
        self._claim(name, "broker", disk.size, disk.uid, lost=disk.lost)
        found = self.api.find(f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims/{name}")
        if found is not None:
            disk.size = int(quantity_value(found["spec"]["resources"]["requests"]["storage"]))

    def _claim(self, name: str, component: str, size: int, uid: str, *, lost: bool = False) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims/{name}"
        before = self.api.find(path)
        if before is not None and before["metadata"]["uid"] != uid:
            self.api.drop(path)
            before = None
        asked = before["spec"]["resources"]["requests"]["storage"] if before is not None else str(size)
        status: Document = {"phase": "Lost" if lost else "Bound", "capacity": {"storage": asked}, "conditions": []}
        document: Document = {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": status,
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": uid, "labels": self._labels(component)},
            "spec": {"resources": {"requests": {"storage": asked}}},
        }  # fmt: skip
        self._put(path, document)

    def delete(self, path: str, found: Document) -> bool:
        """How the API server lets things go: pods take their grace, claims go with their pods."""
        kind, name = path.split("/")[-2:]
        component, _, number = name.removeprefix(f"{self.name}-").rpartition("-")
        if kind == "pods" and number.isdigit():
            pod = (self.world.controllers if component == "controller" else self.world.pods).get(int(number))
            if pod is not None and pod.uid == found["metadata"]["uid"]:
                self.world._stop(pod)
                self._write_pod(component, int(number), pod)
            return True
        if kind == "persistentvolumeclaims" and name.startswith(f"data-{self.name}-broker-"):
            n = int(name.rpartition("-")[2])
            if n in self.world.pods:
                self.world.faults.append(f"{name} was deleted under a pod")
            self.world.disks.pop(n, None)
        return False

    # ---- admin ports ----

    async def ask(self, host: str, path: str) -> Reply | None:
        self.asked += 1
        pod = host.partition(".")[0]
        component, _, number = pod.removeprefix(f"{self.name}-").rpartition("-")
        if pod in self.silent:
            return None
        if component == "broker":
            return self._roles(int(number)) if path == "/replica/roles" else self._broker_page(int(number))
        return self._controller_page(int(number), path)

    def _broker_page(self, n: int) -> Reply | None:
        slot = self.world._slot(n) if n in self.world.pods else None
        if slot is None or slot.report is None:
            return None
        report, group = slot.report, self.world.group
        leads = group is not None and group.leader == n + 1
        leads_itself = not self.world.spec.by_controllers
        voting = {"replication": self._replication(n, leads=leads)} if leads_itself else {}
        return Reply(200, {
            **voting,
            "brokerId": n + 1, "role": "leader" if leads else "follower", "epoch": report.epoch, "endPosition": 1,
            "committedPosition": 1, "storeId": report.store_id, "version": "1.2.3", "hot": dict(report.hot),
        })  # fmt: skip

    def _replication(self, n: int, *, leads: bool) -> Document:
        """As a broker in mode raft or static sees its group."""
        world = self.world
        group = world._group_page() if world.group is not None and world.group.founded else None
        replicas = group.replicas if group is not None else ()
        least = 0 if group is None else group.rules.min_in_sync if world.voting else world.spec.replicas
        members = [each.broker_id for each in replicas if not each.learner]
        return {
            "mode": world.spec.replication.mode.lower(), "serving": leads, "pending": None,
            "epoch": group.epoch if group is not None else 0, "positions": {"end": 1 << 40},
            "inSync": {
                "members": list(group.in_sync) if group is not None and leads else members, "version": 1,
                "minInSync": least,
            },
            "followers": [
                {"brokerId": each.broker_id, "connected": bool(each.alive), "lagBytes": each.lag}
                for each in replicas if leads and each.broker_id != n + 1
            ],
        }  # fmt: skip

    def _roles(self, n: int) -> Reply | None:
        """In mode static: all others are awaited, and have everything."""
        number, leader = self.world.table
        others = [each for each in range(1, self.world.spec.replicas + 1) if each != leader]
        return Reply(200, {
            "brokerId": n + 1, "table": number, "leader": leader, "synchronous": others, "copies": len(others) + 1,
            "eligible": True, "why": "",
        }) if self.world.serves(n) else None  # fmt: skip

    def _controller_page(self, n: int, path: str) -> Reply | None:
        pod = self.world.controllers.get(n)
        quorum = self.world.quorum
        if pod is None or not self.world.ready(pod):
            return None
        if path == "/quorum":
            members = [
                {"node": each.node, "identity": each.identity, "voter": each.voter, "connected": each.connected,
                 "lagBytes": each.lag}
                for each in (quorum.members if quorum is not None else ())
            ]  # fmt: skip
            leader = {"node": quorum.leader} if quorum is not None and quorum.leader is not None else None
            return Reply(200, {"node": f"c{n}", "leader": leader, "term": 1, "members": members})
        if quorum is None:
            return Reply(503, {"reason": "NOT_CONFIRMED"})
        if self.world.group is None or not self.world.spec.by_controllers:
            return Reply(404, {"reason": "UNKNOWN_GROUP", "confirmed": True})
        page = self.group_page()
        leads = quorum.leader == f"c{n}"
        return Reply(200, {**page, "live": leads, "leader": page["leader"] if leads else None})

    def group_page(self) -> Document:
        group = self.world._group_page()
        leader = None
        if group.leader is not None:
            leader = {
                "brokerId": group.leader, "serving": group.serving, "address": f"b{group.leader}:10911",
                "renewedFrom": f"10.0.0.{group.leader}",
            }  # fmt: skip
        return {
            "confirmed": True, "live": True, "epoch": group.epoch, "founded": group.founded, "why": "as it is",
            "leader": leader, "inSync": list(group.in_sync), "eligible": [], "transfer": None,
            "rules": {
                "replicas": group.rules.replicas, "minInSync": group.rules.min_in_sync,
                "preferred": group.rules.preferred,
            },
            "brokers": [
                {"brokerId": each.broker_id, "storeId": each.store_id, "alive": each.alive, "learner": each.learner,
                 "registration": each.broker_id, "address": f"b{each.broker_id}:10911",
                 "end": {"epoch": 1, "position": (1 << 40) - each.lag}}
                for each in group.replicas
            ],
        }  # fmt: skip

    async def tell(self, host: str, path: str, body: Mapping[str, Any], token: str) -> Reply | None:
        self.told.append((host.partition(".")[0], path))
        secret = self.api.find(f"/api/v1/namespaces/{NAMESPACE}/secrets/{self.name}-admin")
        if secret is None or token != base64.b64decode(secret["data"]["token"]).decode().strip():
            return Reply(401, {"error": "no token"})
        verb, world = path.rpartition("/")[2], self.world
        before = (world.group, world.leading, {uid: dict(each) for uid, each in world.hot.items()})
        if path == "/replica/promote" and world.group is not None:
            world.table = (int(body["after"]) + 1, int(host.partition(".")[0].rpartition("-")[2]) + 1)
            world.group = replace(world.group, leader=world.table[1], epoch=world.group.epoch + 1)
        else:
            self._carry_out(verb, body, host)
        after = (world.group, world.leading, world.hot)
        return Reply(200, {}) if before != after else Reply(409, {"reason": "CONFLICT", "error": "not so"})

    def _carry_out(self, verb: str, body: Mapping[str, Any], host: str) -> None:
        world, epoch = self.world, int(body.get("expectedEpoch", 0))
        if verb in ("elect", "hand-over"):
            world._do_switchover(act.Switchover(
                target=body["brokerId"], expected_epoch=epoch, request_id=body.get("requestId", ""), reason="",
            ))  # fmt: skip
        elif verb in ("promote", "demote"):
            world._set_learner(body["brokerId"], epoch, learner=verb == "demote")
        elif verb == "forget":
            world._do_forget(act.Forget(broker_id=body["brokerIds"][0], expected_epoch=epoch, reason=""))
        elif verb == "rules" and world.group is not None:
            rules = replace(world.group.rules, replicas=body["replicas"], min_in_sync=body["minInSync"])
            world.group = replace(world.group, rules=rules)
        elif verb == "transfer":
            world.leading = int(body["node"].removeprefix("c"))
        elif verb == "config":
            ordinal = int(host.partition(".")[0].rpartition("-")[2])
            world._do_pushconfig(act.PushConfig(ordinal=ordinal, values=body["values"], reason=""))


def hot_of(document: Document) -> dict[str, str]:
    """What a broker that starts from this file has in force, as its status page tells it."""
    defaults = {name: value for name, value in CONFIG_LIVE.items() if value is not None}
    properties = {name: value for name, value in document["properties"].items() if name in CONFIG_LIVE}
    replication = document["replication"]
    members = replication.get("raft", {}).get("members")
    return {
        **({MEMBERS: ",".join(map(str, members))} if members is not None else {}),
        "replication.heartbeat": replication.get("heartbeat", "500ms"),
        "replication.lagTimeout": replication.get("lagTimeout", "1500ms"),
        "store.reservedPercent": str(document["store"]["reservedPercent"]),
        **defaults,
        **properties,
    }
