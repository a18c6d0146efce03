"""What a store raises. Every message names the file or the value, and what to do about it."""

from logherd.kit.errors import LogHerdError

__all__ = [
    "RawRefused", "RecordTooLarge", "ReplicaDamaged", "StoreDamaged", "StoreError", "StoreFull", "StoreInUse",
    "StoreStopped", "StoreVersionError",
]  # fmt: skip


class StoreError(LogHerdError):
    """Base of the family; `app` may catch it while opening, services map the subclasses to response codes."""


class StoreDamaged(StoreError):
    """The files do not hold what was promised. Nothing was changed; a person decides with `logherd store repair`."""

    def __init__(self, path: str, offset: int, what: str, directory: str) -> None:
        self.path = path
        self.offset = offset
        self.what = what
        self.command = f"logherd store repair {directory}"
        super().__init__(f"{path} at byte {offset}: {what}; nothing was changed, look with `{self.command}`")


class ReplicaDamaged(StoreError):
    """The log of a group's member does not hold what the member may have promised to the others.

    Nothing was changed. The member must not go on with these files: a vote or an acknowledgement could be given twice.
    """

    def __init__(self, path: str, offset: int, what: str) -> None:
        self.path = path
        self.offset = offset
        self.what = what
        super().__init__(
            f"{path} at byte {offset}: {what}; nothing was changed. Move the directory away and "
            "let this replica rejoin as a new member: the others hold what was committed"
        )


class StoreVersionError(StoreError):
    """The store was written in a format that this release does not know."""


class StoreInUse(StoreError):
    """Another process holds the lock of the store."""


class StoreStopped(StoreError):
    """A write or flush failed earlier: this process never reports another position durable. Restart to recover."""


class StoreFull(StoreError):
    """The disk is at its reserve. Nothing was appended; ends by itself when space returns."""


class RecordTooLarge(StoreError):
    """The record would not fit the configured limit, or half a segment. Nothing was appended."""


class RawRefused(StoreError):
    """Records of another replica are damaged, or do not continue this log. Nothing was appended."""
