"""What several fields must agree on, and what may not change, in the language of the API server (CEL).

Each rule has a twin among the validators of the models, or is about a change, which a model cannot see: those stand in
`transitions`. Both ends are tried with the same documents (tests/unit/operator_spec/documents).
"""

from collections.abc import Iterable
from typing import NamedTuple

from logherd_operator.spec.group import FORBIDDEN_CONFIG, FORBIDDEN_CONFIG_PREFIX, GROUP_NAME_LENGTH_MAX
from logherd_operator.spec.pods import (
    CONTAINER,
    OWN_VARIABLES,
    OWN_VOLUMES,
    RESERVED_PREFIXES,
    VARIABLES_PREFIX,
    WEAKENING,
)

__all__ = ["RULES", "Rule"]


class Rule(NamedTuple):
    """One rule: the path of the object that it is about, `[]` for each of a list; what holds; what a person reads."""

    path: str
    expression: str
    message: str


def _one_step(field: str) -> Rule:
    return Rule(
        f"spec.{field}",
        "self.mode == oldSelf.mode || self.mode == 'Permissive' || oldSelf.mode == 'Permissive'",
        f"{field}.mode changes one step at a time: Disabled, Permissive, Required",
    )


def _kept(owner: str, field: str) -> Rule:
    return Rule(
        owner,
        f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        f"{field} cannot be changed",
    )


def _kept_key(key: str, why: str) -> Rule:
    # A rule on `spec.config` itself would be passed over where one of both has no `config`.
    there, was = (f"(has({owner}.config) && '{key}' in {owner}.config)" for owner in ("self", "oldSelf"))
    return Rule(
        "spec",
        f"{there} == {was} && (!{there} || self.config['{key}'] == oldSelf.config['{key}'])",
        f"{key} cannot be changed: {why}",
    )


def _grows(owner: str) -> Rule:
    return Rule(
        owner,
        "quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0",
        "size can grow and never shrinks",
    )


def _memory(owner: str) -> tuple[Rule, Rule]:
    return (
        Rule(owner, "has(self.limits.memory)", "limits.memory is required, because the broker sizes its buffers by it"),
        Rule(
            owner,
            "!has(self.requests.memory) || !has(self.limits.memory) || "
            "quantity(self.requests.memory).compareTo(quantity(self.limits.memory)) <= 0",
            "requests.memory should not be above limits.memory",
        ),
    )


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


_FORBIDDEN = _quoted(sorted(FORBIDDEN_CONFIG))
_RESERVED = " && ".join(f"!k.startsWith('{prefix}')" for prefix in RESERVED_PREFIXES)
_CONTEXT = " && ".join(
    f"(!has(self.securityContext.{key}) || self.securityContext.{key} != {str(value).lower()})"
    for key, value in WEAKENING.items()
)

RULES: tuple[Rule, ...] = (
    Rule(
        "",
        f"self.metadata.name.size() <= {GROUP_NAME_LENGTH_MAX} && "
        "self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')",
        f"the name is a DNS label of at most {GROUP_NAME_LENGTH_MAX} characters that begins with a letter, because "
        "names of Services and others derive from it",
    ),
    Rule(
        "",
        "self.spec.replication.mode != 'Controller' || !has(self.spec.controllers.ref) || "
        "self.spec.controllers.ref.name != self.metadata.name",
        "spec.controllers.ref.name names this group itself, which has no controllers then",
    ),
    Rule(
        "spec",
        "!has(self.replication.minInSyncReplicas) || self.replication.minInSyncReplicas <= self.replicas",
        "replication.minInSyncReplicas is above replicas",
    ),
    Rule(
        "spec",
        "self.terminationGracePeriodSeconds >= self.switchoverTimeoutSeconds + 45",
        "terminationGracePeriodSeconds should be at least switchoverTimeoutSeconds + 45",
    ),
    Rule(
        "spec",
        "!self.placement.ackAcrossZones || (self.placement.zoneSpread == 'Required' && self.replicas >= 3)",
        "placement.ackAcrossZones needs zoneSpread Required and at least 3 replicas",
    ),
    _kept("spec", "clusterName"),
    _kept_key("mappedFileSizeCommitLog", "replicas with segments of different lengths cannot copy from each other"),
    Rule("spec.clusterDomain", "self == oldSelf", "clusterDomain cannot be changed"),
    Rule("spec.compatibilityLevel", "self >= oldSelf", "compatibilityLevel only rises"),
    Rule("spec.replication.mode", "self == oldSelf", "mode cannot be changed"),
    Rule("spec.replication", "!has(self.static) || self.mode == 'Static'", "static is for mode Static"),
    Rule(
        "spec.replication",
        "self.mode == 'Controller' || !has(self.minInSyncReplicas)",
        "minInSyncReplicas is for mode Controller",
    ),
    Rule(
        "spec.replication",
        "self.mode != 'Raft' || self.flush == 'Sync'",
        "mode Raft needs flush Sync, because a vote rests on what is on disk",
    ),
    Rule(
        "spec.replication.static",
        "!has(self.synchronous) || self.synchronous.all(n, n != self.leader && self.synchronous.exists_one(m, m == n))",
        "synchronous names followers, each once; the leader is none of them",
    ),
    Rule("spec.replication.static", "!has(self.copies) || has(self.synchronous)", "copies needs synchronous"),
    Rule(
        "spec.replication.static",
        "!has(self.copies) || !has(self.synchronous) || (self.copies <= self.synchronous.size() + 1 && "
        "(self.copies >= 2 || self.synchronous.size() == 0))",
        "copies is from 2 to one more than synchronous has",
    ),
    Rule(
        "spec",
        "!has(self.replication.static) || (self.replication.static.leader <= self.replicas && "
        "(!has(self.replication.static.synchronous) || "
        "self.replication.static.synchronous.all(n, n <= self.replicas)))",
        "replication.static names a broker above replicas",
    ),
    _kept("spec.replication", "static"),
    _grows("spec.storage"),
    _kept("spec.storage", "storageClassName"),
    Rule(
        "spec.controllers",
        "has(self.embedded) != has(self.ref)",
        "exactly one of embedded and ref should be given",
    ),
    Rule("spec.controllers", "has(self.embedded) == has(oldSelf.embedded)", "embedded and ref cannot be exchanged"),
    Rule("spec.controllers.embedded.replicas", "self == oldSelf", "the number of controllers cannot be changed"),
    _grows("spec.controllers.embedded.storage"),
    Rule("spec.controllers.ref.name", "self == oldSelf", "the group with the controllers cannot be changed"),
    Rule(
        "spec",
        "self.replication.mode != 'Controller' || has(self.controllers.ref) || "
        "self.failover.leaseMs >= 3 * self.failover.heartbeatIntervalMs",
        "failover.leaseMs should be at least 3 x failover.heartbeatIntervalMs",
    ),
    Rule(
        "spec.nameService",
        "(self.mode == 'External') == (has(self.addresses) && self.addresses.size() > 0)",
        "External needs at least one address, Embedded none",
    ),
    *_memory("spec.resources"),
    *_memory("spec.controllers.embedded.resources"),
    Rule(
        "spec.config",
        f"self.all(k, !(k in [{_FORBIDDEN}]) && !k.startsWith('{FORBIDDEN_CONFIG_PREFIX}'))",
        "a key is owned by another field of the spec and cannot stand here",
    ),
    Rule("spec.config", "self.all(k, k.matches('^[A-Za-z][A-Za-z0-9]*$'))", "a key is no property name"),
    Rule(
        "spec.tls",
        "self.mode == 'Disabled' || has(self.secretName) != has(self.certManager)",
        "a mode other than Disabled needs exactly one of secretName and certManager",
    ),
    _one_step("tls"),
    _one_step("auth"),
    Rule("spec.podTemplate.labels", f"self.all(k, {_RESERVED})", "a label has a prefix that is reserved"),
    Rule("spec.podTemplate.annotations", f"self.all(k, {_RESERVED})", "an annotation has a prefix that is reserved"),
    Rule(
        "spec.podTemplate.env[]",
        f"!self.name.startsWith('{VARIABLES_PREFIX}') && !(self.name in [{_quoted(OWN_VARIABLES)}])",
        f"a variable begins with {VARIABLES_PREFIX} or is {' or '.join(OWN_VARIABLES)}",
    ),
    Rule("spec.podTemplate.volumes[]", "!has(self.hostPath)", "use a volume that moves with the pod, no hostPath"),
    Rule(
        "spec.podTemplate.volumes[]",
        f"!(self.name in [{_quoted(OWN_VOLUMES)}])",
        f"a volume has a name that each pod has already: {', '.join(OWN_VOLUMES)}",
    ),
    Rule(
        "spec.podTemplate.sidecars[]", f"self.name != '{CONTAINER}'", f"{CONTAINER} is the container that each pod has"
    ),
    Rule(
        "spec.podTemplate.sidecars[]",
        f"!has(self.securityContext) || ({_CONTEXT})",
        "a sidecar weakens the pod's security context",
    ),
)
