"""Nothing in a BrokerGroup is ignored in silence: every field is acted on, refused, or named as Kubernetes-only."""

import pytest

from logherd_operator.local.support import kubernetes_only, refusals
from logherd_operator.spec.document import parse_group
from logherd_operator.spec.group import BrokerGroup, BrokerGroupSpec
from logherd_operator.spec.machine import Storage
from logherd_operator.spec.replication import Replication

ACTED_ON = {"replicas", "clusterName", "nameService", "config", "storage", "replication", "compatibilityLevel"}
ACTED_ON |= {"controllers", "failover", "switchoverTimeoutSeconds", "reconcile", "update"}
ACTED_ON |= {"tls", "auth"}  # their one supported mode is what they are without
EXAMPLES = {
    "image": "'a'", "imagePullSecrets": "[]", "imagePullPolicy": "Never", "terminationGracePeriodSeconds": "100",
    "clusterDomain": "a.b",
}  # fmt: skip


def group(spec: str) -> BrokerGroup:
    head = "apiVersion: logherd.dev/v1alpha1\nkind: BrokerGroup\nmetadata: {name: orders}\n"
    return parse_group(f"{head}spec: {spec}\n", source="test")


@pytest.mark.parametrize("alias", sorted(str(field.alias) for field in BrokerGroupSpec.model_fields.values()))
def test_every_field_is_acted_on_refused_or_named(alias: str) -> None:
    if alias in ACTED_ON:
        return
    asked = group(f"{{replicas: 1, {alias}: {EXAMPLES.get(alias, '{}')}}}")
    told = [line.partition(":")[0] for line in refusals(asked)] + kubernetes_only(asked)
    assert told == [f"spec.{alias}"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("{controllers: {ref: {name: a}}}", "spec.controllers.ref: is not supported on one machine; a group there has"),
        ("{update: {strategy: Manual}}", "spec.update.strategy: Manual is not supported on one machine; leave it out"),
        (
            "{replication: {mode: Raft, lagTimeoutMs: 900}}",
            "spec.replication.lagTimeoutMs: has no effect with replicat",
        ),
        (
            "{replication: {mode: Static}, failover: {heartbeatIntervalMs: 900}}",
            "spec.failover.heartbeatIntervalMs: has",
        ),
        ("{replicas: 1, replication: {uncleanElection: false}}", "spec.replication.uncleanElection: is not supported"),
        ("{replicas: 1, tls: {mode: Required, secretName: a}}", "spec.tls.mode: Required is not supported yet"),
        ("{replicas: 1, auth: {mode: Permissive}}", "spec.auth.mode: Permissive is not supported yet"),
        ("{runtime: {}}", "spec.runtime: is not supported yet; leave it out"),
    ],
)
def test_a_refusal_names_the_field_and_what_is_supported(spec: str, expected: str) -> None:
    refused = refusals(group(spec))
    assert len(refused) == 1
    assert refused[0].startswith(expected)


def test_what_one_broker_can_do_is_not_refused() -> None:
    spec = "{replicas: 1, clusterName: a, replication: {flush: Async, minInSyncReplicas: 1}, config: {a: b}}"
    assert refusals(group(spec)) == []
    assert kubernetes_only(group(spec)) == []


def test_every_replication_field_is_acted_on_or_refused() -> None:
    acted_on = {"flush", "minInSyncReplicas", "lagTimeoutMs", "mode", "static"}
    for field in Replication.model_fields.values():
        if field.alias in acted_on:
            continue
        assert len(refusals(group(f"{{replicas: 1, replication: {{{field.alias}: true}}}}"))) == 1


def test_a_group_that_leads_itself_is_not_refused() -> None:
    assert refusals(group("{replication: {mode: Raft}}")) == []
    assert (
        refusals(group("{replication: {mode: Static, static: {leader: 2, synchronous: [1]}, lagTimeoutMs: 900}}")) == []
    )


def test_every_storage_field_is_acted_on_or_named() -> None:
    for field in Storage.model_fields.values():
        if field.alias in ("reservedPercent", "retention"):
            continue
        value = {"size": "1Gi", "storageClassName": "a"}.get(str(field.alias), "{}")
        asked = group(f"{{replicas: 1, storage: {{{field.alias}: {value}}}}}")
        assert kubernetes_only(asked) == [f"spec.storage.{field.alias}"]


def test_what_of_an_update_matters_on_kubernetes_only_is_named() -> None:
    asked = group("{update: {podReadyTimeoutSeconds: 100, soakSeconds: 3}, controllers: {embedded: {storage: {}}}}")
    assert kubernetes_only(asked) == ["spec.update.podReadyTimeoutSeconds", "spec.controllers.embedded.storage"]
    assert refusals(asked) == []
