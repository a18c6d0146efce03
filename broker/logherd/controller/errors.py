"""What may go wrong with the controllers' log."""

from logherd.kit.errors import LogHerdError

__all__ = ["CommandError", "ControllerError", "ImageError"]


class ControllerError(LogHerdError):
    """Base of this room's errors."""


class CommandError(ControllerError):
    """A record is of an unknown version or kind, or damaged. It cannot be skipped: the process must stop."""


class ImageError(ControllerError):
    """An image of the state is of an unknown version or damaged. The process must not start from it."""
