"""StatefulSets: they keep places and volumes, and restart nothing by themselves."""

from logherd_operator.observed.slots import Component
from logherd_operator.resources.site import Document, Site

__all__ = ["workload"]


def workload(site: Site, component: Component, template: Document, count: int, *, claim: str | None = None) -> Document:
    """`count` places of a component, all started at once (a quorum needs its members together), replaced on order.

    `claim`: size of the volumes in the StatefulSet that is there; None: as the spec says.
    """
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": site.metadata(site.workload(component), component),
        "spec": {
            "replicas": count,
            "serviceName": site.headless(component),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "revisionHistoryLimit": 5,
            "selector": {"matchLabels": site.selector(component)},
            "template": template,
            "volumeClaimTemplates": [_claim(site, component, claim)],
        },
    }


def _claim(site: Site, component: Component, present: str | None) -> Document:
    storage, embedded = site.group.spec.storage, site.group.spec.controllers.embedded
    size = storage.size if component == "broker" or embedded is None else embedded.storage.size
    return {
        "metadata": {"name": "data", "labels": site.labels(component)},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            **({"storageClassName": storage.storage_class_name} if storage.storage_class_name else {}),
            "resources": {"requests": {"storage": present or size}},
        },
    }
