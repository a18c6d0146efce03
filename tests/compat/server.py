"""What the tests know of a server, real RocketMQ and LogHerd alike: where it is and how to make a topic."""

import json
from dataclasses import dataclass

from compat.processes import until
from compat.remoting import ask

__all__ = ["BROKER", "CLUSTER", "Server"]

# Both kinds of server carry the same names, so that what they print can be compared as it is.
CLUSTER = "compat-cluster"
BROKER = "broker-a"


@dataclass(frozen=True, slots=True)
class Server:
    """A name server and one broker on loopback."""

    name_server_port: int
    broker_port: int

    @property
    def name_server(self) -> str:
        return f"127.0.0.1:{self.name_server_port}"

    @property
    def broker(self) -> str:
        return f"127.0.0.1:{self.broker_port}"

    def is_registered(self) -> bool:
        """Whether the name server lists the broker."""
        try:
            header, body = ask(self.name_server_port, 106, {})
        except OSError:
            return False
        return header["code"] == 0 and b'"' + BROKER.encode() + b'"' in body

    def queues_of(self, topic: str) -> int:
        """Read queues in the topic's route; 0 if there is no route."""
        header, body = ask(self.name_server_port, 105, {"topic": topic, "acceptStandardJsonOnly": "true"})
        if header["code"]:
            return 0
        return sum(queue["readQueueNums"] for queue in json.loads(body)["queueDatas"])

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        """The group's committed offset in a queue."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "setZeroIfNotFound": "false"}
        header, _ = ask(self.broker_port, 14, fields)
        return None if header["code"] else int(header["extFields"]["offset"])

    def minute_sum(self, statistic: str, key: str) -> int:
        """What a counter grew by in the last minute, as far as the broker has sampled it."""
        header, body = ask(self.broker_port, 315, {"statsName": statistic, "statsKey": key})
        return 0 if header["code"] else int(json.loads(body)["statsMinute"]["sum"])

    def create_topic(self, name: str, queues: int = 4) -> str:
        """Create it at the broker and wait until clients see it."""
        fields = {
            "topic": name, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues),
            "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        }  # fmt: skip
        header, _ = ask(self.broker_port, 17, fields)
        if header["code"]:
            raise RuntimeError(f"topic {name} refused: {header}")
        until(lambda: self.queues_of(name) == queues, seconds=60, what=f"route of {name}")
        return name

    def create_group(self, name: str) -> None:
        """Create a consumer group with RocketMQ's default settings."""
        header, _ = ask(self.broker_port, 200, {}, json.dumps({"groupName": name}).encode())
        if header["code"]:
            raise RuntimeError(f"group {name} refused: {header}")
