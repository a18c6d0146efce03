"""The errors of this room."""

from logherd_operator.spec.errors import OperatorError

__all__ = ["LocalError", "NotRunning"]


class LocalError(OperatorError):
    """Something on this machine is in the way; one sentence says what and how to go on."""


class NotRunning(LocalError):
    """There is no group, or none of its processes lives."""
