"""What can go wrong with a request that we sent."""

from logherd.kit.errors import LogHerdError

__all__ = ["ConnectFailed", "ConnectionLost", "NetError", "RequestTimeout"]


class NetError(LogHerdError):
    """Base of the errors of an outgoing connection. `peer` is host:port."""

    def __init__(self, message: str, peer: str) -> None:
        super().__init__(message)
        self.peer = peer


class ConnectFailed(NetError):
    """No connection could be made; no byte of any request left."""


class ConnectionLost(NetError):
    """The connection ended before the answer came.

    `written` tells failed from unknown: False means that no byte of the request was handed to the system, so that it
    was certainly not executed and may be sent again; True means that it may have been executed.
    """

    def __init__(self, peer: str, *, written: bool, reason: str) -> None:
        outcome = "the outcome is unknown" if written else "the request was not sent"
        super().__init__(f"connection to {peer} lost ({reason}); {outcome}", peer)
        self.written = written


class RequestTimeout(NetError):
    """No answer came within the deadline; the request may have been executed or may still be."""

    def __init__(self, peer: str, seconds: float) -> None:
        super().__init__(f"no answer from {peer} within {seconds:g} s", peer)
