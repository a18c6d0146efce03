"""The flags of a send: which ask for features, and which are the record's own affair."""

from logherd.model.record import SysFlag
from logherd.service.errors import RequestError
from logherd.wire.codes import ResponseCode

__all__ = ["CHECKED_FLAGS", "check_flags"]

_INNER_BATCH = 0xC0
_HOST_V6 = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6
CHECKED_FLAGS = SysFlag.TRANSACTION_MASK | _INNER_BATCH | _HOST_V6
"""Flags with none of these bits are stored as they are."""


def check_flags(sys_flag: int) -> int:
    """The flags that are stored: the host bits are the record's own affair. Raises RequestError 3 for features."""
    if sys_flag & SysFlag.TRANSACTION_MASK:
        raise RequestError(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            f"sysFlag is {sys_flag}: transactions are not supported, the message was not stored",
        )
    if sys_flag & _INNER_BATCH:
        raise RequestError(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            f"sysFlag is {sys_flag}: inner batches are not supported, the message was not stored",
        )
    return sys_flag & ~_HOST_V6
