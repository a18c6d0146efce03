"""What a caller of the native client has to deal with."""

from logherd.kit.errors import LogHerdError
from logherd.wire.codes import ResponseCode

__all__ = ["ClientError", "NoRoute", "Refused", "SendFailed", "Unreachable", "Unsendable"]


class ClientError(LogHerdError):
    """The family."""


class NoRoute(ClientError):
    """The name service knows no broker for this topic, or none that allows what is asked."""


class Unreachable(ClientError):
    """None of the addresses could be asked."""


class Refused(ClientError):
    """A broker or name service answered with a code that is no success. `remark` is its own explanation."""

    def __init__(self, code: int, remark: str | None, peer: str) -> None:
        known = ResponseCode(code).name if code in ResponseCode.__members__.values() else "unknown code"
        super().__init__(f"{peer} answered {code} ({known}): {remark or 'no remark'}")
        self.code = code
        self.remark = remark
        self.peer = peer


class Unsendable(ClientError):
    """A message cannot be sent as it is; nothing was sent."""


class SendFailed(ClientError):
    """A message was not acknowledged after all attempts.

    `unknown` tells whether an attempt may have stored it all the same: then sending it again may store it twice. The
    last attempt's error is the cause. `attempts` counts them.
    """

    def __init__(self, topic: str, *, attempts: int, unknown: bool, last: BaseException) -> None:
        outcome = "it may have been stored" if unknown else "it was not stored"
        tries = f"{attempts} attempt{'' if attempts == 1 else 's'}"
        super().__init__(f"message to {topic} not acknowledged in {tries}, {outcome}: {last}")
        self.attempts = attempts
        self.unknown = unknown
