"""What the clients of this broker last said of themselves, so that every new leader knows them before they ask it.

Each heartbeat goes to the leader; this broker remembers it for as long as the connection lives and the client is not
silent, as the leader does. A leader that has just
begun, be it another broker or this one, hears all of it again, and so its lists of group members are complete from its
first answer (a member that is missing makes the others take its queues).
"""

from collections.abc import Iterator

import msgspec

from logherd.kit.clock import Clock
from logherd.service.clients.heartbeats import decode_heartbeat
from logherd.service.clients.registry import CONNECTION_EXPIRY_MS
from logherd.service.ports import Session
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.clients import Heartbeat
from logherd.wire.codes import RequestCode
from logherd.wire.errors import BodyError, HeaderError
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import decode_header
from logherd.wire.headers.clients import UnregisterClientHeader

__all__ = ["Roster"]

_CLIENTS_PER_SESSION_MAX = 64
_BODY_BYTES_MAX = 256 * 1024
_BYTES_MAX = 32 * 1024 * 1024
"""Of all bodies; in memory they take up to three times as much."""


class _Said:
    """The last full heartbeat of one client on one connection, and what its frame told of the client. `size`: what it
    counts for in bytes."""

    __slots__ = ("heartbeat", "language", "seen_ms", "size", "version")

    def __init__(self, heartbeat: Heartbeat, frame: Frame, seen_ms: int, size: int) -> None:
        self.heartbeat = heartbeat
        self.seen_ms = seen_ms
        self.size = size
        self.language = frame.language
        self.version = frame.version


class Roster:
    """Heartbeats by connection and client. Memory is bounded, in all and for each connection; nothing here fails a
    request: who finds no room is named to a new leader by its next heartbeat."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sessions: dict[int, tuple[Session, dict[str, _Said]]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        """Number of connections with at least one client."""
        return len(self._sessions)

    def note(self, session: Session, frame: Frame) -> None:
        """A request 34 or 35 has come; whatever is wrong with it is for the leader to say."""
        if frame.code == RequestCode.HEART_BEAT:
            self._join(session, frame)
        elif frame.code == RequestCode.UNREGISTER_CLIENT:
            self._leave(session, frame)

    def closed(self, session_id: int) -> None:
        """A connection is gone."""
        _, clients = self._sessions.pop(session_id, (None, {}))
        self._bytes -= sum(said.size for said in clients.values())

    def heartbeats(self) -> Iterator[tuple[Session, Frame]]:
        """What a new leader is told: a oneway heartbeat for each client of each connection, oldest first."""
        for session, clients in self._sessions.values():
            self._forget_silent(clients)
            for said in clients.values():
                body = encode_body(said.heartbeat)
                yield (
                    session,
                    Frame(
                        RequestCode.HEART_BEAT,
                        0,
                        flag=Flag.ONEWAY,
                        body=body,
                        language=said.language,
                        version=said.version,
                    ),
                )

    def _join(self, session: Session, frame: Frame) -> None:
        try:
            heartbeat = decode_heartbeat(frame.body)
        except BodyError:
            return
        as_before, size = heartbeat.without_subscriptions, len(frame.body)
        if size > _BODY_BYTES_MAX:
            heartbeat = _members_only(heartbeat)
            size = len(encode_body(heartbeat))
            if size > _BODY_BYTES_MAX:
                return
        _, clients = self._sessions.setdefault(session.id, (session, {}))
        if len(clients) >= _CLIENTS_PER_SESSION_MAX:
            self._forget_silent(clients)
        known, now_ms = clients.get(heartbeat.client_id), self._clock.monotonic_ms()
        if known is not None and as_before:
            known.seen_ms = now_ms  # the full form is what a leader needs
        elif known is not None or len(clients) < _CLIENTS_PER_SESSION_MAX:
            more = size - (0 if known is None else known.size)
            if self._bytes + more <= _BYTES_MAX:
                self._bytes += more
                clients[heartbeat.client_id] = _Said(heartbeat, frame, now_ms, size)
        if not clients:
            del self._sessions[session.id]

    def _forget_silent(self, clients: dict[str, _Said]) -> None:
        now_ms = self._clock.monotonic_ms()
        for client_id in [each for each, said in clients.items() if now_ms - said.seen_ms > CONNECTION_EXPIRY_MS]:
            self._bytes -= clients.pop(client_id).size

    def _leave(self, session: Session, frame: Frame) -> None:
        entry = self._sessions.get(session.id)
        try:
            header = decode_header(UnregisterClientHeader, frame.ext)
        except HeaderError:
            return
        said = None if entry is None else entry[1].get(header.client_id)
        if entry is None or said is None:
            return
        before = said.heartbeat
        producers = [producer for producer in before.producers if producer.group != header.producer_group]
        consumers = [consumer for consumer in before.consumers if consumer.group != header.consumer_group]
        if producers or consumers:
            said.heartbeat = msgspec.structs.replace(before, producers=producers, consumers=consumers)
            return
        self._bytes -= entry[1].pop(header.client_id).size
        if not entry[1]:
            del self._sessions[session.id]


def _members_only(heartbeat: Heartbeat) -> Heartbeat:
    """The same in its short form: who belongs to which groups. What these subscribe to the next heartbeat says."""
    consumers = [msgspec.structs.replace(consumer, subscriptions=[]) for consumer in heartbeat.consumers]
    return msgspec.structs.replace(heartbeat, consumers=consumers, without_subscriptions=True)
