"""Settings, figures and statistics of a broker, as requests."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from logherd.model.topic import Permission
from logherd.service.admin.runtime import DiskSpace, RuntimeSource
from logherd.service.admin.settings import broker_settings
from logherd.service.admin.state import StateAdmin
from logherd.service.errors import RequestError
from logherd.service.replica_view import (
    FollowerView,
    InSyncView,
    LeaderView,
    PositionsView,
    ReplicationView,
    RequestsView,
    RoleName,
)
from logherd.service.routing import Role
from logherd.service.stats import BrokerStats
from logherd.store import MessageStore, StoreDamaged
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers import encode_header
from unit.service.asking import Desk, decoded
from unit.service.client_fakes import FakeSession
from unit.service.small_broker import IDENTITY, SmallBroker


class Obeying:
    permission: int = Permission.READ_WRITE


class Configuration:
    """Takes what it is told to, when the test says so."""

    def __init__(self) -> None:
        self.values = {"autoCreateTopicEnable": "true", "fileReservedTime": "72"}
        self.asked: list[tuple[Mapping[str, str], Callable[[RequestError | None], None]]] = []

    def change(self, wanted: Mapping[str, str], told: Callable[[RequestError | None], None]) -> None:
        self.asked.append((wanted, told))


class Admin(SmallBroker):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.sends, self.pulls = Obeying(), Obeying()
        self.in_routes: list[int] = []
        self.stats = BrokerStats(now_ms=0, wall_ms=self.clock.wall)
        self.configuration = Configuration()
        settings = broker_settings(
            IDENTITY, permitted=(self.sends, self.pulls), on_permission=self.in_routes.append,
            fixed={"listenPort": 10911, "flushDiskType": "SYNC_FLUSH"}, configured=lambda: self.configuration.values,
        )  # fmt: skip
        self.view: ReplicationView | None = None
        runtime = RuntimeSource(
            self.store, self.stats, self.clock, self.clock.wall, lambda: DiskSpace(1000, 600, 200), lambda: self.view
        )
        state = StateAdmin(settings, runtime, identity=IDENTITY, configure=self.configuration.change)
        self.desk = Desk(Role.BROKER, self.clock, state.handlers())

    def update(self, text: str) -> tuple[int, str]:
        reply = self.desk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, text.encode())
        return reply.code, reply.remark or ""


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Admin]:
    broker = Admin(tmp_path)
    yield broker
    broker.close()


def test_settings_are_told_as_lines_with_their_version(admin: Admin) -> None:
    reply = admin.desk.ask(RequestCode.GET_BROKER_CONFIG)
    assert reply.body == (
        b"autoCreateTopicEnable=true\nbrokerClusterName=C\nbrokerId=0\nbrokerName=a\nbrokerPermission=6\n"
        b"fileReservedTime=72\nflushDiskType=SYNC_FLUSH\nlistenPort=10911\n"
    )
    assert encode_header(reply.header) == {  # type: ignore[arg-type]
        "version": f'{{"counter":0,"stateVersion":0,"timestamp":{admin.clock.wall}}}'
    }


def test_the_permission_changes_for_sends_pulls_and_routes(admin: Admin) -> None:
    assert admin.update("brokerPermission=4\n") == (0, "")
    assert (admin.sends.permission, admin.pulls.permission, admin.in_routes) == (4, 4, [4])


def test_what_the_configuration_takes_is_answered_when_it_has_taken_it(admin: Admin) -> None:
    session = FakeSession()
    text = b"autoCreateTopicEnable=true\nfileReservedTime=48\nbrokerPermission=4\n"
    assert admin.desk.park(RequestCode.UPDATE_BROKER_CONFIG, None, text, session=session) is None
    ((wanted, told),) = admin.configuration.asked
    assert wanted == {"fileReservedTime": "48"}
    assert (admin.sends.permission, session.replies) == (6, [])
    told(None)
    assert (admin.sends.permission, [each.code for each in session.replies]) == (4, [0])


def test_what_the_configuration_refuses_changes_nothing(admin: Admin) -> None:
    session = FakeSession()
    text = b"fileReservedTime=0\nbrokerPermission=4\n"
    assert admin.desk.park(RequestCode.UPDATE_BROKER_CONFIG, None, text, session=session) is None
    admin.configuration.asked[0][1](RequestError(29, "fileReservedTime: '0' is not right: ..."))
    (reply,) = session.replies
    assert (reply.code, reply.remark) == (
        ResponseCode.INVALID_PARAMETER, "fileReservedTime: '0' is not right: ...",
    )  # fmt: skip
    assert admin.sends.permission == 6


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("brokerPermision=4", "no setting is called 'brokerPermision'; there are autoCreateTopicEnable"),
        ("brokerPermission=5", "right is 0 or 2 or 4 or 6"),
        ("brokerName=b", "brokerName is a and is fixed"),
        ("autoCreateTopicEnable=false\nlistenPort=1", "listenPort is 10911 and is fixed"),
    ],
)
def test_a_wrong_setting_is_refused_and_nothing_changes(admin: Admin, text: str, named: str) -> None:
    code, remark = admin.update(text)
    assert (code, named in remark) == (ResponseCode.INVALID_PARAMETER, True)
    assert (admin.sends.permission, admin.configuration.asked) == (6, [])


def test_settings_that_are_no_text_are_refused(admin: Admin) -> None:
    reply = admin.desk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"\xff\xfe")
    assert reply.code == ResponseCode.INVALID_PARAMETER


def test_runtime_figures_come_from_the_store(admin: Admin) -> None:
    admin.put("T")
    told = decoded(admin.desk.ask(RequestCode.GET_BROKER_RUNTIME_INFO))
    assert isinstance(told, dict)
    table = told["table"]
    assert all(isinstance(value, str) for value in table.values())
    assert table["commitLogMaxOffset"] == str(admin.store.end_position)
    assert table["earliestMessageTimeStamp"] == str(admin.clock.wall)
    assert table["commitLogDiskRatio"] == "0.75"


def test_figures_are_told_although_the_oldest_record_is_damaged(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays the oldest until retention takes it, and messages behind it go in and out meanwhile."""
    admin.put("T")

    def damaged(_store: MessageStore, _position: int) -> memoryview | None:
        raise StoreDamaged("commitlog/0", 0, "the record checksum differs", ".")

    monkeypatch.setattr(MessageStore, "record_at", damaged)
    told = decoded(admin.desk.ask(RequestCode.GET_BROKER_RUNTIME_INFO))
    assert isinstance(told, dict)
    assert told["table"]["earliestMessageTimeStamp"] == "-1"
    assert told["table"]["commitLogMaxOffset"] == str(admin.store.end_position)


def test_statistics_exist_once_they_counted(admin: Admin) -> None:
    view = RequestCode.VIEW_BROKER_STATS_DATA
    header = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}
    missing = admin.desk.ask(view, header)
    assert (missing.code, missing.remark) == (ResponseCode.SYSTEM_ERROR, "The stats <TOPIC_PUT_NUMS> <T> not exist")
    admin.stats.count_put("T", 20, 100)
    admin.stats.tick(10_000, admin.clock.wall)
    assert decoded(admin.desk.ask(view, header)) == {
        "statsMinute": {"sum": 20, "tps": 2.0, "avgpt": 20.0},
        "statsHour": {"sum": 0, "tps": 0.0, "avgpt": 0.0},
        "statsDay": {"sum": 0, "tps": 0.0, "avgpt": 0.0},
    }


def test_a_single_leader_has_no_followers(admin: Admin) -> None:
    told = decoded(admin.desk.ask(RequestCode.GET_BROKER_HA_STATUS))
    assert isinstance(told, dict)
    assert (told["master"], told["inSyncSlaveNums"], told["haConnectionInfo"]) == (True, 0, [])
    assert told["masterCommitLogMaxOffset"] == admin.store.end_position


def view_of(role: RoleName, end: int) -> ReplicationView:
    followers = [
        FollowerView(broker_id=2, connected=True, in_sync=True, flushed=end - 7, lag_bytes=7, lag_ms=1),
        FollowerView(broker_id=3, connected=True, in_sync=False, flushed=None, lag_bytes=None, lag_ms=None),
        FollowerView(broker_id=4, connected=False, in_sync=True, flushed=end, lag_bytes=0, lag_ms=0),
    ]
    return ReplicationView(
        mode="controller", role=role, serving=role == "leader", epoch=7, lease_ms=None,
        leader=None if role == "none" else LeaderView(broker_id=1, address="b1:10911"),
        in_sync=InSyncView(members=[1, 2, 4], version=1, min_in_sync=2),
        positions=PositionsView(end=end, flushed=end, committed=end - 3),
        followers=followers if role == "leader" else (), pending=None, closed=None,
        requests=RequestsView(forwarded=0, held=0),
    )  # fmt: skip


def test_a_leader_tells_of_the_followers_that_are_connected(admin: Admin) -> None:
    end = admin.store.end_position
    admin.view = view_of("leader", end)
    told = decoded(admin.desk.ask(RequestCode.GET_BROKER_HA_STATUS))
    assert isinstance(told, dict)
    assert (told["master"], told["masterCommitLogMaxOffset"], told["inSyncSlaveNums"]) == (True, end, 1)
    assert [
        (each["addr"], each["slaveAckOffset"], each["diff"], each["inSync"]) for each in told["haConnectionInfo"]
    ] == [("broker 2", end - 7, 7, True), ("broker 3", 0, end, False)]


@pytest.mark.parametrize(("role", "address"), [("follower", "b1:10911"), ("none", "")])
def test_whoever_does_not_lead_tells_who_does(admin: Admin, role: RoleName, address: str) -> None:
    end = admin.store.end_position
    admin.view = view_of(role, end)
    told = decoded(admin.desk.ask(RequestCode.GET_BROKER_HA_STATUS))
    assert isinstance(told, dict)
    slave = told["haClientRuntimeInfo"]
    assert (told["master"], told["haConnectionInfo"]) == (False, [])
    assert (slave["masterAddr"], slave["maxOffset"], slave["activated"]) == (address, end, bool(address))
