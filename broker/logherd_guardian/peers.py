"""Which peer to try next. Health is learned by trying: what greeted is good, what did not waits a little. Pure; ms."""

from collections.abc import Sequence

from logherd_guardian.values import Value

__all__ = ["DIALS_MAX", "Peers"]

DIALS_MAX = 2
"""Dials to one peer at a time; one only, while its last one failed."""
_FIRST_MS = 50
_LONGEST_MS = 1_000
_DOUBLINGS_MAX = 5


class _Peer(Value):
    __slots__ = ("address", "failures", "not_before")

    def __init__(self, address: str) -> None:
        self.address = address
        self.failures = 0
        self.not_before = 0


class Peers:
    """The peers of one listener, asked in turn. One that is named twice is one peer."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._turn = [_Peer(address) for address in dict.fromkeys(addresses)]

    def next(self, now: int, dialling: Sequence[str] = ()) -> str | None:
        """A peer to dial now; None if each has failed a moment ago. Those that failed last come last.

        `dialling`: those that have not greeted yet, once for each dial. One that hangs must not take all of them.
        """
        ready = [
            peer
            for peer in self._turn
            if now >= peer.not_before and dialling.count(peer.address) < (1 if peer.failures else DIALS_MAX)
        ]
        if not ready:
            return None
        peer = min(ready, key=lambda each: min(each.failures, 1))
        self._turn.remove(peer)
        self._turn.append(peer)
        return peer.address

    def greeted(self, address: str) -> bool:
        """It serves; whether that is news."""
        peer = self._find(address)
        was, peer.failures, peer.not_before = peer.failures, 0, 0
        return was > 0

    def failed(self, address: str, now: int) -> bool:
        """It does not serve, or not any more; whether that is news."""
        peer = self._find(address)
        peer.not_before = now + min(_FIRST_MS << min(peer.failures, _DOUBLINGS_MAX), _LONGEST_MS)
        peer.failures += 1
        return peer.failures == 1

    def _find(self, address: str) -> _Peer:
        return next(peer for peer in self._turn if peer.address == address)
