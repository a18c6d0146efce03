"""What the definition of BrokerGroup has a place for and nothing in this version does yet.

Nothing of it is ignored in silence: whoever asks for encryption must not take plain text for it.
"""

from pydantic import BaseModel

from logherd_operator.spec.group import BrokerGroup

__all__ = ["not_yet"]

_NOT_YET = (
    ("tls", "mode"), ("auth", "mode"), ("placement", "ack_across_zones"), ("replication", "unclean_election"),
    ("runtime", "memory_percent"), ("monitoring", "port"),
)  # fmt: skip


def not_yet(group: BrokerGroup) -> list[str]:
    """One sentence for each field that would do nothing; its default, which the API server fills in, is no wish."""
    found: list[str] = []
    for owner, name in _NOT_YET:
        part: BaseModel = getattr(group.spec, owner)
        field = type(part).model_fields[name]
        asked, known = getattr(part, name), field.default
        if asked != known:
            said, knows = (str(each).lower() if isinstance(each, bool) else each for each in (asked, known))
            found.append(f"spec.{owner}.{field.alias}: {said} is not supported yet; this version knows {knows}")
    return found
