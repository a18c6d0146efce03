"""`kubectl logherd` against the emulated API server: what it shows, what it orders, and how it says no."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from k8s.api_http import served
from k8s.api_server import ApiServer
from k8s.driving import GROUP_PATH, Drive
from k8s.kubelet import NAME, NAMESPACE
from logherd_operator.clients.api import Api
from logherd_operator.clients.errors import NotNow, Unreachable
from logherd_operator.handlers.known import Key
from logherd_operator.plugin.cluster import PodPages, Read
from logherd_operator.plugin.commands import _until, plugin
from logherd_operator.plugin.planned import plan_for

pytestmark = pytest.mark.timeout(300)

SPEC = {"replicas": 3, "image": "logherd:good-1"}
COMMANDS = ("status", "plan", "switchover", "restart", "pause", "resume", "report")


class Kubectl:
    """Runs commands with a kubeconfig of its own."""

    def __init__(self, file: Path, drive: Drive) -> None:
        self._file = file
        self.drive = drive

    async def run(self, *arguments: str) -> Result:
        command = ["--kubeconfig", str(self._file), *arguments]
        return await asyncio.to_thread(CliRunner().invoke, plugin, command)

    async def json(self, *arguments: str) -> dict[str, Any]:
        result = await self.run(*arguments, "-o", "json")
        assert result.stdout, result.stderr
        document = json.loads(result.stdout)
        assert isinstance(document, dict)
        return document


@asynccontextmanager
async def kubectl(folder: Path, spec: Mapping[str, Any] = SPEC) -> AsyncIterator[Kubectl]:
    """A founded group, and a person who may do everything there."""
    drive = Drive.of(spec)
    await drive.settle()
    async with served(drive.api, drive.kubelet) as address:
        file = folder / "kubeconfig"
        file.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "here", "users": [{"name": "me", "user": {}}],
            "clusters": [{"name": "emulated", "cluster": {"server": address}}],
            "contexts": [{
                "name": "here", "context": {"cluster": "emulated", "user": "me", "namespace": NAMESPACE},
            }],
        }))  # fmt: skip
        yield Kubectl(file, drive)


def said(result: Result) -> str:
    assert result.exit_code in (1, 2), result.output
    return result.stderr


async def test_status_tells_what_the_operator_saw(tmp_path: Path) -> None:
    async with kubectl(tmp_path) as person:
        result = await person.run("status", NAME)
        assert result.exit_code == 0
        assert f"group        {NAMESPACE}/{NAME}: Running" in result.stdout
        assert "leader       orders-broker-0 (broker 1), epoch 1" in result.stdout
        assert "orders-broker-2  Follower  yes" in result.stdout
        document = await person.json("status", NAME)
        assert (document["current"], document["reconcile"], document["inSync"]) == (True, "Full", "3/3")


async def test_the_plan_is_the_one_that_the_operator_then_carries_out(tmp_path: Path) -> None:
    async with kubectl(tmp_path) as person:
        assert (await person.run("plan", NAME)).stdout == "nothing is to be done\n"
        person.drive.set_spec({**SPEC, "config": {"fileReservedTime": "96"}})
        planned = (await person.json("plan", NAME))["actions"]
        assert [each["action"] for each in planned] == ["PushConfig"] * 3
        assert not any(each["disruptive"] for each in planned)
        assert planned[0]["reason"] == "broker 1 runs with other values of fileReservedTime"
        await person.drive.settle()
        assert len([path for _, path in person.drive.kubelet.told if path == "/config"]) == 3
        assert (await person.json("plan", NAME))["actions"] == []


@pytest.mark.parametrize(("controllers", "count"), [({"embedded": {"replicas": 5}}, 5), ({}, 3), (None, 3)])
async def test_a_plan_asks_all_controllers_of_the_group_that_is_referred_to(
    controllers: dict[str, Any] | None, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, key, asked = ApiServer(lambda: 0.0), Key(NAMESPACE, NAME), list[str]()
    specs = {NAME: {**SPEC, "controllers": {"ref": {"name": "shared"}}}}
    if controllers is not None:  # else it is gone
        specs["shared"] = {**SPEC, "controllers": controllers}
    for name, spec in specs.items():
        path = f"/apis/logherd.dev/v1alpha1/namespaces/{NAMESPACE}/brokergroups/{name}"
        kind = {"apiVersion": "logherd.dev/v1alpha1", "kind": "BrokerGroup"}
        api.put(path, {**kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})

    async def nobody(self: PodPages, host: str, path: str) -> None:
        asked.append(f"{host.partition('.')[0]}{path}")

    monkeypatch.setattr(PodPages, "ask", nobody)
    objects: dict[str, list[Any]] = {"Pod": [], "PersistentVolumeClaim": [], "StatefulSet": []}
    await plan_for(Api(api), key, Read(api.find(GROUP_PATH) or {}, objects), 0.0)
    assert sorted(asked) == [f"shared-controller-{n}/quorum" for n in range(count)]


async def test_a_switchover_is_ordered_and_awaited(tmp_path: Path) -> None:
    async with kubectl(tmp_path) as person:
        ordered = asyncio.create_task(person.run("switchover", NAME, "--to", "3", "--wait", "120"))
        while "switchover" not in str(person.drive.group["metadata"].get("annotations")):
            await asyncio.sleep(0.05)
        await person.drive.settle()
        result = await ordered
        assert result.exit_code == 0, result.stderr
        assert result.stdout == "orders: broker 3 is to lead after epoch 1\n"
        assert person.drive.status["leader"]["brokerId"] == 3


async def test_what_cannot_be_ordered_is_refused_in_a_sentence(tmp_path: Path) -> None:
    async with kubectl(tmp_path) as person:
        before = person.drive.api.writes
        for arguments, words, code in (
            (("switchover", NAME, "--to", "1"), "broker 1 leads already, in epoch 1", 1),
            (("switchover", NAME, "--to", "9"), "broker 9 is not ready and in sync; 2, 3 could take over", 1),
            (("status", "nobody"), f"there is no BrokerGroup nobody in the namespace {NAMESPACE}", 2),
            (("-n", "elsewhere", "plan", NAME), "in the namespace elsewhere", 2),
            (("--context", "other", "status", NAME), "no cluster to ask", 2),
        ):
            result = await person.run(*arguments)
            assert words in said(result)
            assert result.exit_code == code
        assert person.drive.api.writes == before


async def test_a_lost_leader_in_mode_static_is_replaced_by_whom_a_person_names(tmp_path: Path) -> None:
    async with kubectl(tmp_path, {**SPEC, "replication": {"mode": "Static"}}) as person:
        drive, world = person.drive, person.drive.kubelet.world
        world.no_room = True  # it does not come back
        del world.pods[0]
        drive.kubelet.tick(1.0)
        await drive.steps(60)
        assert "leader" not in drive.status
        before = drive.api.writes
        for arguments, words in (
            ((), "nobody takes over by itself: --to one of 2, 3"),
            (("--to", "1"), "broker 1 may lack what table 1 acknowledged; 2, 3 could take over"),
        ):
            assert words in said(await person.run("switchover", NAME, *arguments))
        assert drive.api.writes == before
        result = await person.run("switchover", NAME, "--to", "3", "--wait", "0")
        assert result.exit_code == 0, result.stderr
        assert result.stdout == "orders: broker 3 is to lead after epoch 1\n"
        await drive.steps(60)
        assert (drive.status["leader"]["brokerId"], drive.status["leader"]["epoch"]) == (3, 2)


async def test_pause_holds_restarts_back_and_resume_lets_them_go(tmp_path: Path) -> None:
    async with kubectl(tmp_path) as person:
        assert (await person.json("pause", NAME))["changed"] is True
        assert (await person.json("pause", NAME))["changed"] is False
        assert person.drive.group["spec"]["reconcile"] == "NoDisruption"
        pods = {each["metadata"]["uid"] for each in person.drive.api.of_kind("pods")}
        assert (await person.run("restart", NAME)).exit_code == 0
        assert "restart-at" in str(person.drive.group["metadata"]["annotations"])
        await person.drive.steps(60)
        assert {each["metadata"]["uid"] for each in person.drive.api.of_kind("pods")} == pods
        assert (await person.json("resume", NAME))["reconcile"] == "Full"


async def test_a_report_holds_what_pods_say_and_no_secret(tmp_path: Path) -> None:
    async with kubectl(tmp_path) as person:
        result = await person.run("report", NAME)
        document = json.loads(result.stdout)
        assert document["pages"]["orders-broker-0"]["/status"]["brokerId"] == 1
        assert document["group"]["status"]["phase"] == "Running"
        assert {each["reason"] for each in document["events"]} >= {"LeaderChanged"}
        secrets = [each["data"]["token"] for each in person.drive.api.of_kind("secrets")]
        assert secrets
        assert not any(each in result.stdout for each in secrets)


async def test_a_report_has_events_of_this_group_and_its_parts_and_of_no_other(tmp_path: Path) -> None:
    ours = [
        "BrokerGroup/orders", "Pod/orders-broker-0", "Pod/orders-broker-12", "Pod/orders-controller-2",
        "PersistentVolumeClaim/data-orders-broker-1", "StatefulSet/orders-broker", "Service/orders-leader",
        "Service/orders-brokers", "PodDisruptionBudget/orders-controller", "ConfigMap/orders-template",
    ]  # fmt: skip
    others = [
        "BrokerGroup/orders-eu", "BrokerGroup/orders-broker-0", "Pod/orders-eu-broker-0", "Pod/orders2-broker-0",
        "Pod/my-orders-broker-0", "PersistentVolumeClaim/data-orders-eu-broker-0", "StatefulSet/orders-eu-broker",
        "Pod/orders-shop-7c9d", "Pod/orders", "Pod/",
    ]  # fmt: skip
    async with kubectl(tmp_path) as person:
        for number, about in enumerate([*ours, *others]):
            kind, _, name = about.partition("/")
            event = {
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "reason": "Told", "note": "",
                "metadata": {"name": f"e{number}", "namespace": NAMESPACE}, "regarding": {"kind": kind, "name": name},
            }  # fmt: skip
            person.drive.api.put(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events/e{number}", event)
        assert NAME == "orders"
        events = json.loads((await person.run("report", NAME)).stdout)["events"]
        told = [each["regarding"] for each in events if each["reason"] == "Told"]
        assert sorted(f"{each['kind']}/{each['name']}" for each in told) == sorted(ours)


async def test_without_the_right_to_ask_pods_a_plan_names_it_and_a_report_goes_on(tmp_path: Path) -> None:
    async with kubectl(tmp_path) as person:
        person.drive.api.faults.refuse = {"proxy": 403}
        result = await person.run("plan", NAME)
        assert (result.exit_code, result.stdout, len(said(result).splitlines())) == (1, "", 1)
        assert '403: User "me" cannot get resource "pods/proxy"' in said(result)
        document = json.loads((await person.run("report", NAME)).stdout)
        assert "pods/proxy" in document["pages"]["orders-broker-0"]["/status"]["error"]
        assert document["group"]["status"]["phase"] == "Running"


async def test_a_plan_for_a_group_that_no_controller_knows_waits_for_its_first_leader(tmp_path: Path) -> None:
    """As the operator's does: that answer is 404, and confirmed."""
    async with kubectl(tmp_path) as person:
        person.drive.kubelet.world.group = None
        document = await person.json("plan", NAME)
        assert document["blocked"] == []
        assert document["operation"]["state"] == "AwaitFirstLeader"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_says_what_it_does(command: str) -> None:
    result = CliRunner().invoke(plugin, [command, "--help"])
    assert result.exit_code == 0
    assert "GROUP" in result.output


def test_an_output_that_takes_nothing_is_told_in_one_line() -> None:
    words = [sys.executable, "-c", "from logherd_operator.plugin.commands import main; main()", "--help"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, env=env, check=False)
    assert (ended.returncode, ended.stderr) == (1, "kubectl logherd: No space left on device\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [b", "expected"), ("", "is not one"), ("text", "is not one"), ("[]", "is not one"),
        ("\udcff", "can't decode byte"), ('{"contexts": [{}], "current-context": "here"}', "name"),
    ],
)  # fmt: skip
def test_a_kubeconfig_that_is_none_is_told_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_bytes(text.encode(errors="surrogateescape"))
    result = CliRunner().invoke(plugin, ["--kubeconfig", str(file), "status", NAME])
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert result.stderr.startswith("kubectl logherd: no cluster to ask: ")
    assert said in result.stderr


def test_a_certificate_that_is_none_is_told_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority-data": "bm8gY2VydGlmaWNhdGU="}
    file.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "here", "users": [{"name": "me", "user": {}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "me"}}],
    }))  # fmt: skip
    result = CliRunner().invoke(plugin, ["--kubeconfig", str(file), "status", NAME])
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "the certificates for https://127.0.0.1:1 cannot be read" in result.stderr


async def test_an_order_is_awaited_also_while_nobody_answers_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    drive = Drive.of(SPEC)
    await drive.settle()
    tried: list[str] = []

    async def flaky(api: Api, key: Key) -> Read:
        tried.append(key.name)
        if len(tried) < 3:
            raise (Unreachable("nobody answers"), NotNow(429, "too many requests"))[len(tried) - 1]
        return Read(drive.group, {})

    monkeypatch.setattr("logherd_operator.plugin.commands.read_group_objects", flaky)
    monkeypatch.setattr("logherd_operator.plugin.commands._POLL_SECONDS", 0.0)
    assert await _until(Api(drive.api), drive.key, 30, lambda told: told["phase"] == "Running") is True
    assert len(tried) == 3


@pytest.mark.parametrize("status", [403, 409, 422, 429, 500])
async def test_what_the_api_server_refuses_is_no_wrong_usage(status: int, tmp_path: Path) -> None:
    async with kubectl(tmp_path) as person:
        person.drive.api.faults.refuse = {"brokergroups": status}
        result = await person.run("restart", NAME)
        assert (result.exit_code, len(said(result).splitlines())) == (1, 1)
        person.drive.api.faults.down = True
        assert (await person.run("status", NAME)).exit_code == 1
