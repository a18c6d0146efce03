"""The state and the settings of this broker: requests 25, 26, 28, 315 and 907.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/processor/AdminBrokerProcessor.java
"""

from collections.abc import Callable, Mapping
from functools import partial

from logherd.service.admin.runtime import RuntimeSource, runtime_table
from logherd.service.errors import RequestError
from logherd.service.identity import BrokerIdentity
from logherd.service.ports import PARKED, Answer, Handler, Reply, Request, Session
from logherd.service.properties_text import format_properties_text
from logherd.service.replica_view import FollowerView
from logherd.service.requests import body_reply, header_of
from logherd.service.settings_table import Divided, SettingsTable, divide_text
from logherd.service.stats import Window
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.brokers import BrokerStats, HaConnection, HaRuntimeInfo, HaSlaveInfo, StatsItem
from logherd.wire.bodies.configs import DataVersion
from logherd.wire.bodies.routes import KVTable
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers.admin import BrokerConfigResponse, BrokerStatsHeader

__all__ = ["Configure", "StateAdmin"]

Configure = Callable[[Mapping[str, str], Callable[[RequestError | None], None]], None]
"""Has settings of the process' configuration changed, all or none; later tells what was wrong, None for nothing."""


class StateAdmin:
    """What this process does and how it is set."""

    def __init__(
        self, settings: SettingsTable, runtime: RuntimeSource, *, identity: BrokerIdentity, configure: Configure
    ) -> None:
        self._settings = settings
        self._configure = configure
        self._runtime = runtime
        self._identity = identity

    def handlers(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.UPDATE_BROKER_CONFIG: self.update_settings,
            RequestCode.GET_BROKER_CONFIG: self.settings,
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime,
            RequestCode.VIEW_BROKER_STATS_DATA: self.statistics,
            RequestCode.GET_BROKER_HA_STATUS: self.replication,
        }

    def update_settings(self, request: Request, session: Session) -> Answer:
        """25: all changes or none."""
        divided = divide_text(self._settings, request.body)
        if not divided.configured:
            self._settings.take(divided)
            return Reply()
        self._configure(divided.configured, partial(self._configured, request, session, divided))
        return PARKED

    def _configured(self, request: Request, session: Session, divided: Divided, fault: RequestError | None) -> None:
        if fault is None:
            self._settings.take(divided)
        session.reply(request, Reply() if fault is None else Reply(fault.code, remark=fault.remark))

    def settings(self, _request: Request, _session: Session) -> Answer:
        """26."""
        version = DataVersion(counter=self._settings.version, timestamp=self._runtime.started_ms)
        header = BrokerConfigResponse(version=encode_body(version).decode())
        return Reply(header=header, body=format_properties_text(self._settings.values()))

    def runtime(self, _request: Request, _session: Session) -> Answer:
        """28."""
        return body_reply(KVTable(table=runtime_table(self._runtime)))

    def statistics(self, request: Request, _session: Session) -> Answer:
        """315. A statistic that has counted nothing yet does not exist, as in RocketMQ."""
        header = header_of(request, BrokerStatsHeader)
        view = self._runtime.stats.view(header.name, header.key, cluster=self._identity.cluster)
        if view is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"The stats <{header.name}> <{header.key}> not exist")
        return body_reply(BrokerStats(minute=_item(view.minute), hour=_item(view.hour), day=_item(view.day)))

    def replication(self, _request: Request, _session: Session) -> Answer:
        """907: this broker's part in its group. Whoever is alone is a leader without followers."""
        view, end = self._runtime.replication(), self._runtime.store.end_position
        if view is None or view.role == "leader":
            followers = () if view is None else [each for each in view.followers if each.connected]
            return body_reply(
                HaRuntimeInfo(
                    master=True, max_position=end, in_sync_slaves=sum(each.in_sync for each in followers),
                    connections=[_connection(each, end) for each in followers],
                )
            )  # fmt: skip
        leader = view.leader
        slave = HaSlaveInfo(
            master_address=leader.address if leader is not None else "", max_position=end,
            master_flush_position=view.positions.committed, activated=leader is not None,
        )  # fmt: skip
        return body_reply(HaRuntimeInfo(master=False, max_position=view.positions.committed, slave=slave))


def _connection(follower: FollowerView, end: int) -> HaConnection:
    """Until it has answered it has nothing, as far as is known. How fast it is sent to nobody counts."""
    has = follower.flushed or 0
    return HaConnection(
        address=f"broker {follower.broker_id}", acknowledged_position=has, lag=max(0, end - has),
        in_sync=follower.in_sync, transfer_position=has,
    )  # fmt: skip


def _item(window: Window) -> StatsItem:
    return StatsItem(total=window.sum, rate=window.per_second, average=window.per_call)
