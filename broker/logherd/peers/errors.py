"""What is wrong with bytes of a peer, or with the file that says who we are."""

from logherd.kit.errors import LogHerdError

__all__ = ["CodecError", "FrameError", "IdentityError", "PeerError"]


class PeerError(LogHerdError):
    """Base of the errors of this room."""


class CodecError(PeerError):
    """An envelope, hello or refusal has no such bytes. `field` is what is wrong, as `append.runs`."""

    def __init__(self, field: str, what: str) -> None:
        super().__init__(f"{field}: {what}")
        self.field = field


class FrameError(PeerError):
    """The stream holds no frames from here on. `frames` are the whole ones that came before in the same read."""

    def __init__(self, what: str, frames: list[memoryview]) -> None:
        super().__init__(what)
        self.frames = frames


class IdentityError(PeerError):
    """The data directory is another replica's, or is no longer what it was. The process must not start with it."""
