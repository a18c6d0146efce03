"""Consumer groups: requests 200, 201, 207, 225 and 352.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/processor/AdminBrokerProcessor.java
"""

from typing import Final

from logherd.model.topic import GroupConfig
from logherd.service.errors import RequestError
from logherd.service.group_names import check_group_name
from logherd.service.metadata import Metadata, is_system_group
from logherd.service.ports import Answer, Handler, Reply, Request, Session
from logherd.service.requests import after, body_reply, header_of, settled
from logherd.service.stats import BrokerStats
from logherd.wire.bodies import decode_body, encode_body
from logherd.wire.bodies.configs import DataVersion, GroupConfigBody, GroupConfigList, GroupConfigTable
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.headers.topics import DeleteGroupHeader, GroupHeader

__all__ = ["GroupAdmin"]

RETRY_QUEUES_MAX: Final = 1024
ATTRIBUTES_BYTES_MAX: Final = 32 << 10
"""As JSON. Records of metadata and the list of all groups stay far below what a log, and a frame, takes."""


class GroupAdmin:
    """Consumer groups of this broker group."""

    def __init__(self, metadata: Metadata, stats: BrokerStats) -> None:
        self._metadata = metadata
        # Also when another leader deletes it: this broker may have counted while it led.
        metadata.groups.gone_hooks.append(stats.forget_group)

    def handlers(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.put,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self.put_all,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.configuration,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all_configurations,
        }

    def put(self, request: Request, _session: Session) -> Answer:
        """200."""
        return after(self._metadata.groups.put(self._checked(decode_body(GroupConfigBody, request.body).to_model())))

    def put_all(self, request: Request, _session: Session) -> Answer:
        """225: as 18."""
        configs = [self._checked(body.to_model()) for body in decode_body(GroupConfigList, request.body).groups]
        position = 0
        for config in configs:
            position = self._metadata.groups.put(config)
        return after(position)

    def delete(self, request: Request, _session: Session) -> Answer:
        """207. Deleting what is not there succeeds, so that a repeated command does too."""
        header = header_of(request, DeleteGroupHeader)
        if is_system_group(header.group):
            raise RequestError(ResponseCode.INVALID_PARAMETER, f"group {header.group} belongs to the broker")
        position = self._metadata.groups.delete(header.group, clean_offsets=header.clean_offsets)
        return after(position)

    def configuration(self, request: Request, _session: Session) -> Answer:
        """352."""
        group = self._metadata.groups.get(header_of(request, GroupHeader).group)
        if group is None:
            reply = Reply(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark="No group in this broker")
        else:
            reply = body_reply(GroupConfigBody.from_model(group))
        return settled(self._metadata.groups.unsettled, reply)

    def all_configurations(self, _request: Request, _session: Session) -> Answer:
        """201."""
        version = self._metadata.groups.version
        table = GroupConfigTable(
            version=DataVersion(
                counter=version.counter, state_version=version.state_version, timestamp=version.timestamp
            ),
            groups={group.name: GroupConfigBody.from_model(group) for group in self._metadata.groups},
        )
        return settled(self._metadata.groups.unsettled, body_reply(table))

    def _checked(self, config: GroupConfig) -> GroupConfig:
        """Raises RequestError that names the field and what is right."""
        if config.name not in self._metadata.groups:
            check_group_name(config.name)
        if not 0 <= config.retry_queues <= RETRY_QUEUES_MAX:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"retryQueueNums is {config.retry_queues}; right is 0 to {RETRY_QUEUES_MAX}",
            )
        size = len(encode_body(dict(config.attributes)))
        if size > ATTRIBUTES_BYTES_MAX:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"attributes have {size} bytes; right are at most {ATTRIBUTES_BYTES_MAX}",
            )
        if config.retries_max < -1:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER, f"retryMaxTimes is {config.retries_max}; right is -1 or more"
            )
        return config
