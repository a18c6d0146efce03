"""Which client holds which queue for orderly consumption: a table of leases, pure and driven by the caller's clock.

Memory only; who holds what outlives the process in the metadata, and is put back by `lock` for a whole lease.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/client/rebalance/RebalanceLockManager.java
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from logherd.service.metadata import QueueName

__all__ = ["LEASE_MS", "LockTable", "QueueName"]

LEASE_MS: Final = 60_000
"""How long a queue stays locked without being locked again; clients do so every 20 s and trust a lock for 30 s."""


class _Lease(NamedTuple):
    client_id: str
    until_ms: int
    session_id: int
    """The connection over which it was locked last; 0 if that was told to an earlier leader."""


class LockTable:
    """Leases by group and queue. Times are monotonic milliseconds.

    A client that is gone keeps its queues until the lease ends: it may still be working on messages that it took.
    """

    def __init__(self) -> None:
        self._leases: dict[str, dict[QueueName, _Lease]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[QueueName], now_ms: int, *, session_id: int = 0
    ) -> list[QueueName]:  # fmt: skip
        """Take or renew queues; returns those that the client now holds."""
        held = []
        leases = self._leases.setdefault(group, {})
        for queue in queues:
            lease = leases.get(queue)
            if lease is None or lease.client_id == client_id or lease.until_ms <= now_ms:
                leases[queue] = _Lease(client_id, now_ms + LEASE_MS, session_id)
                held.append(queue)
        if not leases:
            del self._leases[group]
        return held

    def unlock(
        self, group: str, client_id: str, queues: Iterable[QueueName], *,
        follows: Callable[[int], bool] = lambda _: True,
    ) -> list[QueueName]:  # fmt: skip
        """Give back queues; those of another client are left alone, and those that it may have locked again since: over
        a connection that this does not follow. Returns those that are free now."""
        freed = []
        leases = self._leases.get(group, {})
        for queue in queues:
            lease = leases.get(queue)
            if lease is not None and lease.client_id == client_id and follows(lease.session_id):
                del leases[queue]
                freed.append(queue)
        if group in self._leases and not leases:
            del self._leases[group]
        return freed

    def owner(self, group: str, queue: QueueName, now_ms: int) -> str | None:
        """The client that holds a queue now."""
        lease = self._leases.get(group, {}).get(queue)
        return lease.client_id if lease is not None and lease.until_ms > now_ms else None

    def is_used_by(self, group: str, now_ms: int) -> bool:
        """Whether any client of the group holds any queue now."""
        return any(lease.until_ms > now_ms for lease in self._leases.get(group, {}).values())

    def ended(self, now_ms: int) -> dict[str, list[QueueName]]:
        """By group, the queues whose lease has ended and that nobody took since."""
        ended = {
            group: [queue for queue, lease in leases.items() if lease.until_ms <= now_ms]
            for group, leases in self._leases.items()
        }
        return {group: queues for group, queues in ended.items() if queues}

    def expire(self, now_ms: int) -> None:
        """Forget ended leases, so that the table holds no more than what is in use. Call it every few seconds."""
        for group, leases in list(self._leases.items()):
            for queue in [queue for queue, lease in leases.items() if lease.until_ms <= now_ms]:
                del leases[queue]
            if not leases:
                del self._leases[group]

    def __len__(self) -> int:
        return sum(map(len, self._leases.values()))
