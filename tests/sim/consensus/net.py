"""The network between the members: every fault of it is drawn from one stream for each direction of each pair."""

from collections import Counter
from collections.abc import Callable
from random import Random

from logherd.replication.messages import Envelope, ReplicaId
from sim.consensus.shape import Shape
from sim.consensus.streams import stream

__all__ = ["Net", "name_of"]

_CAPACITY = 200
"""Messages under way in one direction; more are lost."""


def name_of(identity: ReplicaId) -> str:
    """The address that an identity lives at: a wiped process has a new identity there."""
    return identity.partition(".")[0]


class Net:
    """Delivers envelopes to whoever lives at the name of the addressee."""

    def __init__(
        self, seed: int, shape: Shape, schedule: Callable[[int, Callable[[], None]], None], hits: Counter[str]
    ) -> None:
        self._seed = seed
        self._hits = hits
        self._shape = shape
        self._schedule = schedule
        self._streams: dict[tuple[str, str], Random] = {}
        self._last: dict[tuple[str, str], int] = {}
        self._under_way: dict[tuple[str, str], int] = {}
        self._cut: dict[tuple[str, str], int] = {}
        self._clogged: dict[tuple[str, str], int] = {}
        self._connections: dict[tuple[str, str], int] = {}
        self._sent = 0
        self._arrived: dict[tuple[str, str], tuple[int, int]] = {}
        """For each direction: the newest connection and the newest message of which something has arrived."""
        self.healed = False
        self.now_us: Callable[[], int] = lambda: 0
        self.deliver: Callable[[str, Envelope], None] = lambda name, envelope: None

    def send(self, envelope: Envelope) -> None:
        """Put a message under way, or lose it."""
        link = (name_of(envelope.sender), name_of(envelope.to))
        draw = self._streams.get(link)
        if draw is None:
            draw = self._streams[link] = stream(self._seed, f"net:{link[0]}>{link[1]}")
        copies = self._copies(draw)
        if self._cut.get(link) or self._under_way.get(link, 0) >= _CAPACITY:
            self._hits["one-way"] += not self._cut.get((link[1], link[0]))
            return
        self._sent += 1
        for _ in range(copies):
            self._post(link, envelope, draw)

    def _copies(self, draw: Random) -> int:
        shape, chance = self._shape, draw.random()
        if self.healed or shape.ordered:
            return 1
        if chance < shape.loss:
            return 0
        return 2 if chance > 1 - shape.duplication else 1

    def _post(self, link: tuple[str, str], envelope: Envelope, draw: Random) -> None:
        shape, now = self._shape, self.now_us()
        at = now + shape.delay_min_us + int(draw.expovariate(1 / shape.delay_mean_us))
        at = max(at, self._clogged.get(link, 0)) if not self.healed else at
        if shape.ordered or self.healed:
            at = self._last[link] = max(at, self._last.get(link, 0))
        self._under_way[link] = self._under_way.get(link, 0) + 1
        sent = self._connections.get(link, 0), self._sent

        def arrive() -> None:
            self._under_way[link] -= 1
            if not self._cut.get(link):
                self._mark(link, sent)
                self.deliver(link[1], envelope)

        self._schedule(at, arrive)

    def _mark(self, link: tuple[str, str], sent: tuple[int, int]) -> None:
        connection, number = self._arrived.get(link, (0, 0))
        self._hits["straggler"] += sent[0] < connection
        self._hits["duplicate"] += sent[1] == number
        self._hits["reordered"] += sent[1] < number
        self._arrived[link] = max(connection, sent[0]), max(number, sent[1])

    def cut(self, link: tuple[str, str]) -> None:
        """Lose everything in one direction, including what is under way when it arrives."""
        self._cut[link] = self._cut.get(link, 0) + 1

    def mend(self, link: tuple[str, str]) -> None:
        """Undo one cut."""
        self._cut[link] = max(0, self._cut.get(link, 0) - 1)

    def clog(self, link: tuple[str, str], until_us: int) -> None:
        """Hold everything in one direction; it arrives together afterwards."""
        self._clogged[link] = until_us

    def reconnect(self, link: tuple[str, str]) -> None:
        """A new connection: its messages need not wait for those of the old one, which become stragglers."""
        self._last.pop(link, None)
        self._connections[link] = self._connections.get(link, 0) + 1

    def heal(self) -> None:
        """No more faults, for ever."""
        self._cut.clear()
        self._clogged.clear()
        self.healed = True
