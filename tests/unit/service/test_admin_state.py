"""Settings, figures and statistics of a broker, as requests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from logherd.model.topic import Permission
from logherd.service.admin.runtime import DiskSpace, RuntimeSource
from logherd.service.admin.settings import broker_settings
from logherd.service.admin.state import StateAdmin
from logherd.service.routing import Role
from logherd.service.stats import BrokerStats
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers import encode_header
from unit.service.asking import Desk, decoded
from unit.service.small_broker import IDENTITY, SmallBroker


class Obeying:
    permission: int = Permission.READ_WRITE
    auto_create = True
    auto_create_groups = True
    age_ms = 72 * 3_600_000


class Admin(SmallBroker):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.sends, self.pulls = Obeying(), Obeying()
        self.in_routes: list[int] = []
        self.stats = BrokerStats(now_ms=0, wall_ms=self.clock.wall)
        settings = broker_settings(
            IDENTITY, permitted=(self.sends, self.pulls), creation=self.sends, groups=(self.sends, self.pulls),
            retention=self.sends, on_permission=self.in_routes.append,
            fixed={"listenPort": 10911, "flushDiskType": "SYNC_FLUSH"},
        )  # fmt: skip
        runtime = RuntimeSource(self.store, self.stats, self.clock, self.clock.wall, lambda: DiskSpace(1000, 250))
        self.desk = Desk(Role.BROKER, self.clock, StateAdmin(settings, runtime, identity=IDENTITY).handlers())

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
        b"autoCreateSubscriptionGroup=true\nautoCreateTopicEnable=true\nbrokerClusterName=C\nbrokerId=0\nbrokerName=a\nbrokerPermission=6\n"
        b"fileReservedTime=72\nflushDiskType=SYNC_FLUSH\nlistenPort=10911\n"
    )
    assert encode_header(reply.header) == {  # type: ignore[arg-type]
        "version": f'{{"counter":0,"stateVersion":0,"timestamp":{admin.clock.wall}}}'
    }


def test_the_permission_changes_for_sends_pulls_and_routes(admin: Admin) -> None:
    assert admin.update("brokerPermission=4\n") == (0, "")
    assert (admin.sends.permission, admin.pulls.permission, admin.in_routes) == (4, 4, [4])


def test_automatic_topics_are_switched(admin: Admin) -> None:
    assert admin.update("autoCreateTopicEnable=false") == (0, "")
    assert admin.sends.auto_create is False


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("brokerPermision=4", "no setting is called 'brokerPermision'; there are autoCreateSubscriptionGroup"),
        ("brokerPermission=5", "right is 0 or 2 or 4 or 6"),
        ("brokerName=b", "brokerName is a and is fixed"),
        ("autoCreateTopicEnable=yes", "right is true or false"),
        ("autoCreateTopicEnable=false\nlistenPort=1", "listenPort is 10911 and is fixed"),
    ],
)
def test_a_wrong_setting_is_refused_and_nothing_changes(admin: Admin, text: str, named: str) -> None:
    code, remark = admin.update(text)
    assert (code, named in remark) == (ResponseCode.INVALID_PARAMETER, True)
    assert (admin.sends.permission, admin.sends.auto_create) == (6, True)


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


def test_groups_and_retention_obey_at_once(admin: Admin) -> None:
    assert admin.update("autoCreateSubscriptionGroup=false\nfileReservedTime=24\n") == (0, "")
    assert (admin.sends.auto_create_groups, admin.pulls.auto_create_groups) == (False, False)
    assert admin.sends.age_ms == 24 * 3_600_000


@pytest.mark.parametrize("value", ["0", "-1", "a day", "87601"])
def test_a_wrong_retention_is_refused_and_changes_nothing(admin: Admin, value: str) -> None:
    code, remark = admin.update(f"autoCreateSubscriptionGroup=false\nfileReservedTime={value}\n")
    assert code == 29
    assert f"fileReservedTime is '{value}'; right is a whole number from 1 to 87600" in remark
    assert admin.sends.auto_create_groups
    assert admin.sends.age_ms == 72 * 3_600_000
