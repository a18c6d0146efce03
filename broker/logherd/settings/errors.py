"""The one error of this room."""

from logherd.kit.errors import LogHerdError

__all__ = ["SettingsError", "SettingsUncheckedError"]


class SettingsError(LogHerdError):
    """A setting is wrong; each line of the message names the path, the value and what is right.

    Raised before anything is started or changed. Whoever reads a file or an update request may catch it.
    """


class SettingsUncheckedError(SettingsError):
    """Nobody could say, or not in time, whether a change is right; it was not made, and may be asked for again."""
