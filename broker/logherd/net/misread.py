"""An error that its client would take for something else, and therefore does not hear.

The Java client before 5.0 takes any error in answer to the question where a group stands for "nowhere": it begins at
the queue's end, or where else a new group would, and commits that, so that whatever lay between is never consumed. When
it hears nothing within its five seconds it leaves the queue alone until the next rebalance.

Source: apache/rocketmq 4.9.8 and 5.0.0: client/consumer/store/RemoteBrokerOffsetStore.readOffset, and
client/impl/consumer/RebalancePushImpl.computePullFromWhereWithException.
"""

from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame

__all__ = ["is_misread"]

_LANGUAGE = "JAVA"
_UNDERSTOOD_FROM = 413
"""V5_0_0."""
_MEANT = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)


def is_misread(request: Frame, code: int) -> bool:
    """Whether the client that sent `request` would take an answer with this code for another one."""
    return (
        request.code == RequestCode.QUERY_CONSUMER_OFFSET and code not in _MEANT
        and request.version < _UNDERSTOOD_FROM and request.language == _LANGUAGE
    )  # fmt: skip
