"""Routes of a group of replicas: a leader of a later epoch takes them at once, an earlier one never gets them back."""

from dataclasses import dataclass, field, replace

import pytest

from logherd.model.topic import TopicConfig
from logherd.service.identity import BrokerIdentity
from logherd.service.metadata import Metadata
from logherd.service.names import epochs
from logherd.service.names.epochs import MEMORY_MS, Epochs, Expected, Superseded
from logherd.service.names.handlers import BrokerNames
from logherd.service.names.keyvalues import KeyValues
from logherd.service.names.registration import LocalRegistration, OutgoingRequest, Registrar
from logherd.service.names.routes import SUCCESSION_MS, Registration, RegistrationError, RouteTable, TableVersion
from logherd.service.ports import Reply
from logherd.service.routing import Role
from logherd.wire.bodies import decode_body
from logherd.wire.bodies.configs import RegisterBroker
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.names import RegistrationRefusal, UnregisterBrokerHeader
from unit.service.asking import Desk
from unit.service.client_fakes import FakeClock, FakeSession
from unit.service.memory_log import MemoryLog

FIRST = BrokerIdentity("C", "g", 0, "10.0.0.1:10911")
SECOND = BrokerIdentity("C", "g", 0, "10.0.0.2:10911")


@dataclass
class Decided:
    """What a controller's state says."""

    epochs: dict[tuple[str, str], int] = field(default_factory=dict)

    def names(self) -> list[str]:
        return [name for _, name in self.epochs]

    def epoch(self, cluster: str, name: str) -> int:
        return self.epochs.get((cluster, name), 0)


def table(decided: Decided | None = None) -> RouteTable:
    return RouteTable(started_ms=0, grace_ms=3000, groups=decided)


def said(
    broker: BrokerIdentity, epoch: int | None, *, session: int | None = 7, state_version: int = 0, topic: str = "T"
) -> Registration:  # fmt: skip
    return Registration(
        broker, {topic: TopicConfig(topic)}, TableVersion(state_version=state_version), session_id=session,
        complete=True, epoch=epoch,
    )  # fmt: skip


def leader(routes: RouteTable) -> str | None:
    entry = routes.brokers().get("g")
    return None if entry is None else entry.addresses.get(0)


def test_the_leader_of_a_later_epoch_replaces_the_old_address_at_once() -> None:
    routes = table()
    routes.register(said(FIRST, 3), 0)
    routes.register(said(SECOND, 4, session=8, topic="U"), 1)
    assert routes.brokers()["g"].addresses == {0: SECOND.address}
    assert routes.topics() == ["U"]
    assert routes.session_closed(7, 2) == []
    assert leader(routes) == SECOND.address


def test_a_leader_of_an_earlier_epoch_is_refused_and_changes_nothing() -> None:
    routes = table()
    routes.register(said(SECOND, 4, session=8), 0)
    before = routes.revision
    with pytest.raises(
        Superseded, match=r"epoch 3 of g is refused: epoch 4 is known, led by 10\.0\.0\.2:10911"
    ) as told:
        routes.register(said(FIRST, 3, topic="old"), 1)
    assert (told.value.offered, told.value.epoch, told.value.leader) == (3, 4, SECOND.address)
    assert (routes.revision, leader(routes), routes.topics()) == (before, SECOND.address, ["T"])


def test_the_epoch_outlives_the_entry_of_its_leader() -> None:
    routes = table()
    routes.register(said(SECOND, 4, session=8), 0)
    routes.session_closed(8, 0)
    assert routes.expire(SUCCESSION_MS) == [SECOND]
    with pytest.raises(Superseded):
        routes.register(said(FIRST, 3), SUCCESSION_MS + 1)
    routes.register(said(SECOND, 5), SUCCESSION_MS + 2)
    assert leader(routes) == SECOND.address


def test_the_same_leader_registers_again_and_again() -> None:
    routes = table()
    routes.register(said(FIRST, 3), 0)
    before = routes.revision
    routes.register(said(FIRST, 3), 30_000)
    assert (routes.revision, leader(routes)) == (before, FIRST.address)
    assert routes.expire(140_000) == []
    assert routes.expire(150_001) == [FIRST]


def test_the_epoch_decides_and_not_the_state_version() -> None:
    routes = table()
    routes.register(said(FIRST, 3, state_version=900), 0)
    routes.register(said(SECOND, 4, state_version=1), 1)
    assert leader(routes) == SECOND.address


def test_a_withdrawal_of_an_old_leader_does_not_touch_the_new_one() -> None:
    routes = table()
    routes.register(said(FIRST, 3), 0)
    routes.register(said(SECOND, 4, session=8), 1)
    assert not routes.withdraw(FIRST, 3, 2)
    assert not routes.withdraw(SECOND, 3, 2)
    assert routes.expire(SUCCESSION_MS * 2) == []
    assert leader(routes) == SECOND.address


@pytest.mark.parametrize("goes", ["withdraws", "connection closes"])
def test_a_leader_that_goes_stays_in_routes_until_there_is_another_or_the_time_is_over(goes: str) -> None:
    for successor in (True, False):
        routes = table()
        routes.register(said(FIRST, 3), 0)
        if goes == "withdraws":
            assert routes.withdraw(FIRST, 3, 1_000)
        else:
            assert routes.session_closed(7, 1_000) == []
        assert routes.expire(1_000 + SUCCESSION_MS - 1) == []
        assert leader(routes) == FIRST.address
        if successor:
            routes.register(said(SECOND, 4, session=8), 2_000)
        assert routes.expire(1_000 + SUCCESSION_MS) == ([] if successor else [FIRST])
        assert leader(routes) == (SECOND.address if successor else None)


@pytest.mark.parametrize(("lease_ms", "kept_ms"), [(1_000, 10_000), (3_000, 10_000), (20_000, 60_000)])
def test_a_leader_that_is_gone_stays_in_routes_for_three_leases_or_ten_seconds(lease_ms: int, kept_ms: int) -> None:
    """Another one is elected when its lease is over."""
    routes = RouteTable(started_ms=0, grace_ms=lease_ms)
    routes.register(said(FIRST, 3), 0)
    assert routes.session_closed(7, 1_000) == []
    assert routes.expire(1_000 + kept_ms - 1) == []
    assert leader(routes) == FIRST.address
    assert routes.expire(1_000 + kept_ms) == [FIRST]


def test_a_withdrawal_is_of_the_epoch_whatever_address_it_names() -> None:
    """The leader was about to be found at another one: what it last registered is not what it knows of itself."""
    registrar = Registrar(
        BrokerIdentity("C", "g", 1, "10.0.0.1:10911"), Metadata.open(MemoryLog(), FakeClock()), ha_address="",
        routed="leader:10911", alone=False,
    )  # fmt: skip
    names = Names()
    registrar.lead(3)
    names.send(registrar.register())
    assert registrar.name(own=True)
    registrar.follow()
    names.send(registrar.unregister())
    assert names.routes.expire(names.clock.monotonic + SUCCESSION_MS) == [FIRST._replace(address="leader:10911")]


def test_an_address_that_another_name_takes_leaves_the_routes_of_the_first() -> None:
    """A group was taken down, and within the time of a succession another one leads at its address."""
    routes = table()
    routes.register(said(FIRST, 3), 0)
    routes.withdraw(FIRST, 3, 1_000)
    other = FIRST._replace(name="h")
    routes.register(said(other, 1, session=8), 2_000)
    assert list(routes.brokers()) == ["h"]
    assert not routes.unregister(FIRST)
    assert not routes.withdraw(FIRST, 1, 2_500)
    assert routes.session_closed(8, 3_000) == []
    assert routes.expire(3_000 + SUCCESSION_MS) == [other]
    assert (routes.brokers(), routes.topics()) == ({}, [])


def test_a_follower_of_another_name_takes_the_address_of_a_leader_that_is_gone() -> None:
    routes = table()
    routes.register(said(FIRST, 3), 0)
    routes.session_closed(7, 1_000)
    follower = FIRST._replace(name="h", broker_id=1)
    routes.register(Registration(follower, {}, TableVersion(), session_id=8, complete=True), 2_000)
    assert {name: broker.addresses for name, broker in routes.brokers().items()} == {"h": {1: FIRST.address}}


def test_a_leader_that_withdraws_and_ends_its_connection_later_has_no_more_time_by_that() -> None:
    routes = table()
    routes.register(said(FIRST, 3), 0)
    routes.withdraw(FIRST, 3, 1_000)
    assert routes.session_closed(7, 5_000) == []
    assert routes.expire(1_000 + SUCCESSION_MS) == [FIRST]


def test_a_leader_that_comes_back_as_a_follower_stays_in_routes_until_there_is_another() -> None:
    follower = FIRST._replace(broker_id=1)
    attends = Registration(follower, {}, TableVersion(), session_id=8, complete=True)
    for successor in (True, False):
        routes = table()
        routes.register(said(FIRST, 3), 0)
        routes.session_closed(7, 1_000)
        with pytest.raises(RegistrationError, match="leader of g in epoch 3"):
            routes.register(attends, 2_000)
        assert leader(routes) == FIRST.address
        if successor:
            routes.register(said(SECOND, 4, session=9), 3_000)
        else:
            assert routes.expire(1_000 + SUCCESSION_MS) == [FIRST]
        routes.register(attends, 1_000 + SUCCESSION_MS)
        assert routes.brokers()["g"].addresses[1] == follower.address
        assert leader(routes) == (SECOND.address if successor else None)


def test_a_leader_with_two_connections_is_there_until_both_are_gone() -> None:
    """A guardian of another name service has brought it here, too, and lets it go again."""
    routes = table()
    routes.register(said(FIRST, 3, session=7), 0)
    routes.register(said(FIRST, 3, session=8), 1_000)
    routes.session_closed(8, 2_000)
    assert routes.expire(2_000 + SUCCESSION_MS) == []
    assert leader(routes) == FIRST.address
    routes.session_closed(7, 20_000)
    assert routes.expire(20_000 + SUCCESSION_MS) == [FIRST]


def test_nothing_ends_a_leader_of_the_known_epoch() -> None:
    routes = table(Decided({("C", "g"): 3}))
    routes.register(said(FIRST, 3), 0)
    for now in (1, 1 + SUCCESSION_MS, 1 + 2 * SUCCESSION_MS):
        assert routes.expire(now) == []
    assert leader(routes) == FIRST.address


def test_connections_of_an_earlier_epoch_do_not_keep_a_leader() -> None:
    routes = table()
    routes.register(said(FIRST, 3, session=7), 0)
    routes.register(said(FIRST, 4, session=8), 1_000)
    routes.session_closed(8, 2_000)
    assert routes.expire(2_000 + SUCCESSION_MS) == [FIRST]


def test_a_leader_that_comes_back_in_time_is_not_expired() -> None:
    routes = table()
    routes.register(said(FIRST, 3), 0)
    routes.session_closed(7, 1_000)
    routes.register(said(FIRST, 3, session=8), 2_000)
    assert routes.expire(1_000 + SUCCESSION_MS) == []
    assert leader(routes) == FIRST.address


def test_a_broker_without_epoch_takes_a_name_only_when_no_leader_holds_it() -> None:
    routes = table()
    routes.register(said(FIRST, 3), 0)
    stock = said(SECOND, None, session=8)
    with pytest.raises(Superseded, match="without epoch"):
        routes.register(stock, 1)
    routes.withdraw(FIRST, 3, 2)
    routes.register(stock, 3)
    assert leader(routes) == SECOND.address
    assert routes.session_closed(8, 4) == [SECOND]


def test_a_follower_of_a_stock_leader_is_not_judged_by_epochs() -> None:
    routes = table()
    routes.register(said(FIRST, 3), 0)
    routes.register(said(SECOND._replace(broker_id=1), None, session=8), 1)
    assert routes.brokers()["g"].addresses == {0: FIRST.address, 1: SECOND.address}


def test_what_the_controllers_decided_refuses_and_ends_a_leader_that_has_not_heard_of_it() -> None:
    decided = Decided({("C", "g"): 3})
    routes = table(decided)
    routes.register(said(FIRST, 3), 0)
    decided.epochs["C", "g"] = 4
    with pytest.raises(Superseded):
        routes.register(said(FIRST, 3), 1_000)
    assert routes.expire(5_000) == []
    assert leader(routes) == FIRST.address
    assert routes.expire(5_000 + SUCCESSION_MS) == [FIRST]


def test_h13_groups_that_become_known_after_the_start_are_waited_for() -> None:
    decided = Decided()
    routes = table(decided)
    decided.epochs.update({("C", "g"): 3, ("C", "h"): 1})
    routes.register(said(FIRST, 3), 0)
    assert not routes.settled(1)
    decided.epochs.pop(("C", "h"))
    assert routes.settled(1)
    assert table(Decided({("C", "x"): 1})).settled(3_000)


OF_TABLE = 3 << 43
"""The epochs of a static group's third table begin here."""


@pytest.mark.parametrize(("epoch", "decided"), [(7, 0), (1 << 62, 3)])
def test_an_epoch_that_nobody_stands_for_any_more_is_forgotten(epoch: int, decided: int) -> None:
    """A group in raft mode was taken down and begins anew; or the leader was none, as the controllers know."""
    routes = table(Decided({("C", "g"): decided}))
    routes.register(said(SECOND, epoch, session=8), 0)
    routes.register(said(SECOND, epoch, session=8), 30_000)
    routes.session_closed(8, 40_000)
    assert routes.expire(40_000 + SUCCESSION_MS) == [SECOND]
    with pytest.raises(Superseded):
        routes.register(said(FIRST, decided or 1), 30_000 + MEMORY_MS)
    routes.register(said(FIRST, decided or 1), 30_001 + MEMORY_MS)
    assert leader(routes) == FIRST.address


def test_an_epoch_is_known_while_its_leader_is_in_routes() -> None:
    routes = table()
    patient = replace(said(SECOND, 4, session=8), expiry_ms=10 * MEMORY_MS)
    routes.register(patient, 0)
    with pytest.raises(Superseded, match="epoch 4 is known"):
        routes.register(said(FIRST, 3), 2 * MEMORY_MS)


def test_an_epoch_of_a_table_of_roles_is_not_forgotten() -> None:
    """Nothing but its group stops a static leader that was replaced, and a group that is down stops nobody."""
    routes = table()
    routes.register(said(SECOND, OF_TABLE + 1, session=8), 0)
    routes.session_closed(8, 0)
    assert routes.expire(SUCCESSION_MS) == [SECOND]
    with pytest.raises(Superseded):
        routes.register(said(FIRST, OF_TABLE), 100 * MEMORY_MS)


def test_what_the_controllers_decided_is_not_forgotten() -> None:
    routes = table(Decided({("C", "g"): 4}))
    with pytest.raises(Superseded):
        routes.register(said(FIRST, 3), 100 * MEMORY_MS)


def test_an_epoch_is_of_a_name_in_its_cluster() -> None:
    routes = table()
    routes.register(said(SECOND, 4, session=8), 0)
    routes.session_closed(8, 0)
    assert routes.expire(SUCCESSION_MS) == [SECOND]
    routes.register(said(FIRST._replace(cluster="D"), 1), SUCCESSION_MS)
    assert leader(routes) == FIRST.address


def test_names_beyond_the_most_forget_the_one_heard_of_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "NAMES_MAX", 2)
    known = Epochs(Expected())
    for name, epoch in (("a", 5), ("b", 2), ("a", 3), ("c", 1)):
        known.tell("C", name, epoch, 0)
    assert [known.of("C", name, 0) for name in "abc"] == [5, 0, 1]
    known.tell("C", "c", 2, 0)
    assert [known.of("C", name, 0) for name in "ac"] == [5, 2]


# -- over the wire


class Names:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.routes = table()
        self.desk = Desk(Role.NAMES, self.clock, BrokerNames(self.routes, KeyValues(save=lambda _: None), self.clock)
                         .handlers())  # fmt: skip

    def send(self, request: OutgoingRequest | None) -> Reply:
        assert request is not None
        return self.desk.ask(request.code, request.header, request.body, session=FakeSession(7))


def replica(clock: FakeClock, broker_id: int) -> Registrar:
    data = Metadata.open(MemoryLog(), clock)
    data.topics.put(TopicConfig("T", 4, 4))
    identity = BrokerIdentity("C", "g", broker_id, f"10.0.0.{broker_id}:10911")
    return Registrar(identity, data, ha_address="", alone=False)


def test_replicas_lead_in_turn_and_the_old_one_is_told_both_epochs() -> None:
    names = Names()
    first, second = replica(names.clock, 1), replica(names.clock, 2)
    assert first.register() is None
    first.lead(3)
    assert names.send(first.register()).code == 0
    second.lead(4)
    assert names.send(second.register()).code == 0
    reply = names.send(first.register())
    assert reply.code == ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH
    assert isinstance(reply.header, RegistrationRefusal)
    fields = encode_header(reply.header)
    assert fields == {"logherdOffered": "3", "logherdEpoch": "4", "logherdLeader": "10.0.0.2:10911"}
    data = Metadata.follow(MemoryLog(), names.clock, committed=0)
    data.promote(9)
    stock = Registrar(FIRST, data, ha_address="")
    refused = names.send(stock.register())
    assert refused.code == ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH
    assert isinstance(refused.header, RegistrationRefusal)
    assert encode_header(refused.header) == {**fields, "logherdOffered": "0"}
    first.follow()
    assert first.register() is None
    assert names.send(first.unregister()).code == 0
    names.routes.expire(names.clock.monotonic + 2 * SUCCESSION_MS)
    assert leader(names.routes) == "10.0.0.2:10911"


def test_a_withdrawal_ends_the_route_of_its_own_epoch() -> None:
    names = Names()
    registrar = replica(names.clock, 1)
    registrar.lead(3)
    names.send(registrar.register())
    registrar.follow()
    names.send(registrar.unregister())
    assert leader(names.routes) == "10.0.0.1:10911"
    assert names.routes.expire(names.clock.monotonic + SUCCESSION_MS) != []


def test_stock_name_services_see_the_epoch_as_the_state_version() -> None:
    registrar = replica(FakeClock(), 2)
    registrar.lead(5)
    request = registrar.register()
    assert request is not None
    assert encode_header(request.header)["brokerId"] == "0"
    assert decode_body(RegisterBroker, request.body).topics.version.state_version == 5


def test_only_a_leader_has_an_epoch() -> None:
    names = Names()
    first = replica(names.clock, 1)
    first.lead(3)
    request = first.register()
    assert request is not None
    fields = encode_header(request.header) | {"brokerId": "2", "brokerAddr": "10.6.6.6:1", "logherdEpoch": "9"}
    assert names.desk.ask(request.code, fields, request.body, session=FakeSession(8)).code == 0
    assert names.send(request).code == 0
    assert names.routes.brokers()["g"].addresses == {0: "10.0.0.1:10911", 2: "10.6.6.6:1"}


def test_a_broker_that_is_alone_names_no_epoch() -> None:
    clock = FakeClock()
    registrar = Registrar(FIRST, Metadata.open(MemoryLog(), clock), ha_address="")
    request = registrar.register()
    assert request is not None
    assert "logherdEpoch" not in encode_header(request.header) | encode_header(registrar.unregister().header)


def test_the_fields_of_ours_are_no_burden_to_who_does_not_send_them() -> None:
    fields = {"brokerName": "g", "brokerAddr": "a:1", "clusterName": "C", "brokerId": "0"}
    assert decode_header(UnregisterBrokerHeader, fields).epoch is None


def test_a_replica_with_the_name_service_in_its_process_leads_and_follows() -> None:
    clock, routes = FakeClock(), table()
    data = Metadata.open(MemoryLog(), clock)
    local = LocalRegistration(routes, FIRST._replace(broker_id=2), data, clock, alone=False)
    data.topics.put(TopicConfig("T"))
    local.register()
    assert routes.topics() == []
    local.lead(3)
    local.register()
    assert (leader(routes), "T" in routes.topics()) == (FIRST.address, True)
    local.follow()
    data.topics.put(TopicConfig("followed"))
    assert "followed" not in routes.topics()
    assert routes.expire(clock.monotonic + SUCCESSION_MS) == [FIRST]
    routes.register(said(SECOND, 5), clock.monotonic)
    local.lead(4)
    with pytest.raises(Superseded):
        local.register()
    assert leader(routes) == SECOND.address


def test_request_104_of_a_broker_that_is_alone_takes_it_out_at_once() -> None:
    names = Names()
    registrar = Registrar(FIRST, Metadata.open(MemoryLog(), names.clock), ha_address="")
    names.send(registrar.register())
    assert names.desk.ask(RequestCode.UNREGISTER_BROKER, registrar.unregister().header).code == 0
    assert leader(names.routes) is None


def test_request_104_of_a_process_that_has_ended_leaves_the_next_one_in_routes() -> None:
    names = Names()
    registrar = Registrar(FIRST, Metadata.open(MemoryLog(), names.clock), ha_address="")
    names.send(registrar.register())
    request = registrar.register()
    assert request is not None
    assert names.desk.ask(request.code, request.header, request.body, session=FakeSession(9)).code == 0
    assert names.send(registrar.unregister()).code == 0
    assert leader(names.routes) == FIRST.address
