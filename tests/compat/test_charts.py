"""Helm renders the charts as reviewed, and refuses what is wrong before anything is sent.

To renew the golden files after a look at the difference: LOGHERD_GOLDEN=write.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from logherd_operator.spec.group import BrokerGroup

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "charts"
OPERATOR, GROUP = ROOT / "charts/logherd-operator", ROOT / "charts/logherd"
DIGEST = f"sha256:{'0' * 64}"

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]

RENDERS: dict[str, tuple[Path, list[str]]] = {
    "operator": (OPERATOR, ["--set", "crds.enabled=false"]),
    "operator-cluster": (
        OPERATOR,
        [
            "--set", "crds.enabled=false,rbac.scope=Cluster,rbac.allowVolumeDelete=false,rbac.aggregateRoles=false",
            "--set", f"replicas=2,strategy.type=RollingUpdate,image.registry=r.example,image.digest={DIGEST}",
            "--set", "networkPolicy.enabled=false",
        ],
    ),
    "operator-namespaces": (OPERATOR, ["--set", "crds.enabled=false,watchNamespaces={a,b}"]),
    "group": (GROUP, []),
    "group-changed": (GROUP, ["--set", "name=shop,spec.replicas=5,spec.storage.size=50Gi,test.image=logherd:2"]),
}  # fmt: skip


def helm(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def render(program: Path, name: str) -> str:
    chart, values = RENDERS[name]
    done = helm(program, "template", "orders", chart, "--namespace", "apps", *values)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", sorted(RENDERS))
def test_a_chart_renders_as_reviewed(helm_program: Path, name: str) -> None:
    path, text = GOLDEN / f"{name}.yaml", render(helm_program, name)
    if os.environ.get("LOGHERD_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def test_who_may_scrape_the_operator_is_let_in_at_that_port_only(helm_program: Path) -> None:
    asked = 'networkPolicy.metricsSelectors=[{"namespaceSelector":{"matchLabels":{"a":"b"}}}]'
    done = helm(helm_program, "template", "orders", OPERATOR, "--set", "crds.enabled=false", "--set-json", asked)
    (policy,) = (each for each in yaml.safe_load_all(done.stdout) if each and each["kind"] == "NetworkPolicy")
    assert policy["spec"]["ingress"] == [
        {
            "from": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}],
            "ports": [{"port": 8080, "protocol": "TCP"}],
        }
    ]


@pytest.mark.parametrize("chart", [OPERATOR, GROUP], ids=lambda chart: chart.name)
def test_a_chart_has_no_lint(helm_program: Path, chart: Path) -> None:
    done = helm(helm_program, "lint", "--strict", chart)
    assert done.returncode == 0, done.stdout


def test_the_rendered_group_is_one_that_the_operator_takes(helm_program: Path) -> None:
    for name in ("group", "group-changed"):
        document = next(yaml.safe_load_all(render(helm_program, name)))
        assert BrokerGroup.model_validate(document).metadata.namespace == "apps"


def test_the_definition_stays_when_the_chart_goes_and_can_be_left_out(helm_program: Path) -> None:
    def definitions(*values: str) -> list[dict[str, Any]]:
        done = helm(helm_program, "template", "orders", OPERATOR, *values)
        found = [each for each in yaml.safe_load_all(done.stdout) if each is not None]
        return [each for each in found if each["kind"] == "CustomResourceDefinition"]

    (definition,) = definitions()
    assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert definitions("--set", "crds.enabled=false") == []


@pytest.mark.parametrize(
    ("chart", "values", "complaint"),
    [
        (OPERATOR, "image.tag=latest", "/image/tag"),
        (OPERATOR, "image.digest=sha256:12", "/image/digest"),
        (OPERATOR, "replica=2", "'replica' not allowed"),
        (OPERATOR, "rbac.scope=Everywhere", "/rbac/scope"),
        (OPERATOR, "watchNamespaces={A_B}", "/watchNamespaces/0"),
        (GROUP, "spec.replica=3", "'replica' not allowed"),
        (GROUP, "spec.replicas=9", "/spec/replicas"),
        (GROUP, "spec.storage.size=much", "/spec/storage/size"),
        (GROUP, "spec.controllers.embedded.replicas=2", "/spec/controllers/embedded/replicas"),
        (GROUP, f"name={'a' * 41}", "/name"),
    ],
)
def test_wrong_values_are_refused_by_their_path(helm_program: Path, chart: Path, values: str, complaint: str) -> None:
    done = helm(helm_program, "template", "orders", chart, "--set", values)
    assert done.returncode != 0
    assert complaint in done.stderr


@pytest.mark.parametrize(
    ("values", "name_servers"),
    [
        ([], "orders-bootstrap:9876"),
        (["--set", "spec.controllers.ref.name=shared"], "shared-bootstrap:9876"),
        (["--set", "spec.nameService.mode=External,spec.nameService.addresses={a:9876,b:9877}"], "a:9876;b:9877"),
    ],
)
def test_the_chart_s_test_asks_the_name_servers_that_the_group_has(
    helm_program: Path, values: list[str], name_servers: str
) -> None:  # fmt: skip
    done = helm(helm_program, "template", "orders", GROUP, "-s", "templates/tests/send.yaml", *values)
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["spec"]["containers"][0]["command"][-1] == name_servers


def test_the_chart_s_test_may_fetch_the_image_that_the_brokers_may(helm_program: Path) -> None:
    asked = ["--set", "spec.image=r.example/logherd:1,spec.imagePullSecrets[0].name=pull"]
    done = helm(helm_program, "template", "orders", GROUP, "-s", "templates/tests/send.yaml", *asked)
    assert done.returncode == 0, done.stderr
    spec = yaml.safe_load(done.stdout)["spec"]
    assert (spec["containers"][0]["image"], spec["imagePullSecrets"]) == ("r.example/logherd:1", [{"name": "pull"}])


def test_who_edits_groups_may_scale_them_with_kubectl(helm_program: Path) -> None:
    """Which asks for the `scale` subresource and nothing else."""
    verbs: dict[str, list[str]] = {}
    for each in yaml.safe_load_all(render(helm_program, "operator")):
        if each["kind"] == "ClusterRole":
            (rule,) = each["rules"]
            verbs[each["metadata"]["name"].rpartition("-")[2]] = rule["verbs"]
            assert rule["resources"] == ["brokergroups", "brokergroups/scale"]
    assert "get" in verbs["view"]
    assert {"patch", "update"} <= set(verbs["edit"])


NOTES = """apiVersion: v1
kind: ConfigMap
data:
  notes: {{ tpl (.Files.Get "notes.txt") . | toJson }}
"""


def test_the_notes_name_the_next_commands_and_what_becomes_of_the_data(helm_program: Path, tmp_path: Path) -> None:
    # Helm shows notes only where it finds a cluster; so they are rendered as another template would be.
    def notes(chart: Path, *values: str) -> str:
        copy = tmp_path / chart.name
        shutil.copytree(chart, copy, dirs_exist_ok=True)
        shutil.copy(chart / "templates/NOTES.txt", copy / "notes.txt")
        (copy / "templates/notes.yaml").write_text(NOTES)
        done = helm(helm_program, "template", "orders", copy, "-s", "templates/notes.yaml", "-n", "apps", *values)
        assert done.returncode == 0, done.stderr
        return str(yaml.safe_load(done.stdout)["data"]["notes"])

    assert "kubectl -n apps wait --for=condition=Available brokergroup/orders" in notes(GROUP)
    assert "volumes stay" in notes(GROUP)
    assert "volumes go" in notes(GROUP, "--set", "spec.storage.retention.whenDeleted=Delete")
    assert "helm install orders charts/logherd -n apps" in notes(OPERATOR)


def test_no_rule_grants_everything_or_what_the_operator_must_not_have(helm_program: Path) -> None:
    for name in ("operator", "operator-cluster", "operator-namespaces"):
        for document in yaml.safe_load_all(render(helm_program, name)):
            for rule in document.get("rules", []) if document["kind"] in ("Role", "ClusterRole") else []:
                words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
                assert "*" not in words
                assert not {"pods/exec", "pods/log", "nodes", "namespaces"} & words
                assert "secrets" not in words or not {"list", "watch"} & words
