"""One row for each request code: its header, the header of its answer, and the JSON bodies of both.

None means that there is none, or that the body is no JSON (messages, properties text, another request's bytes). Codes
beyond what LogHerd serves have a row too, so that a refusal can name them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from logherd.wire.bodies import brokers, clients, configs, connections, pop, progress, routes
from logherd.wire.codes import RequestCode as Code
from logherd.wire.headers import (
    admin,
    controller,
    forwarding,
    leases,
    names,
    offsets,
    producers,
    pull,
    queries,
    roles,
    send,
    topics,
    transactions,
)
from logherd.wire.headers import clients as client_headers
from logherd.wire.headers import pop as pop_headers

__all__ = ["REQUESTS", "RequestSpec"]


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """The types of one request. `body` and `response_body` are what `decode_body` takes."""

    code: int
    header: type[Struct] | None = None
    response: type[Struct] | None = None
    body: Any = None
    response_body: Any = None


def _messages() -> Iterator[RequestSpec]:
    for code in (Code.SEND_MESSAGE, Code.SEND_REPLY_MESSAGE):
        yield RequestSpec(code, send.SendMessageHeader, send.SendMessageResponse)
    for code in (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE_V2):
        yield RequestSpec(code, send.SendMessageHeaderV2, send.SendMessageResponse)
    yield RequestSpec(Code.PUSH_REPLY_MESSAGE_TO_CLIENT, send.PushReplyHeader)
    yield RequestSpec(Code.END_TRANSACTION, transactions.EndTransactionHeader)
    yield RequestSpec(Code.CHECK_TRANSACTION_STATE, transactions.CheckTransactionHeader)
    yield RequestSpec(Code.RECALL_MESSAGE, transactions.RecallMessageHeader, transactions.RecallMessageResponse)
    yield RequestSpec(Code.CONSUMER_SEND_MSG_BACK, client_headers.SendBackHeader)
    for code in (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE):
        yield RequestSpec(code, pull.PullMessageHeader, pull.PullMessageResponse)
    yield RequestSpec(Code.QUERY_MESSAGE, queries.QueryMessageHeader, queries.QueryMessageResponse)
    yield RequestSpec(Code.VIEW_MESSAGE_BY_ID, queries.ViewMessageHeader)
    yield RequestSpec(
        Code.QUERY_CONSUME_QUEUE, queries.QueryConsumeQueueHeader, response_body=progress.ConsumeQueuePage
    )


def _offsets() -> Iterator[RequestSpec]:
    answer = offsets.OffsetResponse
    yield RequestSpec(Code.QUERY_CONSUMER_OFFSET, offsets.QueryConsumerOffsetHeader, answer)
    yield RequestSpec(Code.UPDATE_CONSUMER_OFFSET, offsets.UpdateConsumerOffsetHeader)
    yield RequestSpec(Code.SEARCH_OFFSET_BY_TIMESTAMP, offsets.SearchOffsetHeader, answer)
    yield RequestSpec(Code.GET_MAX_OFFSET, offsets.GetMaxOffsetHeader, answer)
    yield RequestSpec(Code.GET_MIN_OFFSET, offsets.QueueHeader, answer)
    yield RequestSpec(Code.GET_EARLIEST_MSG_STORETIME, offsets.QueueHeader, offsets.TimestampResponse)
    yield RequestSpec(Code.GET_ALL_CONSUMER_OFFSET, response_body=progress.ConsumerOffsets)


def _clients() -> Iterator[RequestSpec]:
    group = client_headers.ConsumerGroupHeader
    yield RequestSpec(Code.HEART_BEAT, None, client_headers.HeartbeatResponse, body=clients.Heartbeat)
    yield RequestSpec(Code.UNREGISTER_CLIENT, client_headers.UnregisterClientHeader)
    yield RequestSpec(Code.CHECK_CLIENT_CONFIG, body=clients.ClientConfig)
    yield RequestSpec(Code.GET_CONSUMER_LIST_BY_GROUP, group, response_body=clients.ConsumerIds)
    yield RequestSpec(Code.NOTIFY_CONSUMER_IDS_CHANGED, group)
    yield RequestSpec(Code.LOCK_BATCH_MQ, body=clients.LockQueues, response_body=clients.LockedQueues)
    yield RequestSpec(Code.UNLOCK_BATCH_MQ, body=clients.LockQueues)
    yield RequestSpec(
        Code.RESET_CONSUMER_CLIENT_OFFSET, client_headers.ResetClientOffsetHeader, body=clients.ClientOffsets
    )
    yield RequestSpec(
        Code.GET_CONSUMER_STATUS_FROM_CLIENT, client_headers.ClientStatusHeader, response_body=clients.ClientPositions
    )
    yield RequestSpec(Code.GET_CONSUMER_RUNNING_INFO, client_headers.RunningInfoHeader)
    yield RequestSpec(
        Code.CONSUME_MESSAGE_DIRECTLY,
        client_headers.ConsumeDirectlyHeader,
        response_body=clients.ConsumeDirectlyResult,
    )
    yield RequestSpec(Code.GET_CONSUMER_CONNECTION_LIST, group, response_body=connections.ConsumerConnections)
    yield RequestSpec(
        Code.GET_PRODUCER_CONNECTION_LIST, admin.ProducerGroupHeader, response_body=connections.ProducerConnections
    )
    yield RequestSpec(Code.GET_ALL_PRODUCER_INFO, response_body=connections.ProducerTable)


def _name_service() -> Iterator[RequestSpec]:
    yield RequestSpec(Code.GET_ROUTEINFO_BY_TOPIC, names.RouteHeader, response_body=routes.TopicRoute)
    yield RequestSpec(Code.GET_BROKER_CLUSTER_INFO, response_body=routes.ClusterInfo)
    yield RequestSpec(
        Code.REGISTER_BROKER,
        names.RegisterBrokerHeader,
        names.RegisterBrokerResponse,
        body=configs.RegisterBroker,
        response_body=routes.KVTable,
    )
    yield RequestSpec(Code.UNREGISTER_BROKER, names.UnregisterBrokerHeader)
    yield RequestSpec(
        Code.QUERY_DATA_VERSION,
        names.DataVersionHeader,
        names.DataVersionResponse,
        body=configs.DataVersion,
        response_body=configs.DataVersion,
    )
    yield RequestSpec(Code.BROKER_HEARTBEAT, names.BrokerHeartbeatHeader)
    yield RequestSpec(Code.GET_BROKER_MEMBER_GROUP, names.MemberGroupHeader, response_body=routes.MemberGroupAnswer)
    yield RequestSpec(Code.WIPE_WRITE_PERM_OF_BROKER, names.BrokerNameHeader, names.WipeWritePermissionResponse)
    yield RequestSpec(Code.ADD_WRITE_PERM_OF_BROKER, names.BrokerNameHeader, names.AddWritePermissionResponse)
    yield RequestSpec(Code.DELETE_TOPIC_IN_NAMESRV, names.DeleteNamesTopicHeader)
    yield RequestSpec(Code.REGISTER_TOPIC_IN_NAMESRV, topics.TopicHeader, body=routes.TopicRoute)
    yield RequestSpec(Code.GET_TOPICS_BY_CLUSTER, names.ClusterHeader, response_body=routes.TopicList)
    for code in (
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        Code.GET_UNIT_TOPIC_LIST,
        Code.GET_HAS_UNIT_SUB_TOPIC_LIST,
        Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    ):
        yield RequestSpec(code, response_body=routes.TopicList)
    yield RequestSpec(Code.PUT_KV_CONFIG, names.PutKVHeader)
    yield RequestSpec(Code.GET_KV_CONFIG, names.KVHeader, names.KVResponse)
    yield RequestSpec(Code.DELETE_KV_CONFIG, names.KVHeader)
    yield RequestSpec(Code.GET_KVLIST_BY_NAMESPACE, names.NamespaceHeader, response_body=routes.KVTable)
    for code in (Code.UPDATE_NAMESRV_CONFIG, Code.GET_NAMESRV_CONFIG):
        yield RequestSpec(code)


def _topics_and_groups() -> Iterator[RequestSpec]:
    for code in (Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_STATIC_TOPIC):
        yield RequestSpec(code, topics.CreateTopicHeader)
    yield RequestSpec(Code.UPDATE_AND_CREATE_TOPIC_LIST, body=configs.TopicConfigList)
    yield RequestSpec(Code.DELETE_TOPIC_IN_BROKER, topics.TopicHeader)
    yield RequestSpec(Code.GET_TOPIC_CONFIG, topics.TopicConfigHeader, response_body=configs.TopicConfigBody)
    yield RequestSpec(Code.GET_ALL_TOPIC_CONFIG, response_body=configs.TopicConfigTable)
    yield RequestSpec(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, response_body=routes.TopicList)
    yield RequestSpec(Code.GET_TOPIC_STATS_INFO, topics.TopicHeader, response_body=progress.TopicStats)
    yield RequestSpec(Code.QUERY_TOPIC_CONSUME_BY_WHO, topics.TopicHeader, response_body=routes.GroupList)
    yield RequestSpec(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=configs.GroupConfigBody)
    yield RequestSpec(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=configs.GroupConfigList)
    yield RequestSpec(Code.GET_SUBSCRIPTIONGROUP_CONFIG, topics.GroupHeader, response_body=configs.GroupConfigBody)
    yield RequestSpec(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, response_body=configs.GroupConfigTable)
    yield RequestSpec(Code.DELETE_SUBSCRIPTIONGROUP, topics.DeleteGroupHeader)
    yield RequestSpec(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, topics.ForbiddenHeader, response_body=configs.Forbidden)


def _progress() -> Iterator[RequestSpec]:
    yield RequestSpec(Code.GET_CONSUME_STATS, admin.ConsumeStatsHeader, response_body=progress.ConsumeStats)
    yield RequestSpec(
        Code.GET_BROKER_CONSUME_STATS, admin.BrokerConsumeStatsHeader, response_body=progress.BrokerConsumeStats
    )
    yield RequestSpec(Code.QUERY_CONSUME_TIME_SPAN, topics.GroupTopicHeader, response_body=progress.TimeSpans)
    yield RequestSpec(Code.QUERY_TOPICS_BY_CONSUMER, topics.GroupHeader, response_body=routes.TopicList)
    yield RequestSpec(
        Code.QUERY_SUBSCRIPTION_BY_CONSUMER, topics.GroupTopicHeader, response_body=connections.GroupSubscription
    )
    yield RequestSpec(Code.INVOKE_BROKER_TO_RESET_OFFSET, admin.ResetOffsetHeader, response_body=clients.ClientOffsets)
    yield RequestSpec(
        Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, admin.ConsumerStatusHeader, response_body=clients.ClientPositions
    )
    yield RequestSpec(Code.CLONE_GROUP_OFFSET, admin.CloneOffsetsHeader)
    yield RequestSpec(
        Code.QUERY_CORRECTION_OFFSET, admin.CorrectionOffsetHeader, response_body=progress.CorrectionOffsets
    )


def _broker_state() -> Iterator[RequestSpec]:
    yield RequestSpec(Code.GET_BROKER_RUNTIME_INFO, response_body=routes.KVTable)
    yield RequestSpec(Code.UPDATE_BROKER_CONFIG)
    yield RequestSpec(Code.GET_BROKER_CONFIG, None, admin.BrokerConfigResponse)
    yield RequestSpec(Code.VIEW_BROKER_STATS_DATA, admin.BrokerStatsHeader, response_body=brokers.BrokerStats)
    yield RequestSpec(Code.GET_BROKER_HA_STATUS, response_body=brokers.HaRuntimeInfo)
    yield RequestSpec(Code.GET_BROKER_EPOCH_CACHE, response_body=brokers.EpochCache)
    yield RequestSpec(Code.RESET_MASTER_FLUSH_OFFSET, admin.ResetFlushPositionHeader)
    yield RequestSpec(Code.EXCHANGE_BROKER_HA_INFO, admin.ExchangeHaHeader, admin.ExchangeHaHeader)
    yield RequestSpec(Code.NOTIFY_MIN_BROKER_ID_CHANGE, admin.MinBrokerIdHeader)
    yield RequestSpec(Code.RESUME_CHECK_HALF_MESSAGE, admin.ResumeCheckHeader)


def _pop() -> Iterator[RequestSpec]:
    yield RequestSpec(Code.QUERY_ASSIGNMENT, body=pop.QueryAssignment, response_body=pop.Assignments)
    yield RequestSpec(Code.SET_MESSAGE_REQUEST_MODE, body=pop.SetRequestMode)
    yield RequestSpec(Code.POP_MESSAGE, pop_headers.PopMessageHeader, pop_headers.PopMessageResponse)
    yield RequestSpec(Code.PEEK_MESSAGE, pop_headers.PeekMessageHeader, pop_headers.PopMessageResponse)
    yield RequestSpec(Code.ACK_MESSAGE, pop_headers.AckMessageHeader)
    yield RequestSpec(Code.BATCH_ACK_MESSAGE, body=pop.BatchAckMessages)
    yield RequestSpec(
        Code.CHANGE_MESSAGE_INVISIBLETIME,
        pop_headers.ChangeInvisibleTimeHeader,
        pop_headers.ChangeInvisibleTimeResponse,
    )
    yield RequestSpec(Code.NOTIFICATION, pop_headers.NotificationHeader, pop_headers.NotificationResponse)
    yield RequestSpec(Code.POLLING_INFO, pop_headers.PollingInfoHeader, pop_headers.PollingInfoResponse)


def _controller() -> Iterator[RequestSpec]:
    sync_set = brokers.SyncStateSet
    yield RequestSpec(
        Code.CONTROLLER_ALTER_SYNC_STATE_SET,
        controller.AlterSyncStateSetHeader,
        controller.AlterSyncStateSetResponse,
        body=sync_set,
        response_body=sync_set,
    )
    yield RequestSpec(
        Code.CONTROLLER_ELECT_MASTER,
        controller.ElectMasterHeader,
        controller.MasterResponse,
        response_body=brokers.ElectMasterAnswer,
    )
    yield RequestSpec(
        Code.CONTROLLER_REGISTER_BROKER,
        controller.RegisterReplicaHeader,
        controller.RegisterReplicaResponse,
        response_body=sync_set,
    )
    yield RequestSpec(
        Code.CONTROLLER_GET_REPLICA_INFO,
        controller.ReplicaInfoHeader,
        controller.MasterResponse,
        response_body=sync_set,
    )
    yield RequestSpec(Code.CONTROLLER_GET_METADATA_INFO, None, controller.ControllerMetadataResponse)
    yield RequestSpec(Code.CONTROLLER_GET_SYNC_STATE_DATA, body=list[str], response_body=brokers.SyncStateData)
    yield RequestSpec(Code.NOTIFY_BROKER_ROLE_CHANGED, controller.RoleChangedHeader, body=sync_set)
    yield RequestSpec(Code.CLEAN_BROKER_DATA, controller.CleanBrokerDataHeader)
    yield RequestSpec(
        Code.CONTROLLER_GET_NEXT_BROKER_ID, controller.NextBrokerIdHeader, controller.NextBrokerIdResponse
    )
    yield RequestSpec(Code.CONTROLLER_APPLY_BROKER_ID, controller.ApplyBrokerIdHeader, controller.ApplyBrokerIdResponse)
    yield RequestSpec(Code.LEASE_RELEASE, leases.LeaseReleaseHeader, leases.LeaseReleaseResponse)
    yield RequestSpec(Code.ROLES_PROMOTE, roles.RolesPromoteHeader, roles.RolesPromoteResponse)


def _forwarding() -> Iterator[RequestSpec]:
    yield RequestSpec(Code.FORWARDING_OPEN, forwarding.ForwardingOpenHeader, forwarding.ForwardingClock)
    yield RequestSpec(Code.FORWARDING_CLOCK, None, forwarding.ForwardingClock)
    yield RequestSpec(Code.FORWARDING_LEFT, forwarding.ForwardingLeftHeader)


def _writers() -> Iterator[RequestSpec]:
    yield RequestSpec(Code.WRITER_OPEN, producers.OpenWriterHeader, producers.OpenWriterResponse)
    yield RequestSpec(Code.WRITER_CHUNK, producers.StoreChunkHeader, producers.StoreChunkResponse)
    yield RequestSpec(Code.WRITER_COUNT, producers.CountChunksHeader, producers.CountChunksResponse)
    yield RequestSpec(Code.WRITER_CLOSE, producers.CloseWriterHeader)


def _build() -> Mapping[int, RequestSpec]:
    rows = {int(code): RequestSpec(code) for code in Code}
    families = (
        _messages, _offsets, _clients, _name_service, _topics_and_groups, _progress, _broker_state, _pop, _controller,
        _forwarding, _writers,
    )  # fmt: skip
    for family in families:
        rows.update((row.code, row) for row in family())
    return MappingProxyType(rows)


REQUESTS: Mapping[int, RequestSpec] = _build()
"""Every code of RequestCode, and no other."""
