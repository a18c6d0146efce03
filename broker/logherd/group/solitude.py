"""A leader that its controllers hear, and that hears too few of its set to commit anything: it gives way (G6).

Another member may hear more: the controllers prefer any other one that reports. If there is none, this replica leads
again and waits twice as long, so that a group whose others are gone does not change epochs for nothing.
"""

from logherd.group.options import GroupOptions

__all__ = ["Solitude"]


class Solitude:
    """Outlives leaderships: `patience_ms` grows with each that was given up, until there is company again."""

    def __init__(self, options: GroupOptions) -> None:
        self._options = options
        self.patience_ms = options.alone_ms

    def retime(self, options: GroupOptions) -> None:
        """Other times from now on."""
        self._options = options

    def over(self) -> None:
        """Enough members were heard."""
        self.patience_ms = self._options.alone_ms

    def given_up(self) -> None:
        """A leadership ends because of it."""
        self.patience_ms = min(2 * self.patience_ms, self._options.alone_ms_max)
