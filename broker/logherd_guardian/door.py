"""One listening socket while no child accepts on it: new connections go to a peer, if one is there to serve them.

A connection is accepted only with a proven connection to a peer at hand. Without one it stays in the backlog, where the
child will find it when it is back: waiting is better than being taken by somebody who cannot help.
"""

import selectors
import socket

from logherd_guardian.clock import clock_ms
from logherd_guardian.machine import ENDING_MS
from logherd_guardian.peers import Peers
from logherd_guardian.proxy import proxy_header
from logherd_guardian.relay import RESET, Relay
from logherd_guardian.resolver import Resolver
from logherd_guardian.sayings import say
from logherd_guardian.spare import Spare, keep_alive

__all__ = ["Allowance", "Door"]

SPARES = 4
_GREETING_MS = 300
_SPARE_MS = 1_000
"""A greeting older than this proves little."""
_QUIET_MS = 5_000
"""Longer than a peer holds a request while nobody leads, which is 4.5 s at most: what waits for longer is a pull."""
_MOMENT_MS = 20
_HALF_ENDED_MS = 30_000
_REST_MS = 100
"""How long to leave a socket alone that cannot be accepted from, as without free descriptors; that is said once."""


class Allowance:
    """How many connections may be passed on at one time, over all doors."""

    def __init__(self, connections_max: int, linger_ms: int) -> None:
        self.left = connections_max
        self.linger_ms = linger_ms


class Door:
    """Watches its listener exactly while it takes connections, has a spare, and the allowance is not used up."""

    def __init__(
        self, listener: socket.socket, name: str, peers: tuple[str, ...], *, selector: selectors.BaseSelector,
        resolver: Resolver, allowance: Allowance, buffer: memoryview,
    ) -> None:  # fmt: skip
        self.listener = listener
        self._name = name
        self._peers = Peers(peers)
        self._selector = selector
        self._resolver = resolver
        self._allowance = allowance
        self._buffer = buffer
        self._spares: list[Spare] = []
        self._relays: set[Relay] = set()
        self._taking = False
        self._since = 0
        self._rest_until = 0

    @property
    def is_busy(self) -> bool:
        return bool(self._relays) or self._taking

    def take(self, now: int, *, on: bool) -> None:
        """Take new connections from now on, or leave them to the child and let the others end."""
        self._taking, self._since = on, now
        if not on:
            for spare in self._spares:
                spare.close()
            self._spares = []
        self._arrange(now)

    def tick(self, now: int) -> None:
        """Give up what has taken too long."""
        for spare in list(self._spares):
            age = now - spare.since
            if not spare.greeted and age >= _GREETING_MS:
                spare.close()
                self._changed(spare, "no greeting in time")
            elif age >= _SPARE_MS or not (spare.greeted or self._resolver.has(spare.peer, spare.address)):
                spare.close()
                self._spares.remove(spare)
        for relay in list(self._relays):
            relay.tick(now)
        for relay in [each for each in self._relays if self._is_over(each, now)]:
            relay.close()
            self._forget(relay)
        self._arrange(now)

    def part(self) -> None:
        """Nobody will take who comes from now on: refuse them, and have those that were passed on linger no more."""
        self._allowance.linger_ms = 0
        self.listener.close()

    def close(self) -> None:
        self.take(0, on=False)
        for relay in self._relays:
            relay.close()
        self.listener.close()

    def _is_over(self, relay: Relay, now: int) -> bool:
        """A connection that lingers is ended when only a pull can wait there; after twice the time at the first moment
        at which nothing is on its way, as far as bytes tell; and not much later at any."""
        quiet_ms, linger_ms = now - relay.moved_at, self._allowance.linger_ms
        if relay.half_ended and quiet_ms >= _HALF_ENDED_MS:
            return True
        lingered_ms = now - self._since
        if self._taking or lingered_ms < linger_ms:
            return False
        late_ms = lingered_ms - 2 * linger_ms
        if late_ms >= 0 and quiet_ms >= _MOMENT_MS and relay.is_at_rest:
            return True
        return quiet_ms >= _QUIET_MS or late_ms >= ENDING_MS

    def _arrange(self, now: int) -> None:
        if self.listener.fileno() < 0:
            return
        wanted = self._taking and self._allowance.left > 0 and now >= self._rest_until
        while wanted and len(self._spares) < SPARES and self._dial(now):
            pass
        accepting = wanted and any(spare.greeted for spare in self._spares)
        watched = self.listener in self._selector.get_map()
        if accepting and not watched:
            self._selector.register(self.listener, selectors.EVENT_READ, self._accept)
        elif watched and not accepting:
            self._selector.unregister(self.listener)

    def _dial(self, now: int) -> bool:
        peer = self._peers.next(now, [spare.peer for spare in self._spares if not spare.greeted])
        if peer is None:
            return False
        address = self._resolver.find(peer, now)
        if address is None:
            self._note(peer, "its name has no address yet", now)
            return True
        try:
            self._spares.append(Spare(self._selector, peer, address, now, self._changed))
        except OSError as error:
            self._resolver.shun(peer, address)
            self._note(peer, error.strerror or str(error), now)
        return True

    def _changed(self, spare: Spare, why: str | None) -> None:
        now = clock_ms()
        if why is not None:
            self._spares.remove(spare)
            self._resolver.shun(spare.peer, spare.address)
            self._note(spare.peer, why, now)
        elif self._peers.greeted(spare.peer):
            say(f"peer serves: {spare.peer}")
        self._arrange(now)

    def _note(self, peer: str, why: str, now: int) -> None:
        if self._peers.failed(peer, now):
            say(f"peer does not serve: {peer}: {why}")

    def _accept(self, mask: int) -> None:
        while self._allowance.left > 0 and any(spare.greeted for spare in self._spares):
            try:
                client, source = self.listener.accept()
                self._pass_on(client, source[:2])
            except (BlockingIOError, ConnectionAbortedError):
                break
            except OSError as error:
                if not self._rest_until:
                    say(f"cannot accept: {error.strerror}")
                self._rest_until = clock_ms() + _REST_MS
                break
            self._rest_until = 0
        self._arrange(clock_ms())

    def _pass_on(self, client: socket.socket, source: tuple[str, int]) -> None:
        """Raises: OSError if the system cannot watch one more."""
        client.settimeout(0)
        try:
            keep_alive(client)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)  # also if nobody is left to serve it
            header = proxy_header(source, client.getsockname()[:2], self._name)
        except OSError:  # gone already
            client.close()
            return
        for spare in [each for each in self._spares if each.greeted]:
            self._spares.remove(spare)
            peer, serves = spare.take(), spare.is_quiet
            try:
                serves = serves and peer.send(header) == len(header)
            except OSError:
                serves = False
            if not serves:
                peer.close()
                self._note(spare.peer, "lost", clock_ms())
                continue
            self._relays.add(Relay(self._selector, client, peer, self._buffer, self._forget))
            self._allowance.left -= 1
            return
        client.close()

    def _forget(self, relay: Relay) -> None:
        self._relays.discard(relay)
        self._allowance.left += 1
