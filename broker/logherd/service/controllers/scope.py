"""Which group is meant when a request names no cluster, as RocketMQ's do."""

from logherd.controller.office import Office
from logherd.controller.values import GroupKey
from logherd.service.errors import RequestError
from logherd.wire.codes import ResponseCode

__all__ = ["key_of"]


def key_of(office: Office, cluster: str | None, name: str) -> GroupKey:
    """The group of this name; of an unknown one, a key that no group has.

    Raises: RequestError if two clusters have one of this name and none is named.
    """
    if cluster:
        return GroupKey(cluster, name)
    named = office.machine.named(name)
    # Of one whose brokers were all forgotten nothing but its epoch is left: it hides no other one.
    found = [group.key for group in named if group.replicas] or [group.key for group in named[:1]]
    if len(found) > 1:
        clusters = ", ".join(sorted(key.cluster for key in found))
        raise RequestError(
            ResponseCode.CONTROLLER_INVALID_REQUEST, f"groups of clusters {clusters} have the name {name}: name one"
        )
    return found[0] if found else GroupKey("", name)
