"""Membership: who counts as connected, when a group changes, and when a client is gone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.kit.javahash import java_hash
from logherd.service.clients.registry import (
    CONNECTION_EXPIRY_MS,
    ClientRegistry,
    Connection,
    ConsumerProfile,
    Subscription,
)  # fmt: skip
from unit.service.client_fakes import FakeSession

PROFILE = ConsumerProfile()
T = {"T": Subscription("T", version=1)}


def connection(
    client: str = "c1", session: FakeSession | None = None, *, seen: int = 0, fingerprint: int = 0
) -> Connection:
    return Connection(client, session or FakeSession(), "JAVA", 479, seen, seen, fingerprint)


def members(registry: ClientRegistry, group: str = "g") -> list[str]:
    entry = registry.consumer_group(group)
    return [] if entry is None else [member.client_id for member in entry.connections()]


def test_joining_changes_a_group_once() -> None:
    registry = ClientRegistry()
    assert registry.join_consumer("g", PROFILE, connection(), subscriptions=T)
    assert not registry.join_consumer("g", PROFILE, connection(), subscriptions=T)
    assert members(registry) == ["c1"]
    assert registry.find("g", "T") == T["T"]


def test_a_subscribed_topic_more_or_less_changes_the_group() -> None:
    registry = ClientRegistry()
    registry.join_consumer("g", PROFILE, connection(), subscriptions=T)
    assert registry.join_consumer("g", PROFILE, connection(), subscriptions={**T, "U": Subscription("U")})
    assert registry.join_consumer("g", PROFILE, connection(), subscriptions={"U": Subscription("U")})
    assert registry.find("g", "T") is None


def test_a_newer_version_is_taken_silently_and_an_older_one_is_not_taken() -> None:
    registry = ClientRegistry()
    registry.join_consumer("g", PROFILE, connection(), subscriptions={"T": Subscription("T", "a", version=5)})
    newer = {"T": Subscription("T", "b", version=6)}
    assert not registry.join_consumer("g", PROFILE, connection(), subscriptions=newer)
    older = {"T": Subscription("T", "c", version=4)}
    assert not registry.join_consumer("g", PROFILE, connection(), subscriptions=older)
    assert registry.find("g", "T") == newer["T"]


def test_a_client_that_subscribes_anew_on_its_connection_is_known_by_its_new_fingerprint() -> None:
    registry = ClientRegistry()
    registry.join_consumer("g", PROFILE, connection(fingerprint=9), subscriptions=T)
    registry.join_consumer(
        "g", ConsumerProfile(message_model="BROADCASTING"), connection(fingerprint=8), subscriptions=T
    )
    entry = registry.consumer_group("g")
    assert entry is not None
    assert entry.profile.message_model == "BROADCASTING", "and the group consumes as its newest heartbeat says"
    member = entry.connection("c1")
    assert member is not None
    assert member.fingerprint == 8


@pytest.mark.parametrize("how", ["leave", "close", "expire"])
def test_nothing_is_kept_of_clients_that_are_gone(how: str) -> None:
    registry = ClientRegistry()
    sessions = [FakeSession(1), FakeSession(2)]
    for session in sessions:
        for client in ("c1", "c2"):
            registry.join_producer("p", connection(client, session))
            registry.join_consumer("g", PROFILE, connection(client, session), subscriptions=T)
    registry.join_producer("p", connection("c1", sessions[0]))
    assert registry._beside == {"c1": {1, 2}, "c2": {2}}
    registry.join_producer("p", replace(connection("c1", FakeSession(3)), named=True))
    assert (registry._beside, registry._named) == ({"c2": {2}}, {"c1": {3}})
    registry.session_closed(3)
    assert not registry._named
    for session in sessions:
        registry.committed_over(session.id)
    assert registry._speaking == {"c1": 2, "c2": 2}
    for session in sessions:
        assert not registry.is_superseded(2)
        for client in ("c1", "c2"):
            if how == "leave":
                registry.leave(session.id, client, producer_group="p", consumer_group="g")
                registry.leave(session.id, client, producer_group="p", consumer_group="g")
        if how == "close":
            registry.session_closed(session.id)
    if how == "expire":
        registry.expire(CONNECTION_EXPIRY_MS + 1)
    assert not registry._roles
    assert not registry._sessions
    assert not registry._beside
    assert not registry._speaking
    assert not registry._consumers
    assert not registry._producers


def test_a_heartbeat_without_subscriptions_keeps_them() -> None:
    registry = ClientRegistry()
    registry.join_consumer("g", PROFILE, connection(fingerprint=9), subscriptions=T)
    assert not registry.join_consumer("g", PROFILE, connection(), subscriptions=None)
    assert registry.find("g", "T") == T["T"]
    entry = registry.consumer_group("g")
    assert entry is not None
    member = entry.connection("c1")
    assert member is not None
    assert member.fingerprint == 9


def test_a_client_that_reconnects_is_one_member_reached_over_the_new_connection() -> None:
    registry = ClientRegistry()
    old, new = FakeSession(1), FakeSession(2)
    registry.join_consumer("g", PROFILE, connection(session=old), subscriptions=T)
    assert not registry.join_consumer("g", PROFILE, connection(session=new), subscriptions=T)
    assert members(registry) == ["c1"]
    assert registry.client_session("c1") is new
    assert registry.session_closed(1) == []
    assert members(registry) == ["c1"]
    assert registry.session_closed(2) == ["g"]
    assert registry.consumer_group("g") is None


def test_a_closed_connection_takes_all_its_clients_out_of_all_groups() -> None:
    registry = ClientRegistry()
    session = FakeSession(1)
    registry.join_producer("p", connection("c1", session))
    registry.join_consumer("g", PROFILE, connection("c1", session), subscriptions=T)
    registry.join_consumer("h", PROFILE, connection("c2", session), subscriptions=T)
    registry.join_consumer("h", PROFILE, connection("c3", FakeSession(2)), subscriptions=T)
    assert registry.session_closed(1) == ["g", "h"]
    assert members(registry, "h") == ["c3"]
    assert registry.producers("p") == []
    assert list(registry.producer_groups()) == []
    assert registry.client_session("c1") is None


def test_leaving_one_group_keeps_the_client_in_others() -> None:
    registry = ClientRegistry()
    registry.join_producer("p", connection())
    registry.join_consumer("g", PROFILE, connection(), subscriptions=T)
    assert registry.leave(1, "c1", consumer_group="g")
    assert not registry.leave(1, "c1", consumer_group="g")
    assert registry.client_session("c1") is not None
    assert not registry.leave(1, "c1", producer_group="p")
    assert registry.client_session("c1") is None


def test_silence_is_leaving_and_a_heartbeat_is_not() -> None:
    registry = ClientRegistry()
    registry.join_consumer("g", PROFILE, connection("c1", FakeSession(1), seen=0), subscriptions=T)
    registry.join_consumer("g", PROFILE, connection("c2", FakeSession(2), seen=10), subscriptions=T)
    registry.join_producer("p", connection("c1", FakeSession(1), seen=0))
    assert registry.expire(CONNECTION_EXPIRY_MS) == []
    assert registry.expire(CONNECTION_EXPIRY_MS + 1) == ["g"]
    assert members(registry) == ["c2"]
    assert registry.producers("p") == []


@pytest.mark.parametrize(
    ("subscription", "codes"),
    [
        (Subscription("T"), None),
        (Subscription("T", ""), None),
        (Subscription("T", "a || b", tags=("a", "b"), codes=(97, 98)), frozenset({97, 98})),
        (Subscription("T", "a", tags=("a",)), frozenset({java_hash("a")})),
        (Subscription("T", "\u8ba2", tags=("\u8ba2",), codes=(224_000,)), frozenset({224_000, 0x8BA2})),
        (Subscription("T", "x > 1", "SQL92"), None),
    ],
)
def test_tag_codes_come_from_the_client_and_its_tags(subscription: Subscription, codes: frozenset[int] | None) -> None:
    assert subscription.tag_codes == codes


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["join", "leave", "close", "produce"]), st.integers(1, 3), st.sampled_from("abc"),
            st.sampled_from(["g", "h"]),
        ),
        max_size=40,
    )
)  # fmt: skip
def test_a_client_is_known_exactly_while_it_has_a_place(steps: list[tuple[str, int, str, str]]) -> None:
    registry = ClientRegistry()
    places: set[tuple[int, str, str, bool]] = set()
    for step, session_id, client, group in steps:
        link = connection(client, FakeSession(session_id))
        if step == "join":
            registry.join_consumer(group, PROFILE, link, subscriptions=T)
            places.add((session_id, client, group, False))
        elif step == "produce":
            registry.join_producer(group, link)
            places.add((session_id, client, group, True))
        elif step == "leave":
            registry.leave(session_id, client, consumer_group=group)
            places.discard((session_id, client, group, False))
        else:
            registry.session_closed(session_id)
            places = {place for place in places if place[0] != session_id}
    for client in "abc":
        session = registry.client_session(client)
        assert (session is None) == all(place[1] != client for place in places)
    for group in "gh":
        assert set(members(registry, group)) == {c for _, c, g, producer in places if g == group and not producer}
        assert {p.client_id for p in registry.producers(group)} == {c for _, c, g, p in places if g == group and p}


def test_a_member_is_reached_over_its_newest_connection_that_is_not_closed() -> None:
    registry = ClientRegistry()
    old, new = FakeSession(1), FakeSession(2)
    for session in (old, new):
        registry.join_consumer("g", PROFILE, connection("c", session), subscriptions=T)
    group = registry.consumer_group("g")
    assert group is not None
    for closed, reached in ((False, new), (True, old)):
        new.closed = closed
        assert [each.session for each in group.connections()] == [reached]
        assert registry.client_session("c") is reached
    old.closed = True
    assert registry.client_session("c") is new


def test_a_connection_of_many_clients_is_forgotten_without_comparing_each_with_all() -> None:
    """One connection can name as many clients as it likes, and whoever waits for the loop waits for all of this."""
    compared = 0

    class Counted(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    registry, count = ClientRegistry(), 300
    for number in range(count):
        registry.join_producer("p", connection(Counted(f"c{number}")))
    compared = 0
    registry.session_closed(1)
    assert list(registry.producer_groups()) == []
    assert compared < 20 * count


def test_everybody_can_be_forgotten_at_once() -> None:
    registry = ClientRegistry()
    registry.join_consumer("g", PROFILE, connection(), subscriptions=T)
    registry.join_producer("p", connection())
    registry.clear()
    assert registry.consumer_group("g") is None
    assert registry.producers("p") == []
    assert registry.client_session("c1") is None
    assert registry.session_closed(1) == []
