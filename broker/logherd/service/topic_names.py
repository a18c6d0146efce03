"""Names of topics.

Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/topic/TopicValidator.java
"""

import re

from logherd.model.topic import DLQ_PREFIX, RETRY_PREFIX
from logherd.service.errors import RequestError
from logherd.wire.codes import ResponseCode

__all__ = ["NAME_BYTES_MAX", "RETRY_NAME_BYTES_MAX", "check_topic_name"]

NAME_BYTES_MAX = 127
RETRY_NAME_BYTES_MAX = 255
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+\Z")


def check_topic_name(topic: str) -> None:
    """Raise RequestError 29 unless clients may use this as the name of a topic."""
    if not topic:
        raise RequestError(ResponseCode.INVALID_PARAMETER, "the topic's name is empty")
    if _NAME.match(topic) is None:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"the topic's name {topic[:NAME_BYTES_MAX]!a} has characters other than letters, digits, %, |, _ and -",
        )
    limit = RETRY_NAME_BYTES_MAX if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else NAME_BYTES_MAX
    if len(topic) > limit:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER, f"the topic's name has {len(topic)} characters, at most {limit} are allowed"
        )
