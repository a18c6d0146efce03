"""Volumes belong to the group only while its spec says that they go with it; else nothing that happens to the group
touches them.
"""

from logherd_operator.clients.api import Api
from logherd_operator.handlers.looking import Sight

__all__ = ["keep_owners"]


async def keep_owners(api: Api, sight: Sight) -> None:
    """Set or remove the owner of each volume claim. Raises: as `Api.call`; Conflict for a claim that was exchanged."""
    site = sight.site
    wanted = site.group.spec.storage.retention.when_deleted == "Delete"
    for claim in sight.claims:
        metadata = claim["metadata"]
        if (site.uid in metadata.get("owners", ())) == wanted:
            continue
        owners = site.metadata(metadata["name"])["ownerReferences"] if wanted else None
        path = f"/api/v1/namespaces/{sight.key.namespace}/persistentvolumeclaims/{metadata['name']}"
        await api.merge(path, {"metadata": {"uid": metadata["uid"], "ownerReferences": owners}})
