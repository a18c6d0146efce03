"""The one way in which a handler refuses a request."""

from logherd.kit.errors import LogHerdError

__all__ = ["RequestError"]


class RequestError(LogHerdError):
    """Answered as this response code and remark by the dispatcher; nothing was changed.

    The remark is shown to users by stock clients: it names the field, its value and what is right, in ASCII.
    """

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
