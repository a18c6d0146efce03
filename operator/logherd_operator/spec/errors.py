"""The root of the operator's errors, and the one of this room."""

__all__ = ["OperatorError", "SpecError"]


class OperatorError(Exception):
    """Base of all errors that mean something to a user; the message names the thing, the value and what is right."""


class SpecError(OperatorError):
    """A BrokerGroup document is wrong; each line names path, value and what is right. Nothing was started."""
