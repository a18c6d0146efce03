"""Volumes belong to the group only while its spec says that they go with it; else nothing that happens to the group
touches them.
"""

from logherd_operator.clients.api import Api
from logherd_operator.handlers.looking import Sight

__all__ = ["keep_owners"]


async def keep_owners(api: Api, sight: Sight) -> None:
    """Set or remove the group as an owner of each volume claim; owners that somebody else has set stay.

    Raises: as `Api.call`; Conflict for a claim that was exchanged or changed meanwhile.
    """
    site = sight.site
    wanted = site.group.spec.storage.retention.when_deleted == "Delete"
    for claim in sight.claims:
        metadata = claim["metadata"]
        others = [each for each in metadata["ownerReferences"] if each["uid"] != site.uid]
        if (len(others) < len(metadata["ownerReferences"])) == wanted:
            continue
        ours = site.metadata(metadata["name"])["ownerReferences"] if wanted else []
        seen = {name: metadata[name] for name in ("uid", "resourceVersion")}
        path = f"/api/v1/namespaces/{sight.key.namespace}/persistentvolumeclaims/{metadata['name']}"
        await api.merge(path, {"metadata": {**seen, "ownerReferences": [*others, *ours]}})
