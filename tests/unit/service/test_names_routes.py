"""The route table: who may register, what a route says, and when brokers and topics vanish."""

from dataclasses import replace

import pytest

from logherd.model.topic import Permission, TopicConfig
from logherd.service.names.epochs import Expected
from logherd.service.names.routes import (
    BrokerIdentity,
    Registered,
    Registration,
    RegistrationError,
    RouteTable,
    TableVersion,
)  # fmt: skip

LEADER = BrokerIdentity("C", "a", 0, "10.0.0.1:10911")
FOLLOWER = BrokerIdentity("C", "a", 1, "10.0.0.2:10911")
FIRST = TableVersion()
OTHER = BrokerIdentity("C", "b", 0, "10.0.0.3:10911")


def table(*, expected: tuple[str, ...] = ()) -> RouteTable:
    return RouteTable(started_ms=0, grace_ms=3000, groups=Expected(expected))


def registration(
    broker: BrokerIdentity = LEADER, topics: tuple[str, ...] = ("T", "U"), *, session: int | None = 7,
    version: TableVersion = FIRST, complete: bool = False, expiry_ms: int = 120_000, queues: int = 4,
) -> Registration:  # fmt: skip
    configs = {topic: TopicConfig(topic, queues, queues) for topic in topics}
    return Registration(
        broker, configs, version, ha_address=f"ha-{broker.address}", session_id=session, expiry_ms=expiry_ms,
        complete=complete,
    )  # fmt: skip


def test_a_route_names_the_queues_and_addresses_of_every_broker_with_the_topic() -> None:
    routes = table()
    routes.register(registration(), 0)
    routes.register(registration(FOLLOWER), 0)
    routes.register(registration(OTHER, ("T", "V"), queues=2), 0)
    route = routes.route("T")
    assert route is not None
    assert {name: config.read_queues for name, config in route.queues.items()} == {"a": 4, "b": 2}
    assert [(b.name, b.addresses) for b in route.brokers] == [
        ("a", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}), ("b", {0: "10.0.0.3:10911"}),
    ]  # fmt: skip
    assert routes.route("missing") is None


def test_only_the_leader_says_which_topics_there_are() -> None:
    routes = table()
    routes.register(registration(FOLLOWER, ("only-follower", "second")), 0)
    assert routes.topics() == []


def test_a_follower_hears_the_address_of_its_leader() -> None:
    routes = table()
    assert routes.register(registration(), 0) == Registered()
    assert routes.register(registration(FOLLOWER), 0) == Registered("10.0.0.1:10911", "ha-10.0.0.1:10911")


def test_a_broker_is_gone_after_its_own_expiry_and_its_topics_with_it() -> None:
    routes = table()
    routes.register(registration(expiry_ms=5_000), 1_000)
    assert routes.expire(6_000) == []
    assert routes.expire(6_001) == [LEADER]
    assert routes.route("T") is None
    assert routes.topics() == []
    assert routes.clusters() == {}


def test_a_sign_of_life_keeps_a_broker() -> None:
    routes = table()
    routes.register(registration(expiry_ms=5_000), 0)
    routes.touch("C", LEADER.address, 4_000)
    routes.touch("C", "unknown:1", 4_000)
    assert routes.expire(8_000) == []


def test_a_broker_of_this_process_does_not_expire() -> None:
    routes = table()
    routes.register(registration(session=None), 0)
    assert routes.expire(10**9) == []


def test_a_closed_connection_removes_exactly_its_brokers_at_once() -> None:
    routes = table()
    routes.register(registration(), 0)
    routes.register(registration(OTHER, session=8), 0)
    assert routes.session_closed(7, 0) == [LEADER]
    assert routes.topics_of_cluster("C") == ["T", "U"]
    assert list(routes.brokers()) == ["b"]


def test_a_late_close_of_an_old_connection_does_not_remove_a_broker_that_came_back() -> None:
    routes = table()
    routes.register(registration(session=7), 0)
    routes.register(registration(session=8), 0)
    assert routes.session_closed(7, 0) == []
    assert routes.route("T") is not None


def test_a_registration_that_arrives_late_over_an_old_connection_ends_nothing_with_it() -> None:
    """The network kept it back: its sender gave the connection up, and has registered over another."""
    routes = table()
    routes.register(registration(session=8), 0)
    routes.register(registration(session=7), 1)
    assert routes.session_closed(7, 1) == []
    assert routes.route("T") is not None
    assert routes.session_closed(8, 2) == [LEADER]


def test_a_registration_that_arrives_late_over_an_old_connection_takes_no_new_topic_out_of_routes() -> None:
    routes = table()
    old = replace(registration(version=TableVersion(counter=4), session=7, complete=True), epoch=3)
    new = replace(registration(LEADER, ("T", "U", "New"), version=TableVersion(counter=5), complete=True), epoch=3)
    routes.register(replace(new, session_id=8), 0)
    routes.register(old, 1)
    assert routes.topics() == ["T", "U", "New"]
    assert routes.version_of("C", LEADER.address) == TableVersion(counter=5)
    routes.register(replace(old, session_id=9), 2)  # over the newest one it counts: 5 may have been false
    assert routes.topics() == ["T", "U"]
    routes.register(new, 3)
    assert routes.topics() == ["T", "U", "New"]
    routes.register(replace(old, epoch=4), 4)
    assert routes.topics() == ["T", "U"]


def test_a_connection_that_is_left_counts_from_when_the_broker_spoke_over_it() -> None:
    routes = table()
    routes.register(registration(session=7, expiry_ms=5_000), 0)
    routes.register(registration(session=8, expiry_ms=5_000), 4_000)
    assert routes.session_closed(8, 4_500) == []
    assert routes.expire(5_000) == []
    assert routes.expire(5_001) == [LEADER]


def test_an_unregistration_that_arrives_late_takes_out_only_its_own_connection() -> None:
    """The process that sent it has ended, and the next one has registered."""
    routes = table()
    routes.register(registration(session=7), 0)
    routes.register(registration(session=9), 1)
    assert not routes.unregister(LEADER, session_id=7)
    assert routes.route("T") is not None
    assert routes.session_closed(9, 2) == [LEADER]
    routes.register(registration(session=9), 3)
    assert routes.unregister(LEADER, session_id=10)
    assert routes.route("T") is None


def test_topics_stay_while_a_follower_is_left_and_its_route_has_no_leader() -> None:
    routes = table()
    routes.register(registration(), 0)
    routes.register(registration(FOLLOWER, session=8), 0)
    assert routes.unregister(LEADER)
    route = routes.route("T")
    assert route is not None
    assert route.brokers[0].addresses == {1: FOLLOWER.address}


def test_an_address_that_changes_its_id_is_listed_once() -> None:
    routes = table()
    routes.register(registration(), 0)
    routes.register(registration(FOLLOWER), 0)
    routes.register(registration(FOLLOWER._replace(broker_id=0), version=TableVersion(state_version=1)), 0)
    assert routes.brokers()["a"].addresses == {0: FOLLOWER.address}


def test_a_leader_that_knows_no_epochs_may_come_back_as_a_follower() -> None:
    routes = table()
    routes.register(registration(), 0)
    routes.register(registration(LEADER._replace(broker_id=1)), 1)
    assert routes.brokers()["a"].addresses == {1: LEADER.address}


def test_a_broker_that_lost_its_state_takes_its_own_address_again() -> None:
    routes = table()
    routes.register(registration(version=TableVersion(state_version=5)), 0)
    routes.register(registration(version=TableVersion(state_version=1)), 1)
    assert routes.version_of("C", LEADER.address) == TableVersion(state_version=1)


def test_the_older_of_two_claimants_of_an_id_is_refused() -> None:
    routes = table()
    routes.register(registration(version=TableVersion(state_version=5)), 0)
    late = registration(LEADER._replace(address="10.0.0.9:1"), version=TableVersion(state_version=4))
    with pytest.raises(RegistrationError, match="state version 5"):
        routes.register(late, 0)
    assert routes.brokers()["a"].addresses == {0: LEADER.address}


def test_a_newer_claimant_replaces_the_address_and_the_old_one_cannot_expire_it() -> None:
    routes = table()
    routes.register(registration(session=7), 0)
    moved = LEADER._replace(address="10.0.0.9:1")
    routes.register(registration(moved, session=8), 0)
    assert routes.session_closed(7, 0) == []
    assert routes.brokers()["a"].addresses == {0: moved.address}


def test_a_single_topic_needs_a_full_registration_before() -> None:
    routes = table()
    with pytest.raises(RegistrationError, match="all its topics"):
        routes.register(registration(topics=("T",)), 0)
    assert routes.brokers() == {}
    routes.register(registration(), 0)
    routes.register(registration(topics=("new",)), 0)
    assert sorted(routes.topics()) == ["T", "U", "new"]


def test_a_name_cannot_move_to_another_cluster() -> None:
    routes = table()
    routes.register(registration(), 0)
    with pytest.raises(RegistrationError, match="belongs to cluster C"):
        routes.register(registration(LEADER._replace(cluster="D")), 0)


def test_a_broker_of_another_cluster_takes_nobody_out() -> None:
    routes = table()
    routes.register(registration(), 0)
    assert not routes.unregister(LEADER._replace(cluster="D"))
    assert routes.route("T") is not None


def test_a_broker_that_was_gone_is_written_to_again() -> None:
    routes = table()
    routes.register(registration(), 0)
    routes.wipe_write("a")
    routes.unregister(LEADER)
    routes.register(registration(), 1)
    back = routes.route("T")
    assert back is not None
    assert back.queues["a"].permission == Permission.READ_WRITE


def test_a_complete_registration_drops_the_topics_that_it_leaves_out() -> None:
    routes = table()
    routes.register(registration(complete=True), 0)
    routes.register(registration(topics=("U",), complete=True), 0)
    assert routes.topics() == ["U"]


def test_a_name_that_nobody_has_is_not_kept_from_being_written_to() -> None:
    routes = table()
    assert routes.wipe_write("a") == 0
    routes.register(registration(), 0)
    route = routes.route("T")
    assert route is not None
    assert route.queues["a"].permission == Permission.READ_WRITE


def test_wiped_write_permission_survives_the_next_registration_until_it_is_restored() -> None:
    routes = table()
    routes.register(registration(), 0)
    assert routes.wipe_write("a") == 2
    routes.register(registration(queues=8), 0)
    wiped = routes.route("T")
    assert wiped is not None
    assert wiped.queues["a"].permission == Permission.READ
    assert routes.restore_write("a") == 2
    restored = routes.route("T")
    assert restored is not None
    assert restored.queues["a"].permission == Permission.READ_WRITE


def test_a_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    routes = table()
    routes.register(registration(), 0)
    routes.register(registration(OTHER._replace(cluster="D")), 0)
    routes.delete_topic("T", "D")
    route = routes.route("T")
    assert route is not None
    assert list(route.queues) == ["a"]
    routes.delete_topic("T")
    assert routes.route("T") is None


def test_a_topic_set_by_hand_needs_known_brokers() -> None:
    routes = table()
    routes.register(registration(), 0)
    assert not routes.register_topic("X", {"a": TopicConfig("X"), "nobody": TopicConfig("X")})
    assert routes.route("X") is None
    assert routes.register_topic("X", {"a": TopicConfig("X")})
    assert routes.route("X") is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.register(registration(OTHER), 0),
        lambda r: r.register(registration(LEADER._replace(address="new:10911")), 0),
        lambda r: r.register(registration(LEADER._replace(broker_id=2, address="c:10911"), ()), 0),
        lambda r: r.unregister(FOLLOWER),
        lambda r: r.register(registration(queues=9), 0),
        lambda r: r.unregister(LEADER),
        lambda r: r.delete_topic("T"),
        lambda r: r.delete_topic("T", "C"),
        lambda r: r.wipe_write("a"),
        lambda r: r.session_closed(7, 0),
        lambda r: r.register_topic("X", {"a": TopicConfig("X")}),
    ],
)
def test_every_change_of_a_route_raises_the_revision(change: object) -> None:
    routes = table()
    routes.register(registration(), 0)
    routes.register(registration(FOLLOWER, (), session=8), 0)
    before = routes.revision
    change(routes)  # type: ignore[operator]
    assert routes.revision > before


def test_the_same_registration_again_leaves_the_revision() -> None:
    routes = table()
    routes.register(registration(), 0)
    before = routes.revision
    routes.register(registration(), 10)
    assert routes.revision == before


def test_unknown_topics_are_uncertain_for_one_lease_after_the_start() -> None:
    assert not table().settled(2_999)
    assert table().settled(3_000)


def test_unknown_topics_are_certain_once_every_expected_leader_has_registered() -> None:
    routes = table(expected=("a", "b"))
    routes.register(registration(), 0)
    assert not routes.settled(1)
    routes.register(registration(OTHER._replace(broker_id=1)), 0)
    assert not routes.settled(1)
    routes.register(registration(OTHER), 0)
    assert routes.settled(1)
