"""The value in the two slots of `promises`: term and vote, where the log begins, and how far it is known to be flushed.

Compact JSON inside a slot of `store.slots`, which brings magic, version, counter and checksum:

    {"cluster":"c","reset":0,"owner":"a.1","term":4,"vote":"b.1","baseEpoch":1,"basePosition":56,"baseSeal":7,
     "markPosition":128,"markSeal":9,"loose":0,"doubtful":false}

An empty owner means that nothing was promised yet.
"""

import msgspec

from logherd.model.names import Epoch, Position
from logherd.raft.store import HardState
from logherd.replication.epochs import Point
from logherd.replication.messages import ClusterId, ReplicaId
from logherd.store.errors import StoreVersionError

__all__ = ["Kept", "decode_kept", "encode_kept"]


class Kept(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Invariants: (1) base <= mark; (2) every record up to the mark was flushed before this value was."""

    cluster: str = ""
    reset: int = 0
    owner: str = ""
    term: int = 0
    vote: str | None = None
    base_epoch: int = 0
    base_position: int = 0
    base_seal: int = 0
    mark_position: int = 0
    mark_seal: int = 0
    loose: int = 0
    """Records of a part that was cut may still lie between the log's end and this position; 0 if none do."""
    doubtful: bool = False
    """Damage was found that may have taken promises or acknowledged records, and no leader has made good for it."""

    @property
    def base(self) -> Point:
        """The last point that is not kept."""
        return Point(Epoch(self.base_epoch), Position(self.base_position))

    @property
    def hard_state(self) -> HardState | None:
        """What Raft promised; None if nothing yet."""
        if not self.owner:
            return None
        vote = None if self.vote is None else ReplicaId(self.vote)
        cluster = ClusterId(self.cluster, self.reset)
        return HardState(cluster, ReplicaId(self.owner), Epoch(self.term), vote, self.doubtful)

    def with_hard_state(self, state: HardState) -> "Kept":
        """The same with another promise."""
        return msgspec.structs.replace(
            self, cluster=state.cluster.name, reset=state.cluster.reset, owner=state.owner, term=state.term,
            vote=state.vote, doubtful=state.doubtful,
        )  # fmt: skip


def encode_kept(value: Kept) -> bytes:
    """The slot's value."""
    return msgspec.json.encode(value)


def decode_kept(data: bytes) -> Kept:
    """The inverse; the slot's checksum holds. Raises: StoreVersionError for what a later release wrote."""
    try:
        return msgspec.json.decode(data, type=Kept)
    except msgspec.ValidationError as error:
        raise StoreVersionError(f"promises of a later release: {error}") from error
