"""Where a send goes: the topic's queues, looked up once and kept; and topics that a send creates.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/processor/AbstractSendMessageProcessor.java
Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/topic/TopicConfigManager.java
"""

from logherd.model.topic import DLQ_PREFIX, RETRY_PREFIX, GroupConfig, Permission, TopicConfig
from logherd.service.errors import RequestError
from logherd.service.metadata import Metadata, TopicChange, is_reserved
from logherd.service.metadata.reserved import DEFAULT_TOPIC
from logherd.service.topic_names import NAME_BYTES_MAX, check_topic_name
from logherd.store import MessageStore, QueueLog
from logherd.wire.codes import ResponseCode

__all__ = ["Target", "Targets"]

_SYSTEM_FLAG_UNIT = 1


class Target:
    """A topic that takes sends. `queues` fills as queues are used; `retry_group` is set for retry topics."""

    __slots__ = ("_store", "config", "queues", "retry_group", "turn")

    def __init__(self, config: TopicConfig, store: MessageStore) -> None:
        self.config = config
        self.queues: dict[int, QueueLog] = {}
        self.retry_group = config.name[len(RETRY_PREFIX) :] if config.name.startswith(RETRY_PREFIX) else None
        self.turn = 0
        self._store = store

    def queue(self, queue_id: int) -> QueueLog:
        """The queue with this number, or the next in turn for a negative one.

        Raises: RequestError 29 if the topic has no such queue.
        """
        config = self.config
        if queue_id < 0:
            self.turn += 1
            queue_id = self.turn % max(1, config.write_queues)
        elif queue_id >= config.queues:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"queueId is {queue_id}, topic {config.name} has queues 0 to {config.queues - 1}",
            )
        found = self.queues.get(queue_id)
        if found is None:
            found = self.queues[queue_id] = self._store.queue(config.name, queue_id)
        return found


class Targets:
    """Targets by topic name; a change of a topic drops its target, so that the next send looks again."""

    def __init__(self, metadata: Metadata, store: MessageStore, *, auto_create: bool) -> None:
        self._metadata = metadata
        self._store = store
        self.auto_create = auto_create
        self._table: dict[str, Target] = {}
        self.get = self._table.get
        metadata.on_topic_change.append(self._forget)

    def resolve(self, topic: str, *, default_topic: str, default_queues: int, unit_mode: bool = False) -> Target:
        """Find or create the topic of a send.

        Raises: RequestError 29 for a bad name, 16 for a reserved one, 17 if it is missing and may not be created, 26 if
        its group does not exist, 14 if it is missing and the store takes no messages.
        """
        check_topic_name(topic)
        if is_reserved(topic):
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"topic {topic} belongs to the broker, clients cannot send to it"
            )
        config = self._metadata.topics.get(topic)
        if config is None:
            config = self._create(topic, default_topic, default_queues, unit_mode)
        return self._keep(config)

    def ensure(self, topic: str) -> Target:
        """A topic of the broker's own making, created when missing."""
        config = self._metadata.topics.get(topic)
        if config is None:
            config = TopicConfig(topic, 1, 1, Permission.READ_WRITE)
            self._metadata.topics.put(config)
        return self._keep(config)

    def dead_letters(self, group: str) -> Target:
        """Where a group's dead letters go, created when missing.

        Raises: RequestError 14 if it is missing and the store takes no messages.
        """
        topic = DLQ_PREFIX + group
        if topic not in self._metadata.topics:
            self._check_store()
        return self._table.get(topic) or self.ensure(topic)

    def check_group(self, name: str, topic: str) -> GroupConfig:
        """The group that a retry topic belongs to. Raises: RequestError 26 if there is none."""
        config = self._metadata.groups.get(name)
        if config is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"group {name!a} of topic {topic} does not exist"
            )
        return config

    def _check_store(self) -> None:
        """A store that takes no messages takes metadata all the same: a topic would stay that holds nothing."""
        if refusal := self._store.disk.refusal:
            raise RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, f"the store takes no messages now: {refusal}")

    def _keep(self, config: TopicConfig) -> Target:
        target = self._table[config.name] = Target(config, self._store)
        return target

    def _create(self, topic: str, default_topic: str, default_queues: int, unit_mode: bool) -> TopicConfig:
        system_flag = _SYSTEM_FLAG_UNIT if unit_mode else 0
        if topic.startswith(RETRY_PREFIX):
            self.check_group(topic[len(RETRY_PREFIX) :], topic)
            config = TopicConfig(topic, 1, 1, Permission.READ_WRITE, system_flag)
        else:
            template = self._template(topic, default_topic)
            queues = max(1, min(default_queues, template.write_queues))
            config = TopicConfig(topic, queues, queues, template.permission & ~Permission.INHERIT, system_flag)
        self._check_store()
        self._metadata.topics.put(config)
        return config

    def _template(self, topic: str, default_topic: str) -> TopicConfig:
        if default_topic == DEFAULT_TOPIC and not self.auto_create:
            raise _missing(topic, "this broker does not create topics by a send (topics.autoCreate is false)")
        template = self._metadata.topics.get(default_topic)
        if template is None:
            raise _missing(topic, f"its template {default_topic[:NAME_BYTES_MAX]!a} does not exist either")
        if not template.permission & Permission.INHERIT:
            raise _missing(topic, f"its template {default_topic} has permission {template.permission}, without INHERIT")
        return template

    def _forget(self, change: TopicChange) -> None:
        self._table.pop(change.name, None)


def _missing(topic: str, reason: str) -> RequestError:
    return RequestError(
        ResponseCode.TOPIC_NOT_EXIST,
        f"topic {topic} does not exist and was not created: {reason}; make it with updateTopic",
    )
