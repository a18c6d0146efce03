"""Names of consumer groups.

RocketMQ's clients take 255 letters, its newer brokers 120 (apache/rocketmq#9563). But a queue's files lie in a folder
with its topic's name, here as there, and no file system takes one of more than 255 bytes; a retry topic is named by its
group.

Source: apache/rocketmq: client/src/main/java/org/apache/rocketmq/client/Validators.java
"""

import re
from typing import Final

from logherd.model.topic import RETRY_PREFIX
from logherd.service.errors import RequestError
from logherd.service.topic_names import RETRY_NAME_BYTES_MAX
from logherd.wire.codes import ResponseCode

__all__ = ["check_group_name"]

_LENGTH_MAX: Final = RETRY_NAME_BYTES_MAX - len(RETRY_PREFIX)
_NAME = re.compile(rf"[%|a-zA-Z0-9_-]{{1,{_LENGTH_MAX}}}\Z")


def check_group_name(group: str) -> None:
    """Raise RequestError 29 unless clients may use this as the name of a new group."""
    if _NAME.match(group) is None:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"the group's name {group[:127]!a} is not 1 to {_LENGTH_MAX} letters, digits, %, |, _ or -",
        )
