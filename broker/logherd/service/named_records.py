"""Records whose position a client names, as 33 and 309 do.

A message may hold what looks like the beginning of a record in that very place: its sender knows where the log ends. So
what is not whole there need not be damage, and nobody is to be told of any. What is damaged is met by who reads it in
its queue.
"""

from collections.abc import Callable

from logherd.service.errors import RequestError
from logherd.store import StoreDamaged
from logherd.wire.codes import ResponseCode

__all__ = ["record_named"]


def record_named(record_at: Callable[[int], memoryview | None], position: int) -> memoryview | None:
    """The record that begins at `position`, None if none does. Raises: RequestError 1 if it is not whole."""
    try:
        return record_at(position)
    except StoreDamaged as error:
        raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from error
