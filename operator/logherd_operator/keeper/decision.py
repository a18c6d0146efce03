"""What the slice should say, decided from what the controller beside us confirms. Pure.

Rules (H17):
 1. Only who hears a confirmed, live page changes the slice; and who changed it last, to empty it.
 2. A leader goes in only with an epoch at least as high as the slice's; one of the same epoch only at another address.
 3. Who hears the leader confirmed makes the slice its own, also where nothing else changes: so whoever held it before
    finds another version, and does not empty it because its own controller leads no longer.
 4. One lease after the last confirmed leader the slice is empty. Not sooner: the guardian of a dead leader still passes
    connections on, so between two leaders the old address is better than none.
 5. What stands in it is read again now and then: nobody says so when somebody empties the slice, or deletes it and the
    operator makes a new one.
 6. An API server that has too much to do, or refuses a change, is asked more and more seldom, but once in a lease.
 7. One that does not answer in time is given twice as long with each try, while the slice is not known to lead to the
    leader, and one that took its time is given twice that: else one that needs a second would never be heard, and be
    too late when the slice is to be emptied. Else no request may hold up the next question.
 8. Whoever was heard before a slow answer is asked for again before the slice is changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["EPOCH", "HOLDER", "Change", "Heard", "Keeper", "Slice", "heard_of", "slice_of"]

EPOCH = "logherd.dev/epoch"
HOLDER = "logherd.dev/kept-by"
_AGAIN = 10.0
"""Seconds between two readings of a slice that stands as it should, or that is not there."""
_PATIENCE = 3.0
"""Seconds for a request to the API server at most, and a lease at most, if that is more than the time between two
questions: a leader that was heard before it may have gone since."""
_DIGITS_MAX = 18


class Heard(NamedTuple):
    """What the controller said: the epoch, and where the leader renews its lease from; "" if nobody leads."""

    epoch: int
    address: str


class Slice(NamedTuple):
    """What the slice says."""

    version: str
    epoch: int
    address: str
    holder: str


@dataclass(frozen=True, slots=True)
class Change:
    """To be patched over exactly `version`."""

    version: str
    epoch: int
    address: str


def heard_of(status: int, document: Mapping[str, Any]) -> Heard | None:
    """From the controller's page of the group; None unless the leading controller says it, confirmed by its quorum."""
    try:
        if status != 200 or not (document["confirmed"] and document["live"]):
            return None
        leader = document["leader"]
        leads = leader is not None and leader["serving"] and leader.get("renewedFrom")
        return Heard(epoch=int(document["epoch"]), address=str(leader["renewedFrom"]) if leads else "")
    except (KeyError, TypeError, ValueError):
        return None


def slice_of(document: Mapping[str, Any]) -> Slice:
    """From the EndpointSlice."""
    metadata = document["metadata"]
    notes: Mapping[str, str] = metadata.get("annotations") or {}
    epoch = notes.get(EPOCH, "")
    addresses = [each for endpoint in document.get("endpoints") or () for each in endpoint.get("addresses") or ()]
    return Slice(
        version=str(metadata["resourceVersion"]), epoch=int(epoch) if _is_number(epoch) else 0,
        address=str(addresses[0]) if addresses else "", holder=notes.get(HOLDER, ""),
    )  # fmt: skip


def _is_number(text: str) -> bool:
    """Digits, and not more than Python makes a number of."""
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


class Keeper:
    """One sidecar. Times in seconds of a clock that is never set back."""

    def __init__(self, name: str, lease: float, now: float) -> None:
        """`name` is this sidecar's; `lease` the brokers'."""
        self._name = name
        self._lease = lease
        self._confirmed: Heard | None = None
        self._leader_at = now
        self._heard_at = float("-inf")
        self._again_at: float | None = None
        """Since when it hears its controller again after a gap, until the slice has told whether another kept it."""
        self._stands: Slice | None = None
        self._read_at: float | None = None
        self._refused_at = float("-inf")
        self._rest = 0.0
        self._patience = 0.0

    def needs_slice(self, now: float) -> bool:
        """Has the slice to be read before anything is decided?"""
        if self._read_at is None:
            return True
        # Without a leader nothing is put in, and what is left of the lease is for emptying.
        led = self._confirmed is not None and bool(self._confirmed.address)
        return (led or self._stands is None) and now - self._read_at >= _AGAIN

    @property
    def confirmed(self) -> int | None:
        """The epoch whose leader the slice leads to, for all that is known here; None if that is not known. Nobody else
        empties a slice that is this sidecar's."""
        stands, heard = self._stands, self._confirmed
        if stands is None or heard is None or not heard.address:
            return None
        same = stands.epoch == heard.epoch and (stands.address, stands.holder) == (heard.address, self._name)
        return heard.epoch if same else None

    def patience(self, pause: float) -> float:
        """How long the next request to the API server may take. `pause`: between two questions to the controller."""
        if self.confirmed is not None:
            return pause
        return max(pause, min(self._patience, _PATIENCE, self._lease))

    def left(self, now: float) -> float:
        """Of the lease within which a slice without a leader is empty."""
        return self._leader_at + self._lease - now

    def answered(self, seconds: float, pause: float) -> None:
        """The API server answered, whatever it was, after so long."""
        self._patience = 2 * seconds if seconds > pause else 0.0

    def unanswered(self, seconds: float) -> None:
        """The API server did not answer in that time."""
        if self.confirmed is None:
            self._patience = 2 * seconds

    def read(self, stands: Slice, now: float) -> None:
        """The slice as it was read, or as our patch left it."""
        if self._again_at is not None and stands.holder != self._name:
            self._leader_at = max(self._leader_at, self._again_at)
        self._again_at = None
        self._stands, self._read_at = stands, now

    def missed(self, now: float) -> None:
        """There is no such slice, or it is not ours to read."""
        self._stands, self._read_at = None, now

    def unread(self, now: float) -> None:
        """Nobody answered. What stood there stands: without an API server nobody can have changed it."""
        self._read_at = now if self._stands is not None else None

    def refused(self, now: float, pause: float) -> None:
        """The API server answered, with no. The first time it is asked again in the next round, `pause` seconds later;
        then more seldom each time, but once in a lease, because a new leader waits for it."""
        again = now - self._refused_at < 2 * self._lease
        self._rest = min(2 * self._rest + pause, self._lease) if again else 0.0
        self._refused_at = now

    def rests(self, now: float) -> bool:
        """Is the API server left alone for now?"""
        return now - self._refused_at < self._rest

    def forget(self) -> None:
        """It is another one than we knew, or nobody knows: it is to be read again."""
        self._stands = self._read_at = None

    def heard(self, heard: Heard | None, asked: float) -> None:
        """What the controller said to a question that was asked at `asked`; None: it did not confirm anything."""
        if heard is not None and self._confirmed is None:
            # It leads the controllers now. What was before it does not know, so a lease is given to whoever leads; but
            # after a moment without an answer only if another kept the slice in it: else it would be given for ever.
            if asked - self._heard_at >= self._lease:
                self._leader_at = asked
            self._again_at = asked
            self.forget()
        self._heard_at = asked if heard is not None else self._heard_at
        self._confirmed = heard
        if heard is not None and heard.address:
            self._leader_at = asked

    def change(self, now: float, margin: float) -> Change | None:
        """What to patch, if anything. `margin`: how long asking and patching may still take."""
        stands, heard = self._stands, self._confirmed
        if stands is None:
            return None
        if heard is not None and heard.address:
            said, wanted = (stands.address, stands.holder), (heard.address, self._name)
            newer = heard.epoch > stands.epoch or (heard.epoch == stands.epoch and said != wanted)
            return Change(stands.version, heard.epoch, heard.address) if newer else None
        ours = heard is not None or stands.holder == self._name
        if ours and stands.address and now - self._leader_at >= self._lease - margin:
            return Change(stands.version, max(stands.epoch, heard.epoch if heard is not None else 0), "")
        return None
