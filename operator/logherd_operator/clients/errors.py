"""How a call to the API server can end badly."""

import http
from typing import Any

from logherd_operator.spec.errors import OperatorError

__all__ = [
    "ClusterError", "Conflict", "FailedAt", "NotFound", "NotNow", "OwnFault", "Refused", "Unreachable", "refusal",
]  # fmt: skip


class ClusterError(OperatorError):
    """Base of this room's errors."""


class Unreachable(ClusterError):
    """Nobody answered in time; what was asked for may have been done all the same."""


class OwnFault(Unreachable):
    """The API server answered that it failed (500 and above), for a reason of its own."""


class FailedAt(OwnFault):
    """It failed at this one thing (500), as where no address is left for a Service: others it may carry out."""


class Refused(ClusterError):
    """The answer was no, and nothing was done. `document`: the answer itself."""

    def __init__(self, status: int, message: str, document: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.document = document or {}


class NotFound(Refused):
    """There is no such object (404)."""


class Conflict(Refused):
    """A precondition does not hold, or it exists already (409)."""


class NotNow(Refused):
    """Too many requests, or a disruption budget holds it back (429)."""


_WEBHOOK = "failed calling webhook"
"""In the API server's words when it could not ask somebody who has a say in a change, which was not done then."""

_KINDS: dict[int, type[Refused]] = {404: NotFound, 409: Conflict, 429: NotNow}


def refusal(call: str, status: int, document: dict[str, Any]) -> ClusterError:
    """The error for an answer of the API server; its own faults leave open what was done.

    That a webhook does not answer is none: it is about certain objects, and lasts for as long as that webhook is away.
    """
    said = str(document.get("message") or document.get("reason") or "no reason was given")
    message = f"{call}: {status}: {said}"
    if status >= 500 and _WEBHOOK not in said:
        return FailedAt(message) if status == http.HTTPStatus.INTERNAL_SERVER_ERROR else OwnFault(message)
    return _KINDS.get(status, Refused)(status, message, document)
