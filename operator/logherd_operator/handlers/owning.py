"""Volumes belong to the group only while its spec says that they go with it; else nothing that happens to the group
touches them.
"""

from collections.abc import Mapping
from typing import Any

from logherd_operator.clients.api import Api
from logherd_operator.resources.site import Site
from logherd_operator.spec.group import KIND

__all__ = ["is_foreign", "is_of_former", "keep_owner"]

_OURS = ("app.kubernetes.io/managed-by", "app.kubernetes.io/instance")


def is_of_former(site: Site, metadata: Mapping[str, Any]) -> bool:
    """Does it belong to a group of this name that was deleted, and is about to go for that?"""
    owners = metadata.get("ownerReferences") or ()
    return any((each["kind"], each["name"]) == (KIND, site.name) and each["uid"] != site.uid for each in owners)


def is_foreign(site: Site, metadata: Mapping[str, Any]) -> bool:
    """Did somebody else make it? What has lost its owner, as one from a backup, still has the group's labels."""
    owners = metadata.get("ownerReferences") or ()
    if any((each["kind"], each["name"]) == (KIND, site.name) for each in owners):
        return False
    labels, ours = metadata.get("labels") or {}, site.labels()
    return any(labels.get(each) != ours[each] for each in _OURS)


async def keep_owner(api: Api, site: Site, metadata: Mapping[str, Any]) -> None:
    """Set or remove the group as an owner of a volume claim; owners that somebody else has set stay, and so does what
    goes with a former group of this name.

    Raises: as `Api.call`; Conflict for a claim that was exchanged or changed meanwhile.
    """
    wanted = site.group.spec.storage.retention.when_deleted == "Delete"
    others = [each for each in metadata["ownerReferences"] if each["uid"] != site.uid]
    if is_of_former(site, metadata) or (len(others) < len(metadata["ownerReferences"])) == wanted:
        return
    ours = site.metadata(metadata["name"])["ownerReferences"] if wanted else []
    seen = {name: metadata[name] for name in ("uid", "resourceVersion")}
    path = f"/api/v1/namespaces/{site.namespace}/persistentvolumeclaims/{metadata['name']}"
    await api.merge(path, {"metadata": {**seen, "ownerReferences": [*others, *ours]}})
