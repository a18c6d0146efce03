"""Names of consumer groups.

Source: apache/rocketmq: client/src/main/java/org/apache/rocketmq/client/Validators.java
"""

import re

from logherd.service.errors import RequestError
from logherd.wire.codes import ResponseCode

__all__ = ["check_group_name"]

_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,255}\Z")


def check_group_name(group: str) -> None:
    """Raise RequestError 29 unless clients may use this as the name of a group."""
    if _NAME.match(group) is None:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"the group's name {group[:127]!a} is not 1 to 255 letters, digits, %, |, _ or -",
        )
