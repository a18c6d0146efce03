"""What can be wrong with metadata. `app` answers `MetadataDamagedError` by refusing to start."""

from logherd.kit.errors import LogHerdError

__all__ = ["MetadataDamagedError", "MetadataError", "MetadataRefusedError", "NotLeading"]


class MetadataError(LogHerdError):
    """Base of this family."""


class MetadataDamagedError(MetadataError):
    """The log holds no complete state any more, or a record of a newer LogHerd. Names queue offset and reason."""


class MetadataRefusedError(MetadataError):
    """The log takes no more records now: its disk is full beyond the reserve, or it stopped. Nothing was changed."""


class NotLeading(MetadataRefusedError):
    """This replica does not lead its group, so it changes nothing. Nothing was changed."""
