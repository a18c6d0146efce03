"""The connections to the other replicas of the group, made once this process has the name that they know it by."""

import socket
from collections.abc import Sequence
from importlib.metadata import version
from secrets import randbits

from logherd.aiokit.tasks import TaskGuard
from logherd.app.group.beginning import MustAcceptBare
from logherd.app.group.giving import Giving
from logherd.app.group.replica import Replica
from logherd.peers.hello import REVISION, Hello
from logherd.peers.links import PeerLinks
from logherd.peers.options import PeerView
from logherd.replication.messages import ReplicaId
from logherd.settings.options import Endpoint, ReplicationOptions
from logherd.store import MessageStore

__all__ = ["GroupLinks"]


class GroupLinks:
    """Owns the listening socket until this process has its name, and the links from then on."""

    def __init__(
        self, replica: Replica, options: ReplicationOptions, store: MessageStore, segment_bytes: int, giving: Giving
    ) -> None:  # fmt: skip
        self.giving = giving
        self._store = store
        self._replica = replica
        self._segment_bytes = segment_bytes
        self._instance = randbits(64)
        self._software = version("logherd")
        peers = {str(number): (each.host, each.port) for number, each in options.peers.items()}
        self._links = PeerLinks(
            self._hello, peers, on_envelopes=replica.receive, on_linked=replica.linked, on_hello=self._heard,
            on_unlinked=replica.unlinked, on_asked=giving.give,
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

    def join(self, reason: str) -> None:
        """This process has its name from now on: whoever was linked with a former one asks again, for this reason."""
        if self._listening is None or self._guard is None:
            self._links.renew(reason)
            return
        listening, self._listening = self._listening, None
        self._replica.links = self._links
        self._guard.start("peers", self._begin(listening, self._guard), eternal=False)

    def announce(self) -> None:
        """Say hello again to all: it says something else now."""
        if self._listening is None:
            self._links.announce()

    def linked(self) -> Sequence[ReplicaId]:
        """To whom messages can be sent."""
        return [view.identity for view in self._links.views() if view.connected and view.identity is not None]

    async def stop(self) -> None:
        """Close everything."""
        await self._links.stop()
        if self._listening is not None:
            self._listening.close()

    async def _begin(self, listening: socket.socket, guard: TaskGuard) -> None:
        await self._links.listen_on(listening)
        self._links.start(guard)

    def _hello(self) -> Hello:
        machine, greeting = self._replica.machine, self._replica.mode.greet()
        return Hello(
            cluster=machine.cluster, sender=machine.identity, instance=self._instance,
            segment_bytes=self._segment_bytes, software=self._software, founded=greeting.founded,
            nodes=greeting.nodes, bare_end=self._store.recovery.bare_end, about=greeting.about, revision=REVISION,
        )  # fmt: skip

    def _heard(self, hello: Hello) -> None:
        if hello.bare_end > self._store.recovery.bare_end:  # before anything of that log comes
            self._replica.fail(MustAcceptBare(hello.bare_end, hello.sender))
        else:
            self._replica.mode.heard(hello)
