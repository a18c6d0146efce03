"""Who may connect: a count in all and a count per address; and what came of it since the start."""

from logherd.kit.errors import ensure
from logherd.net.limits import AdmissionLimits

__all__ = ["Admission"]


class Admission:
    """Counts open connections. Invariant: `total` is the sum over all addresses, and no address is kept at zero.

    `received` and `sent` are the bytes of connections that are gone.
    """

    __slots__ = ("_limits", "_peers", "_per_address", "accepted", "received", "refused", "sent", "total")

    def __init__(self, limits: AdmissionLimits, *, peers: int = 0) -> None:
        """`peers`: so many more of each address and in all are admitted, for brokers; see `crowded`."""
        self._limits = limits
        self._peers = peers
        self._per_address: dict[str, int] = {}
        self.total = 0
        self.accepted = self.refused = self.received = self.sent = 0

    def relimit(self, limits: AdmissionLimits) -> None:
        """From the next connection on; those that are open stay."""
        self._limits = limits

    def admit(self, address: str) -> str | None:
        """Count one connection of `address`; or say why it is refused, and keep nothing of it."""
        refusal = self._refusal(address)
        if refusal is not None:
            self.refused += 1
            return refusal
        self._per_address[address] = self._per_address.get(address, 0) + 1
        self.accepted += 1
        self.total += 1
        return None

    def crowded(self, address: str) -> bool:
        """Whether more than its limit, or than that of all, are open: the one that was admitted last has yet to prove
        itself a broker."""
        limits = self._limits
        return self._per_address[address] > limits.connections_per_address_max or self.total > limits.connections_max

    def _refusal(self, address: str) -> str | None:
        if self.total >= self._limits.connections_max + self._peers:
            return f"{self.total} connections are open, at most {self._limits.connections_max} may be"
        count = self._per_address.get(address, 0)
        if count >= self._limits.connections_per_address_max + self._peers:
            limit = self._limits.connections_per_address_max
            return f"{count} connections of this address are open, at most {limit} may be"
        return None

    def release(self, address: str, *, received: int = 0, sent: int = 0) -> None:
        """An admitted connection of `address` is gone, over which so many bytes came and went."""
        count = self._per_address.get(address, 0)
        ensure(count > 0, "only admitted connections are released", address)
        if count == 1:
            del self._per_address[address]
        else:
            self._per_address[address] = count - 1
        self.total -= 1
        self.received += received
        self.sent += sent
