"""Which messages of a queue a pull wants: hashes of tags, from the request itself or from the group's heartbeats.

A queue knows the 32-bit hash of a tag only, so that a wrong message may pass; stock clients look at the tag again.

Source: apache/rocketmq: remoting/src/main/java/org/apache/rocketmq/remoting/protocol/filter/FilterAPI.java
"""

from functools import lru_cache
from typing import NoReturn

from logherd.kit.javahash import java_hash
from logherd.service.clients.registry import BROADCASTING, ClientRegistry
from logherd.service.errors import RequestError
from logherd.service.metadata import Metadata
from logherd.wire.codes import ResponseCode
from logherd.wire.headers.pull import PullFlag, PullMessageHeader

__all__ = ["FORBIDDEN_BROADCAST", "ForbiddenError", "find_tag_codes", "names_tags", "parse_tags"]

FORBIDDEN_BROADCAST = 4
_TAG = "TAG"
_ALL = "*"
_CACHED_LENGTH_MAX = 256
"""Characters. What is longer is taken apart each time: each of the longest would keep half a megabyte."""


class ForbiddenError(RequestError):
    """16, with the number that tells a client what is forbidden: 1 broker, 2 group, 3 topic, 4 broadcasting."""

    def __init__(self, forbidden_type: int, remark: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)
        self.forbidden_type = forbidden_type


def find_tag_codes(header: PullMessageHeader, registry: ClientRegistry, metadata: Metadata) -> frozenset[int] | None:
    """The wanted hashes, None for all messages.

    Raises: RequestError 1 for SQL and class filters, 23 for an expression that is none, 24 if the group is not
        connected or does not subscribe the topic, 25 if the broker has not heard of the newest subscription yet;
        ForbiddenError if the group may not broadcast.
    """
    if header.sys_flag & PullFlag.CLASS_FILTER:
        raise RequestError(ResponseCode.SYSTEM_ERROR, "class filters are not supported, subscribe by tags")
    if header.sys_flag & PullFlag.SUBSCRIPTION:
        if not names_tags(header):
            _refuse_expression(header.expression_type or "")
        return parse_tags(header.subscription or "")
    group_name, topic = header.consumer_group, header.topic
    group = registry.consumer_group(group_name)
    if group is None:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"group {group_name} has no connected consumer here, so its subscription is not known; send a heartbeat",
        )
    if group.profile.message_model == BROADCASTING:
        config = metadata.groups.get(group_name)
        if config is not None and not config.broadcast_enabled:
            raise ForbiddenError(FORBIDDEN_BROADCAST, f"group {group_name} may not consume by broadcasting")
    subscription = group.subscriptions.get(topic)
    if subscription is None:
        raise RequestError(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"group {group_name} does not subscribe topic {topic}")
    if subscription.version < header.subscription_version:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_NOT_LATEST,
            f"subVersion is {header.subscription_version}, the newest heartbeat of group {group_name} has "
            f"{subscription.version}; it follows with the next one",
        )
    if subscription.expression_type != _TAG:
        _refuse_expression(subscription.expression_type)
    return subscription.tag_codes


def names_tags(header: PullMessageHeader) -> bool:
    """Whether the pull wants messages by their tags, the one kind of expression that there is here."""
    return (header.expression_type or _TAG) == _TAG


def parse_tags(expression: str) -> frozenset[int] | None:
    """Hashes of the tags in `a || b`; None for all messages.

    Raises: RequestError 23 if separators are all there is.
    """
    return _parse_cached(expression) if len(expression) <= _CACHED_LENGTH_MAX else _parse(expression)


def _parse(expression: str) -> frozenset[int] | None:
    if not expression or expression == _ALL:
        return None
    tags = [tag for tag in map(str.strip, expression.split("||")) if tag]
    if not tags:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            f"subscription {expression[:64]!a} names no tag; write *, or tags with || between them",
        )
    return frozenset(map(java_hash, tags))


_parse_cached = lru_cache(maxsize=4096)(_parse)


def _refuse_expression(kind: str) -> NoReturn:
    raise RequestError(
        ResponseCode.SYSTEM_ERROR,
        f"expressionType is {kind[:32]!a}: this broker filters by TAG only, SQL92 is not supported",
    )
