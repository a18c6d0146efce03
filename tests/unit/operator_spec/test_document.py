"""A BrokerGroup document: defaults, the relations between fields, and a sentence for every fault."""

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from logherd_operator.spec.document import parse_group, parse_runnable, runnable_group
from logherd_operator.spec.errors import SpecError
from logherd_operator.spec.group import API_VERSION, FORBIDDEN_CONFIG, BrokerGroup
from logherd_operator.spec.machine import quantity_value

ROOT = Path(__file__).resolve().parents[3]
HEAD = "apiVersion: logherd.dev/v1alpha1\nkind: BrokerGroup\nmetadata: {name: orders}\n"
REPEATED = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 10))
"""A few lines that stand for 9 ** 9 values."""


def group(spec: str = "{}") -> BrokerGroup:
    return parse_group(f"{HEAD}spec: {spec}\n", source="group.yaml")


def complaint(spec: str) -> str:
    with pytest.raises(SpecError) as caught:
        group(spec)
    return str(caught.value)


def test_the_example_is_valid_and_names_three_brokers() -> None:
    example = parse_group((ROOT / "examples/group.yaml").read_text(), source="example")
    assert (example.metadata.name, example.spec.replicas, example.spec.min_in_sync) == ("demo", 3, 2)


def test_defaults_are_the_amended_ones() -> None:
    spec = group().spec
    assert (spec.replicas, spec.min_in_sync, spec.replication.flush) == (3, 2, "Sync")
    assert (spec.replication.lag_timeout_ms, spec.failover.lease_ms) == (1500, 3000)
    assert spec.controllers.embedded is not None
    assert spec.controllers.embedded.replicas == 3


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("{replica: 3}", "spec.replica: unknown key; did you mean replicas?"),
        ("{replicas: 8}", "spec.replicas: 8 is not right: write 7 or less"),
        ("{replicas: 0}", "spec.replicas: 0 is not right"),
        ("{replicas: true}", "spec.replicas: true is not right: write a whole number"),
        ("{storage: {reservedPercent: true}}", "spec.storage.reservedPercent: true is not right: write a whole number"),
        ("{replication: {minInSyncReplicas: true}}", "minInSyncReplicas: true is not right: write a whole number"),
        ("{controllers: {embedded: {replicas: true}}}", "replicas: true is not right"),
        ("{ackPolicy: AllInSync}", "spec.ackPolicy: unknown key; "),
        ("{replication: {ackPolicy: AllInSync}}", "spec.replication.ackPolicy: unknown key; known here: mode,"),
        ("{replication: {lagTimeoutSeconds: 10}}", "did you mean lagTimeoutMs?"),
        ("{replicas: 1, replication: {minInSyncReplicas: 2}}", "minInSyncReplicas 2 is above replicas 1"),
        ("{failover: {leaseMs: 2000}}", "spec: failover.leaseMs should be at least 3 x failover.heartbeatIntervalMs"),
        ("{controllers: {}}", "spec.controllers: exactly one of embedded and ref should be given"),
        ("{controllers: {embedded: {}, ref: {name: a}}}", "spec.controllers: exactly one of embedded and ref"),
        ("{controllers: {embedded: {replicas: 2}}}", "replicas: 2 is not right: write 1, 3 or 5"),
        ("{nameService: {mode: External}}", "spec.nameService: mode External needs at least one address"),
        ("{nameService: {addresses: [a]}}", "spec.nameService.addresses.0: 'a' is not right: write host:port"),
        ("{storage: {size: 3Q}}", "spec.storage.size: '3Q' is not right: write an amount such as 20Gi or 500m"),
        ("{storage: {reservedPercent: 1}}", "spec.storage.reservedPercent: 1 is not right"),
        ("{resources: {limits: {cpu: '1'}}}", "spec.resources: limits.memory is required"),
        ("{resources: {requests: {memory: 2Gi}}}", "requests.memory should not be above limits.memory"),
        ("{config: {brokerName: x}}", "spec.config: brokerName is owned by another field"),
        ("{config: {storePathIndex: x}}", "spec.config: storePathIndex is owned by another field"),
        ("{config: {a-b: x}}", "spec.config: 'a-b' is no property name"),
        (
            "{config: {a: 1}}",
            "spec.config.a: 1 is not right: write a text, in quotes where YAML takes it for something else",
        ),
        ("{tls: {mode: Required}}", "spec.tls: mode Required needs exactly one of secretName and certManager"),
        ("{placement: {ackAcrossZones: true}}", "placement.ackAcrossZones needs zoneSpread Required"),
        ("{podTemplate: {env: [{name: LOGHERD_X}]}}", "spec.podTemplate.env: 'LOGHERD_X' is not right"),
        ("{podTemplate: {volumes: [{name: v, hostPath: {path: /}}]}}", "spec.podTemplate.volumes: 'v' is a hostPath"),
        (
            "{podTemplate: {volumes: [{name: data, emptyDir: {}}]}}",
            "spec.podTemplate.volumes: 'data' is a volume that each pod",
        ),
        ("{podTemplate: {labels: {logherd.dev/x: y}}}", "spec.podTemplate.labels: logherd.dev/x has a prefix"),
        ("{podTemplate: {sidecars: [{name: s, securityContext: {privileged: true}}]}}", "'s' weakens the pod"),
        ("{terminationGracePeriodSeconds: 74}", "should be at least switchoverTimeoutSeconds + 45"),
        ("{update: {windows: [{cron: 'a b', durationMinutes: 5}]}}", "'a b' is not right: write five cron fields"),
        ("{update: {windows: [{cron: '0 3 * * 6', durationMinute: 5}]}}", "did you mean durationMinutes?"),
        ("{advertised: {addressTemplate: '{ip}'}}", "spec.advertised.addressTemplate: '{ip}' is not right"),
        ("{spark: {template: {sparkVersion: 3.5.1}}}", "write a version 4.x.y of Spark"),
        (
            "{reconcile: Off}",
            "spec.reconcile: false is not right: write Full, NoDisruption or Off; YAML",
        ),
        ("{compatibilityLevel: 2}", "spec.compatibilityLevel: 2 is not right"),
        ("3", "spec: 3 is not right"),
    ],
)
def test_every_fault_names_path_value_and_what_is_right(spec: str, expected: str) -> None:
    assert expected in complaint(spec)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD.replace("v1alpha1", "v1"), "apiVersion: 'logherd.dev/v1' is not right"),
        (HEAD.replace("BrokerGroup", "Deployment"), "kind: 'Deployment' is not right: write BrokerGroup"),
        (HEAD.replace("orders", "Orders"), "metadata.name: 'Orders' is not right: write lower-case letters"),
        (HEAD.replace("orders", "o" * 41), "at most 40 characters"),
        (HEAD + "kind: BrokerGroup\n", "line 4, column 1: the key kind appears twice"),
        (HEAD + "spec: {replicas: many}", "spec.replicas: 'many' is not right: write a whole number"),
        (HEAD + "spec: {replicas: null}", "spec.replicas: null is not right: write a whole number"),
        (HEAD + "spec: {storage: [1]}", "spec.storage: [1] is not right: write keys and values"),
        (HEAD + "spec: {image: ''}", "spec.image: '' is not right: write 1 or more characters"),
        (HEAD + "spec: {update: {windows: x}}", "spec.update.windows: 'x' is not right: write a list"),
        (HEAD + "---\n", "line 4, column 1: there should be one document, and a second one begins here"),
        ("[]", "should hold a BrokerGroup object, and holds a list"),
        ("", "should hold a BrokerGroup object, and holds nothing"),
        ("a: !!python/name:os.system", "line 1, column 4: no value has this tag; leave it out"),
        ("a: [", "line 1, column 5"),
        ("a: 2020-13-45", "line 1, column 4: there is no such number, time or truth value"),
        ("? [a, b]\n: c", "line 1, column 3: a key should be a text, in quotes where it begins with [ or {"),
        ("a: !!bool x", "line 1, column 4: there is no such number, time or truth value"),
        ("a: !!timestamp x", "line 1, column 4: there is no such number, time or truth value"),
        ("a: &a [*a]", "line 1, column 4: a value should not hold itself"),
        (REPEATED, "line 1, column 1: with what its aliases repeat it has more than 1048576 values"),
        ("{}", "metadata: missing; it has no default"),
    ],
)
def test_a_text_that_is_no_group_is_refused(text: str, expected: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_group(text, source="group.yaml")
    assert expected in str(caught.value)


@pytest.mark.parametrize("name", sorted(FORBIDDEN_CONFIG))
def test_no_config_key_can_override_a_field(name: str) -> None:
    assert f"{name} is owned by another field" in complaint(f"{{config: {{{name}: '1'}}}}")


def test_a_group_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        group().spec.replicas = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("quantity", "value"),
    [("500m", "0.5"), ("1Gi", 1 << 30), ("1.5G", 1_500_000_000), ("7", 7), ("2Ki", 2048), ("3E", 3 * 10**18),
     ("2Ei", 2 << 60), ("5e9", 5 * 10**9), ("1E3", 1000), ("12e-1", "1.2"), ("70u", "0.00007"), ("9n", "9e-9"),
     ("+.5k", 500), ("1.Ki", 1024)],
)  # fmt: skip
def test_quantities_are_numbers(quantity: str, value: str | int) -> None:
    assert float(quantity_value(quantity)) == float(value)


@pytest.mark.parametrize("text", ["", "Gi", "1GiB", "1 Gi", "1K", "--1", "."])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        quantity_value(text)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("{tls: {mode: Required, secretName: a}}", "spec.tls.mode: Required is not supported yet; this version"),
        ("{auth: {mode: Permissive}}", "spec.auth.mode: Permissive is not supported yet; this version knows Disabled"),
        (
            "{placement: {zoneSpread: Required, ackAcrossZones: true}}",
            "spec.placement.ackAcrossZones: true is not supported yet; this version knows false",
        ),
        ("{replication: {uncleanElection: true}}", "spec.replication.uncleanElection: true is not supported yet"),
        ("{runtime: {memoryPercent: 70}}", "spec.runtime.memoryPercent: 70 is not supported yet; this version knows"),
        ("{monitoring: {port: 9000}}", "spec.monitoring.port: 9000 is not supported yet; this version knows 5557"),
    ],
)
def test_what_nobody_would_do_is_refused_and_not_ignored(spec: str, expected: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_runnable(f"{HEAD}spec: {spec}\n", source="group.yaml")
    assert expected in str(caught.value)


def test_the_api_servers_defaults_of_what_is_not_supported_are_no_fault() -> None:
    spec = "{tls: {mode: Disabled}, monitoring: {port: 5557}, runtime: {memoryPercent: 60}}"
    assert parse_runnable(f"{HEAD}spec: {spec}\n", source="group.yaml").spec.replicas == 3


def test_an_object_of_the_api_servers_is_read_without_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """One user's large object would hold up everybody's."""
    affinity = {"x": [{"a": n} for n in range(100_000)]}
    spec = {"replicas": 5, "placement": {"affinity": affinity}}
    document = {"apiVersion": API_VERSION, "kind": "BrokerGroup", "metadata": {"name": "orders"}, "spec": spec}
    monkeypatch.delattr(yaml, "load")
    found = runnable_group(document, source="generation 3").spec
    assert (found.replicas, found.placement.affinity) == (5, affinity)


@pytest.mark.parametrize("spec", ["{replica: 3}", "{tls: {mode: Required, secretName: a}}", "{replicas: 9}"])
def test_an_object_is_refused_in_the_words_for_a_text(spec: str) -> None:
    text = f"{HEAD}spec: {spec}\n"
    with pytest.raises(SpecError) as of_text:
        parse_runnable(text, source="orders")
    with pytest.raises(SpecError) as of_object:
        runnable_group(yaml.safe_load(text), source="orders")
    assert str(of_object.value) == str(of_text.value)
