"""Who is connected: producers and consumers by group, their connections, and what the groups subscribe to.

A client is its clientId. It may stand on several connections at once (a reconnect overlaps the old one), is reached
over the one that appeared last, and is gone only when no connection is left: by leaving, by closing, or by silence.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/client/ConsumerManager.java
Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/client/ConsumerGroupInfo.java
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from logherd.kit.javahash import java_hash
from logherd.service.ports import Session

__all__ = [
    "BROADCASTING", "CONNECTION_EXPIRY_MS", "PLACES_MAX", "ClientRegistry", "Connection", "ConsumerGroup",
    "ConsumerProfile", "Subscription",
]  # fmt: skip

CONNECTION_EXPIRY_MS: Final = 120_000
PLACES_MAX: Final = 10_000
"""Of the clients of one connection, in all groups: a stock connection has one client, in some groups."""
BROADCASTING: Final = "BROADCASTING"
TAG: Final = "TAG"
ALL_TAGS: Final = "*"


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a group wants of one topic. `version` is the client's clock in ms; a higher one replaces a lower one."""

    topic: str
    expression: str = ALL_TAGS
    expression_type: str = TAG
    tags: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()
    version: int = 0
    class_filter: bool = False
    tag_codes: frozenset[int] | None = field(init=False, compare=False)
    """Hashes of the wanted tags for the queue's tag column; None if every message is wanted. One set for all pulls."""

    def __post_init__(self) -> None:
        some = self.expression_type in ("", TAG) and self.expression not in ("", ALL_TAGS)
        # Go's client hashes a tag's UTF-8 bytes, and a message's tag is hashed as Java does: these differ beyond ASCII.
        codes = frozenset((*self.codes, *map(java_hash, self.tags))) if some else frozenset()
        object.__setattr__(self, "tag_codes", codes or None)


class ConsumerProfile(NamedTuple):
    """How a group consumes; all its members are meant to say the same."""

    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from: str = "CONSUME_FROM_LAST_OFFSET"


@dataclass(slots=True)
class Connection:
    """One connection of one client in one group."""

    client_id: str
    session: Session
    language: str
    version: int
    seen_ms: int
    seen_wall_ms: int
    fingerprint: int = 0
    """Of the subscriptions that this client sent last in full; 0 if it does not use heartbeat version 2."""
    named: bool = False
    """Whether its broker has named it to a new leader: that does not say when it appeared."""


_Members = dict[str, dict[int, Connection]]
"""Client id -> session id -> connection, oldest first."""


@dataclass(slots=True)
class ConsumerGroup:
    """A group with at least one connection. Callers only read it."""

    name: str
    profile: ConsumerProfile
    members: _Members = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)

    def connections(self) -> Iterator[Connection]:
        """The newest connection of each member."""
        for sessions in self.members.values():
            yield _newest(sessions)

    def connection(self, client_id: str) -> Connection | None:
        """The newest connection of one member."""
        sessions = self.members.get(client_id)
        return _newest(sessions) if sessions else None


class ClientRegistry:
    """All clients of one broker. Owned by the loop thread; memory only, clients tell it again after a restart.

    Invariants: (1) no group and no client without a connection is kept; (2) `_roles` names exactly the places that a
    session has in groups, by client; (3) `_sessions` has a client's session exactly while it has such a place, and
    `_beside`, `_named` and `_speaking` name none but these.
    """

    def __init__(self) -> None:
        self._producers: dict[str, _Members] = {}
        self._consumers: dict[str, ConsumerGroup] = {}
        self._roles: dict[int, dict[str, set[_Role]]] = {}
        self._sessions: dict[str, dict[int, Session]] = {}
        self._beside: dict[str, set[int]] = {}
        """By client, connections that were used for a heartbeat since the latest one became known here."""
        self._named: dict[str, set[int]] = {}
        """By client, connections that may be older or newer than all others: they were named by their brokers, and no
        new one has come since."""
        self._speaking: dict[str, int] = {}
        """By client, the newest of its connections that it has committed an offset over."""

    # -- joining

    def join_producer(self, group: str, connection: Connection) -> None:
        """Add or refresh a producer's connection."""
        _place(self._producers.setdefault(group, {}), connection)
        self._note(connection, _Role(connection.client_id, group, is_producer=True))

    def join_consumer(
        self, group: str, profile: ConsumerProfile, connection: Connection, *,
        subscriptions: Mapping[str, Subscription] | None,
    ) -> bool:  # fmt: skip
        """Add or refresh a consumer's connection; whether members or subscribed topics changed.

        `subscriptions` is None for a heartbeat that leaves them out because they are as before.
        """
        entry = self._consumers.get(group)
        if entry is None:
            entry = self._consumers[group] = ConsumerGroup(group, profile)
        entry.profile = profile
        joined = connection.client_id not in entry.members
        _place(entry.members, connection)
        self._note(connection, _Role(connection.client_id, group, is_producer=False))
        return _subscribe(entry, subscriptions) or joined if subscriptions is not None else joined

    def has_room(
        self, session_id: int, client_id: str, *, producers: Iterable[str], consumers: Iterable[str]
    ) -> bool:  # fmt: skip
        """Whether a client may join these groups over this connection, beside what is known of it."""
        clients = self._roles.get(session_id, {})
        own = {_Role(client_id, group, is_producer=True) for group in producers}
        own.update(_Role(client_id, group, is_producer=False) for group in consumers)
        own |= clients.get(client_id, set())
        others = sum(len(roles) for name, roles in clients.items() if name != client_id)
        return len(own) + others <= PLACES_MAX

    # -- leaving

    def leave(self, session_id: int, client_id: str, *, producer_group: str = "", consumer_group: str = "") -> bool:
        """One connection of a client leaves the named groups; whether the consumer group lost a member by it."""
        if producer_group:
            self._remove(session_id, _Role(client_id, producer_group, is_producer=True))
        if not consumer_group:
            return False
        return self._remove(session_id, _Role(client_id, consumer_group, is_producer=False))

    def session_closed(self, session_id: int) -> list[str]:
        """A connection is gone with all its clients; returns the consumer groups that lost a member by it."""
        clients = self._roles.get(session_id, {})
        return self._remove_all((session_id, role) for role in sorted(chain.from_iterable(clients.values())))

    def clear(self) -> None:
        """Forget everybody, and tell nobody: another broker leads the group and knows them."""
        for table in (
            self._producers, self._consumers, self._roles, self._sessions, self._beside, self._named, self._speaking,
        ):  # fmt: skip
            table.clear()

    def expire(self, now_ms: int) -> list[str]:
        """Drop connections without a heartbeat for CONNECTION_EXPIRY_MS; returns consumer groups that lost a member."""
        stale = []
        for session_id, clients in self._roles.items():
            for role in chain.from_iterable(clients.values()):
                connection = self._members(role)[role.client_id][session_id]
                if now_ms - connection.seen_ms > CONNECTION_EXPIRY_MS:
                    stale.append((session_id, role))
        return self._remove_all(stale)

    # -- questions

    def find(self, group: str, topic: str) -> Subscription | None:
        """What a connected group wants of a topic, as its heartbeats say; None if it is not connected or wants none."""
        entry = self._consumers.get(group)
        return None if entry is None else entry.subscriptions.get(topic)

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        return self._consumers.get(group)

    def consumer_groups(self) -> Iterator[ConsumerGroup]:
        return iter(self._consumers.values())

    def producer_groups(self) -> Iterator[str]:
        return iter(self._producers)

    def producers(self, group: str) -> list[Connection]:
        """The newest connection of each producer of a group; empty if there is none."""
        return [_newest(sessions) for sessions in self._producers.get(group, {}).values()]

    def client_session(self, client_id: str) -> Session | None:
        """The newest connection of a client, whatever its groups; None if it has none."""
        sessions = self._sessions.get(client_id)
        if not sessions:
            return None
        return next((each for each in reversed(sessions.values()) if not each.closed), None) or next(
            reversed(sessions.values())
        )

    def is_superseded(self, session_id: int) -> bool:
        """Whether a client of this connection has a newer one in its place: what still arrives on the old is out of
        date. It may stand on several at once, one to each broker, and commit over any of them: the older one counts
        while it is heard there, too, and until it has committed over a newer one. Where it is not known which is newer,
        each is treated as if it were the older."""
        for client_id in self._roles.get(session_id, ()):
            sessions = self._sessions[client_id]
            if len(sessions) == 1 or (client_id not in self._named and next(reversed(sessions)) == session_id):
                continue
            if session_id not in self._beside.get(client_id, ()):
                return True
            speaking = self._speaking.get(client_id, session_id)
            if speaking != session_id and self._is_older(client_id, session_id, speaking) is not False:
                return True
        return False

    def committed_over(self, session_id: int) -> None:
        """A client of this connection has committed an offset."""
        for client_id in self._roles.get(session_id, ()):
            speaking = self._speaking.setdefault(client_id, session_id)
            if speaking != session_id:
                newer = self._is_older(client_id, speaking, session_id)
                if session_id in self._beside.get(client_id, ()) if newer is None else newer:
                    self._speaking[client_id] = session_id

    def follows(self, client_id: str, session_id: int, earlier: int) -> bool:
        """Whether what comes over one connection of a client is known to be later than what came over another of its;
        after that is gone anything is."""
        sessions = self._sessions.get(client_id, {})
        if session_id == earlier or earlier not in sessions:
            return True
        return session_id in sessions and self._is_older(client_id, earlier, session_id) is True

    # -- inside

    def _note(self, connection: Connection, role: "_Role") -> None:
        session = connection.session
        client_id = connection.client_id
        self._roles.setdefault(session.id, {}).setdefault(client_id, set()).add(role)
        sessions = self._sessions.setdefault(client_id, {})
        if session.id in sessions:
            if not connection.named:
                self._beside.setdefault(client_id, set()).add(session.id)
            return
        sessions[session.id] = session
        self._beside.pop(client_id, None)
        if connection.named:
            self._named.setdefault(client_id, set()).add(session.id)
        else:
            self._named.pop(client_id, None)

    def _is_older(self, client_id: str, one: int, other: int) -> bool | None:
        """Whether a client's connection is older than another one of its; None if nobody knows."""
        if not self._named.get(client_id, set()).isdisjoint((one, other)):
            return None
        return next(each for each in self._sessions[client_id] if each in (one, other)) == one

    def _members(self, role: "_Role") -> _Members:
        if role.is_producer:
            return self._producers.get(role.group, {})
        entry = self._consumers.get(role.group)
        return {} if entry is None else entry.members

    def _remove_all(self, places: Iterable[tuple[int, "_Role"]]) -> list[str]:
        lost = [role.group for session_id, role in places if self._remove(session_id, role) and not role.is_producer]
        return list(dict.fromkeys(lost))

    def _remove(self, session_id: int, role: "_Role") -> bool:
        """Whether the group lost this member: it stood on this connection, and on no other."""
        members = self._members(role)
        connections = members.get(role.client_id)
        if connections is None or connections.pop(session_id, None) is None:
            return False
        self._forget_role(session_id, role)
        if connections:
            return False
        del members[role.client_id]
        if not members and role.is_producer:
            del self._producers[role.group]
        elif not members:
            del self._consumers[role.group]
        return True

    def _forget_role(self, session_id: int, role: "_Role") -> None:
        clients = self._roles[session_id]
        roles = clients[role.client_id]
        roles.discard(role)
        if roles:
            return
        del clients[role.client_id]
        if not clients:
            del self._roles[session_id]
        self._forget_session(session_id, role.client_id)

    def _forget_session(self, session_id: int, client_id: str) -> None:
        sessions = self._sessions[client_id]
        del sessions[session_id]
        if not sessions:
            del self._sessions[client_id]
        for table in (self._beside, self._named):
            marked = table.get(client_id, set())
            marked.discard(session_id)
            if not marked:
                table.pop(client_id, None)
        if self._speaking.get(client_id) == session_id:
            del self._speaking[client_id]


class _Role(NamedTuple):
    client_id: str
    group: str
    is_producer: bool


def _newest(sessions: dict[int, Connection]) -> Connection:
    """The newest that can be reached: the broker behind which a client stands may be out of reach for a while."""
    connections = list(sessions.values())
    return next((each for each in reversed(connections) if not each.session.closed), connections[-1])


def _place(members: _Members, connection: Connection) -> None:
    sessions = members.setdefault(connection.client_id, {})
    known = sessions.get(connection.session.id)
    if known is not None and not connection.fingerprint:
        connection.fingerprint = known.fingerprint
    sessions[connection.session.id] = connection


def _subscribe(entry: ConsumerGroup, subscriptions: Mapping[str, Subscription]) -> bool:
    """Take over a full set; whether the subscribed topics changed.

    A newer version of a topic that was there is taken over silently: clients raise it after every rebalance, and
    telling the group would make it rebalance for ever.
    """
    changed = False
    for topic, subscription in subscriptions.items():
        known = entry.subscriptions.get(topic)
        if known is None or subscription.version > known.version:
            entry.subscriptions[topic] = subscription
            changed = changed or known is None
    for topic in [topic for topic in entry.subscriptions if topic not in subscriptions]:
        del entry.subscriptions[topic]
        changed = True
    return changed
