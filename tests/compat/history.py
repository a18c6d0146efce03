"""One scripted history, told to any server by the stock tools, and everything `mqadmin` prints about it on the way."""

import shlex
from dataclasses import dataclass, field
from typing import Any

from compat.driver import Driver, message
from compat.processes import until
from compat.server import BROKER, CLUSTER, Server

__all__ = ["Answer", "History", "tell"]

ORDERS, AUDIT, GROUP, PRODUCERS = "Orders", "Audit", "billing", "shop"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one command printed."""

    step: str
    command: str
    out: str
    err: str


@dataclass(slots=True)
class History:
    """The answers in order, and the ids that the server gave to messages: id -> name of the message."""

    answers: list[Answer] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)


# (step, command); {broker}, {id:NAME}, {offsetId:NAME} are filled in.
CREATE = [
    ("create topic", f"updateTopic -c {CLUSTER} -t {ORDERS} -r 4 -w 4 -p 6"),
    ("create topic at a broker", f"updateTopic -b {{broker}} -t {AUDIT} -r 2 -w 2 -p 6"),
    ("create topic read-only", "updateTopic -b {broker} -t ReadOnly -r 1 -w 1 -p 4"),
    ("create topic with an attribute", "updateTopic -b {broker} -t Typed -r 1 -w 1 -a +message.type=NORMAL"),
    ("create topic with a bad attribute", "updateTopic -b {broker} -t Wrong -r 1 -w 1 -a +no.such=1"),
    ("create topic with a bad name", "updateTopic -b {broker} -t 'bad name' -r 1 -w 1"),
    ("create a system topic", "updateTopic -b {broker} -t TBW102 -r 1 -w 1"),
    ("update topic", f"updateTopic -c {CLUSTER} -t Typed -r 3 -w 2 -p 6"),
    ("create group", f"updateSubGroup -c {CLUSTER} -g {GROUP} -r 5"),
    ("create group at a broker", "updateSubGroup -b {broker} -g idle -s false -o true"),
    ("group as configured", f"getConsumerConfig -g {GROUP}"),
    ("send", f"sendMessage -t {AUDIT} -p 'audit line' -k audit-key -c TagA -b {BROKER} -i 1"),
    ("send to a missing topic's queue", f"sendMessage -t {AUDIT} -p x -b {BROKER} -i 9"),
]
LOOK = [
    ("topics", "topicList"),
    ("topics with clusters", "topicList -c"),
    ("route", f"topicRoute -t {ORDERS}"),
    ("route of an auto-created topic", "topicRoute -t Auto"),
    ("route as a list", f"topicRoute -t {ORDERS} -l"),
    ("route of a missing topic", "topicRoute -t Missing"),
    ("topic status", f"topicStatus -t {ORDERS}"),
    ("status of an empty topic", "topicStatus -t Typed"),
    ("status of a missing topic", "topicStatus -t Missing"),
    ("clusters of a topic", f"topicClusterList -t {ORDERS}"),
    ("clusters", "clusterList"),
    ("clusters with totals", "clusterList -m"),
    ("broker status", "brokerStatus -b {broker}"),
    ("broker status by cluster", f"brokerStatus -c {CLUSTER}"),
    ("broker config", "getBrokerConfig -b {broker}"),
    ("progress", "consumerProgress"),
    ("progress of a group", f"consumerProgress -g {GROUP}"),
    ("progress of a group in a topic", f"consumerProgress -g {GROUP} -t {ORDERS}"),
    ("progress with clients", f"consumerProgress -g {GROUP} -s true"),
    ("progress of a missing group", "consumerProgress -g nobody"),
    ("consumer connections", f"consumerConnection -g {GROUP}"),
    ("consumer connections of a missing group", "consumerConnection -g nobody"),
    ("consumer status", f"consumerStatus -g {GROUP}"),
    ("producer connections", f"producerConnection -g {PRODUCERS} -t {ORDERS}"),
    ("producer connections of a missing group", f"producerConnection -g nobody -t {ORDERS}"),
    ("message by unique key", f"queryMsgByUniqueKey -t {ORDERS} -i {{id:order-1}}"),
    ("message by client id", f"queryMsgById -t {ORDERS} -i {{id:order-1}}"),
    ("message by offset id", f"queryMsgById -t {ORDERS} -i {{offsetId:order-2}}"),
    ("message by key", f"queryMsgByKey -t {ORDERS} -k customer-7"),
    ("message by a missing key", f"queryMsgByKey -t {ORDERS} -k nothing"),
    ("message by offset", f"queryMsgByOffset -t {ORDERS} -b {BROKER} -i 0 -o 2"),
    ("message by an offset beyond the end", f"queryMsgByOffset -t {ORDERS} -b {BROKER} -i 0 -o 99"),
    ("print", f"printMsg -t {ORDERS} -d true"),
    ("print by tag", f"printMsg -t {ORDERS} -s paid"),
    ("consume a queue", f"consumeMessage -t {ORDERS} -b {BROKER} -i 0 -o 1 -c 2 -g reader"),
    ("consume a topic", f"consumeMessage -t {ORDERS} -c 4 -g reader"),
    ("statistics", f"statsAll -t {ORDERS}"),
    ("statistics of an idle topic", "statsAll -t Typed"),
    ("update a setting", "updateBrokerConfig -b {broker} -k maxMessageSize -v 4194304"),
    ("update a missing setting", "updateBrokerConfig -b {broker} -k noSuchKey -v 1"),
]
CHANGE = [
    ("reset to a time", f"resetOffsetByTime -g {GROUP} -t {ORDERS} -s 0"),
    ("reset to now", f"resetOffsetByTime -g {GROUP} -t {ORDERS} -s now"),
    ("reset one queue", f"resetOffsetByTime -g {GROUP} -t {ORDERS} -b {{broker}} -q 0 -s -1 -o 1"),
    ("progress after the resets", f"consumerProgress -g {GROUP}"),
    ("delete group", f"deleteSubGroup -c {CLUSTER} -g {GROUP} -r true"),
    ("group after its end", f"getConsumerConfig -g {GROUP}"),
    ("delete topic", f"deleteTopic -c {CLUSTER} -t {ORDERS}"),
    ("route after its end", f"topicRoute -t {ORDERS}"),
    ("delete a missing topic", f"deleteTopic -c {CLUSTER} -t Missing"),
    ("topics at the end", "topicList"),
]


class Teller:
    """Runs commands against one server and notes what they print."""

    def __init__(self, driver: Driver, server: Server) -> None:
        self.driver = driver
        self.server = server
        self.history = History()
        self.by_name: dict[str, dict[str, Any]] = {}

    def run(self, steps: list[tuple[str, str]]) -> None:
        for step, text in steps:
            command = self.fill(text)
            said = self.driver.call("mqadmin", command=[*shlex.split(command), "-n", self.server.name_server])
            self.history.answers.append(Answer(step, command.split()[0], said["out"], said["err"]))

    def fill(self, text: str) -> str:
        text = text.replace("{broker}", self.server.broker)
        for name, sent in self.by_name.items():
            text = text.replace(f"{{id:{name}}}", sent["msgId"]).replace(f"{{offsetId:{name}}}", sent["offsetMsgId"])
        return text

    def send(self, topic: str, queue: int | None, names: list[str], **fields: Any) -> None:
        where = {} if queue is None else {"queueId": queue}
        messages = [message(f"body of {name}", **fields) for name in names]
        sent = self.driver.call("producer.send", name="p", topic=topic, mode="sync", messages=messages, **where)
        for name, answer in zip(names, sent, strict=True):
            self.by_name[name] = answer
            self.history.ids[answer["msgId"]] = f"<id of {name}>"
            self.history.ids[answer["offsetMsgId"]] = f"<offset id of {name}>"

    def counted(self) -> bool:
        """Whether the broker's statistics have seen everything; it samples its counters every ten seconds."""
        wanted = {"TOPIC_PUT_NUMS": (ORDERS, 7), "GROUP_GET_NUMS": (f"{ORDERS}@{GROUP}", 6)}
        return all(self.server.minute_sum(name, key) >= count for name, (key, count) in wanted.items())

    def consume(self, count: int) -> None:
        """The group reads everything, commits by its orderly end, and comes back to be looked at."""
        call, options = self.driver.call, {"topic": ORDERS, "group": GROUP, "nameServer": self.server.name_server}
        call("consumer.push", name="c", expression="paid || open", **options)
        call("consumer.received", name="c", count=count, timeoutMs=45_000)
        call("consumer.stop", name="c")
        call("consumer.push", name="c", expression="paid || open", **options)
        self.send(ORDERS, 3, ["late-1"], tags="open")
        call("consumer.received", name="c", count=1, timeoutMs=45_000)
        # The client commits every five seconds; what is looked at afterwards must not depend on when.
        until(lambda: self.server.committed(GROUP, ORDERS, 3) == 1, seconds=60, what="commit of the late message")


def tell(driver: Driver, server: Server) -> History:
    """Play the history on a fresh server."""
    teller = Teller(driver, server)
    teller.run(CREATE)
    driver.call("producer.start", name="p", group=PRODUCERS, nameServer=server.name_server)
    teller.send(ORDERS, 0, ["order-1", "order-2", "order-3"], tags="paid", keys="customer-7 2024")
    teller.send(ORDERS, 1, ["order-4", "order-5"], tags="open", properties={"priority": "high"})
    teller.send(ORDERS, 2, ["order-6"], tags="void")
    teller.send("Auto", None, ["auto-1"])
    teller.consume(5)
    until(teller.counted, seconds=40, what="statistics of all messages")
    teller.run(LOOK)
    driver.call("consumer.stop", name="c")
    driver.call("producer.stop", name="p")
    teller.run(CHANGE)
    return teller.history
