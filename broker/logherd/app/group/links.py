"""The connections to the other replicas of the group, made once this process has the number that is in its name."""

import socket
from importlib.metadata import version
from secrets import randbits

from logherd.aiokit.tasks import TaskGuard
from logherd.app.group.replica import Replica
from logherd.peers.hello import Hello
from logherd.peers.links import PeerLinks
from logherd.peers.options import PeerView
from logherd.settings.options import Endpoint, ReplicationOptions

__all__ = ["GroupLinks"]


class GroupLinks:
    """Owns the listening socket until the first registration, and the links from then on."""

    def __init__(self, replica: Replica, options: ReplicationOptions, segment_bytes: int) -> None:
        self._replica = replica
        self._segment_bytes = segment_bytes
        self._instance = randbits(64)
        self._software = version("logherd")
        peers = {str(number): (each.host, each.port) for number, each in options.peers.items()}
        self._links = PeerLinks(
            self._hello, peers, on_envelopes=replica.receive, on_linked=replica.linked, on_hello=lambda _: None,
            on_unlinked=replica.unlinked,
        )  # fmt: skip
        self._listening: socket.socket | None = None
        self._guard: TaskGuard | None = None
        self.address = ""

    def views(self) -> tuple[PeerView, ...]:
        """The other replicas as their links are now."""
        return self._links.views()

    async def open(self, listening: socket.socket, guard: TaskGuard) -> None:
        """Take over a bound socket; nobody is accepted on it yet."""
        self._listening, self._guard = listening, guard
        host, port = listening.getsockname()[:2]
        self.address = str(Endpoint(host=host, port=port))

    def go_by(self, registration: int) -> None:
        """This process has another number from now on: whoever was linked with the former one must ask again."""
        if self._listening is None or self._guard is None:
            self._links.renew(f"registered anew as {registration}")
            return
        listening, self._listening = self._listening, None
        self._replica.links = self._links
        self._guard.start("peers", self._begin(listening, self._guard), eternal=False)

    async def stop(self) -> None:
        """Close everything."""
        await self._links.stop()
        if self._listening is not None:
            self._listening.close()

    async def _begin(self, listening: socket.socket, guard: TaskGuard) -> None:
        await self._links.listen_on(listening)
        self._links.start(guard)

    def _hello(self) -> Hello:
        standing = self._replica.core.ground.standing
        return Hello(
            cluster=standing.cluster, sender=standing.identity, instance=self._instance,
            segment_bytes=self._segment_bytes, software=self._software,
        )  # fmt: skip
