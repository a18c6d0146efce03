"""The one error of this room."""

from logherd.kit.errors import LogHerdError

__all__ = ["SettingsError"]


class SettingsError(LogHerdError):
    """A setting is wrong; each line of the message names the path, the value and what is right.

    Raised before anything is started or changed. Whoever reads a file or an update request may catch it.
    """
