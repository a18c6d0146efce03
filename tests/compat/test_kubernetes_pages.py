"""Every command of the pages on Kubernetes runs, in order: released Helm and kubectl against an emulated API server, at
which the operator's own code looks and acts. No container runs: pods of the group get ready as `k8s.kubelet` has it.
"""

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from k8s.api_http import served
from k8s.api_server import ApiServer, stamp
from k8s.driving import GROUP_PATH, Drive
from k8s.kubelet import NAMESPACE, Kubelet
from logherd_operator.spec.group import BrokerGroupSpec

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]
SECONDS_EACH = 200.0
BEGIN = [
    "kubectl create namespace shop",
    "helm install logherd-operator charts/logherd-operator -n logherd --create-namespace --set watchNamespaces={shop}",
    "helm install orders charts/logherd --namespace shop --set spec.replicas=3",
    "kubectl -n shop wait --for=condition=Upgradeable brokergroup/orders --timeout=5m",
]


def commands(page: str) -> list[str]:
    """Lines of all ```sh blocks, in order."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@dataclass
class Cluster:
    """What else a cluster does: Deployments get ready, single pods succeed, what belongs to a gone group goes."""

    drive: Drive
    folder: Path

    @property
    def api(self) -> ApiServer:
        return self.drive.api

    def step(self) -> None:
        kubelet = self.drive.kubelet
        group = self.api.find(GROUP_PATH)
        if group is not None:
            kubelet.world.spec = BrokerGroupSpec.model_validate(group.get("spec") or {})
        self._collect({each["metadata"]["uid"] for each in self.api.of_kind("brokergroups")})
        self._serve()
        kubelet.tick(1.0)
        (self.folder / "now").write_text(stamp(kubelet.world.now))

    def _serve(self) -> None:
        for path, each in list(self.api.objects.items()):
            kind, metadata = path.split("/")[-2], dict(each["metadata"])
            if kind == "deployments":
                count = each["spec"]["replicas"]
                status = {
                    "observedGeneration": metadata["generation"], "replicas": count, "updatedReplicas": count,
                    "readyReplicas": count, "availableReplicas": count,
                }  # fmt: skip
            elif kind == "pods" and "helm.sh/hook" in (metadata.get("annotations") or {}):
                status = {"phase": "Succeeded"}
            else:
                continue
            if each.get("status") != status:
                self.api.put(path, {**each, "metadata": metadata, "status": status})

    def _collect(self, groups: set[str]) -> None:
        gone = [
            path for path, each in self.api.objects.items()
            for owner in each["metadata"].get("ownerReferences") or () if owner["uid"] not in groups
        ]  # fmt: skip
        for path in gone:
            self.api.drop(path)
        if any(path.endswith("-broker") and "/statefulsets/" in path for path in gone):
            world = self.drive.kubelet.world
            for pod in world.pods.values():
                world._stop(pod)
            world.controllers.clear()


@asynccontextmanager
async def running(drive: Drive, folder: Path) -> AsyncIterator[tuple[Cluster, str]]:
    """The operator and the rest of the cluster, in a time of their own, which is much faster; and its address."""
    cluster = Cluster(drive, folder)

    async def go_on() -> None:
        while True:
            cluster.step()
            await drive.look()
            await asyncio.sleep(0.02)

    async with served(drive.api) as address:
        moving = asyncio.create_task(go_on())
        try:
            yield cluster, address
        finally:
            moving.cancel()
            with suppress(asyncio.CancelledError):
                await moving


def environment(folder: Path, address: str, helm: Path, kubectl: Path) -> dict[str, str]:
    """In which commands find the emulated cluster, the charts, and the time that it is there."""
    entry = {
        "apiVersion": "v1", "kind": "Config", "current-context": "here", "users": [{"name": "me", "user": {}}],
        "clusters": [{"name": "emulated", "cluster": {"server": address}}],
        "contexts": [{"name": "here", "context": {"cluster": "emulated", "user": "me"}}],
    }  # fmt: skip
    (folder / "kubeconfig").write_text(json.dumps(entry))
    for name in ("charts", "examples"):
        shutil.copytree(ROOT / name, folder / name)
    programs = folder / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(kubectl)
    (programs / "date").write_text(f"#!/bin/sh\ncat {folder}/now\n")
    (programs / "date").chmod(0o755)
    path = os.pathsep.join(map(str, (programs, helm.parent, Path(sys.executable).parent, os.environ["PATH"])))
    return {**os.environ, "PATH": path, "KUBECONFIG": str(folder / "kubeconfig"), "HOME": str(folder)}


async def run(command: str, folder: Path, variables: dict[str, str]) -> str:
    """What it prints. Raises: AssertionError if it fails."""
    process = await asyncio.create_subprocess_exec(
        "bash", "-o", "pipefail", "-c", command, cwd=folder, env=variables, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), SECONDS_EACH)
    except TimeoutError:
        process.kill()
        raise AssertionError(f"$ {command}\nhas not ended after {SECONDS_EACH:g} s") from None
    assert process.returncode == 0, f"$ {command}\n{printed.decode()}"
    return printed.decode()


def lose_volume(cluster: Cluster) -> None:
    cluster.drive.kubelet.world.disks[2].lost = True


PREPARED: dict[str, Callable[[Cluster], None]] = {"logherd.dev/rebuild=2": lose_volume}


async def walk(page: str, tmp_path: Path, helm: Path, kubectl: Path, *, begin: list[str]) -> dict[str, str]:
    """Run everything of a page; what each command printed, and the last status of the group as `status`."""
    drive = Drive(Kubelet.make({"replicas": 3}))
    for n in range(4):
        drive.api.put(
            f"/api/v1/nodes/node-{n}", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{n}"}}
        )
    printed: dict[str, str] = {}
    async with running(drive, tmp_path) as (cluster, address):
        variables = environment(tmp_path, address, helm, kubectl)
        for command in [*begin, *commands(page)]:
            for words, prepare in PREPARED.items():
                if words in command:
                    prepare(cluster)
            try:
                printed[command] = await run(command, tmp_path, variables)
            except AssertionError as failed:
                status = json.dumps((drive.api.find(GROUP_PATH) or {}).get("status"), indent=1)
                raise AssertionError(f"{page}: {failed}\nthe group's status: {status}") from None
        # A claim goes when its pod has gone; giving a volume up asks for the first before the second.
        assert set(drive.kubelet.world.faults) <= {"data-orders-broker-2 was deleted under a pod"}
    return printed


def answer(printed: dict[str, str], words: str) -> str:
    return next(text for command, text in printed.items() if words in command)


async def test_the_page_on_kubernetes_runs(tmp_path: Path, helm_program: Path, kubectl_program: Path) -> None:
    printed = await walk("kubernetes.md", tmp_path, helm_program, kubectl_program, begin=[])
    assert answer(printed, "{.status.inSync}'").endswith("3/3")
    assert "orders-bootstrap.shop.svc.cluster.local:9876" in answer(printed, "orders-client")
    assert "Phase:          Succeeded" in answer(printed, "helm test")
    assert "job.batch/orders-flights created" in answer(printed, "spark-job")
    assert "data-orders-broker-0" in answer(printed, "persistentvolumeclaims")
    assert "were kept" in answer(printed, "helm uninstall logherd-operator")


@pytest.mark.parametrize("page", ["recovery.md", "conditions.md"])
async def test_the_page_runs_on_a_group(page: str, tmp_path: Path, helm_program: Path, kubectl_program: Path) -> None:
    printed = await walk(page, tmp_path, helm_program, kubectl_program, begin=BEGIN)
    assert "Available=True WritesAccepted: " in answer(printed, ".status.conditions[*]")


def test_every_command_is_one_that_is_run() -> None:
    found = [command for page in ("kubernetes.md", "recovery.md", "conditions.md") for command in commands(page)]
    assert len(found) > 40
    assert {command.split()[0] for command in found} == {"helm", "kubectl", "logherd"}
    assert NAMESPACE == "shop"
