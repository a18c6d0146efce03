"""Three controllers' admin ports, with the documents of the real ones, over one made-up state that tests change."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from logherd.app.admin_http import AdminHttp
from logherd.app.admin_routes import Action, Page, Routes
from logherd.service.controllers.documents import (
    BrokerShape,
    GroupPage,
    GroupsPage,
    GroupSummary,
    LeaderShape,
    MasterShape,
    MemberShape,
    PointShape,
    QuorumPage,
    RulesShape,
    StatusPage,
    TransferShape,
)

NODES = ("c-0", "c-1", "c-2")
SECRET = "a-secret"


@dataclass
class Quorum:
    """`leader` is a node's name. `orders` are the actions that the leader has carried out, in order."""

    leader: str | None = "c-1"
    told: bool = True
    """Whether the others know the leader's admin address."""
    epochs: dict[str, int] = field(default_factory=lambda: {"C/orders": 7, "C/bills": 1, "D/bills": 2})
    orders: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    lose_answers: int = 0
    """So many actions are carried out and their connections break before the answer."""
    refusal: tuple[int, dict[str, Any]] | None = None
    heir: str | None = None
    """Who leads some questions after the leadership was handed over; nobody does in between."""
    questions: int = 0
    page_size: int = 2
    masters: dict[str, int] = field(default_factory=dict)
    """Who leads a group, if it is not broker 1; 0 for nobody."""
    elects: bool = False
    """Whether an order to elect is carried out."""
    usurper: int | None = None
    """Who is elected instead."""
    reluctant: int = 0
    """So many questions after an election it is not yet carried out; then a new epoch begins."""
    elected: dict[str, int] = field(default_factory=dict)
    transfer: TransferShape | None = None
    why: str = "Broker 3 has exited."
    min_in_sync: int = 2
    older: int | None = None
    """A broker whose log ends in an earlier epoch."""
    addresses: dict[int, str] = field(default_factory=dict)
    """Of brokers, if they are not made up."""
    admins: dict[str, str] = field(default_factory=dict)

    def leader_shape(self) -> LeaderShape | None:
        if self.leader is None:
            return None
        admin = self.admins[self.leader] if self.told else None
        return LeaderShape(node=self.leader, address="h:9878", admin=admin)

    def status(self, node: str) -> StatusPage:
        if self.leader is None and self.heir is not None:
            self.questions += 1
            self.leader = self.heir if self.questions > 4 else None
        return StatusPage(
            cluster="K", node=node, identity=f"{node}.0", version="1", pid=1, role="", term=5,
            leader=self.leader_shape(), ready=True, why_not_ready=None, applied=0, committed=0, end=0, groups=3,
            peers=(),
        )  # fmt: skip

    def quorum(self, node: str) -> QuorumPage:
        leads = node == self.leader
        members = [
            MemberShape(
                node=each, identity=f"{each}.0", voter=True, connected=each != "c-2", match=100 if leads else None,
                lag_bytes=20 if leads else None, heard_ms=None if each == "c-2" else 3,
            )
            for each in NODES
        ]  # fmt: skip
        last = PointShape(epoch=5, position=120)
        return QuorumPage(
            node=node, identity=f"{node}.0", reset=0, last=last, leader=self.leader_shape(), term=5, members=members
        )

    def proceed(self, key: str) -> None:
        """An election that was asked for is carried out when it is time."""
        if key not in self.elected:
            return
        self.transfer = TransferShape(target=self.elected[key], request_id="r")
        if self.reluctant:
            self.reluctant -= 1
            return
        self.masters[key] = self.usurper or self.elected[key]
        del self.elected[key]
        self.epochs[key] += 1
        self.transfer = None

    def group(self, key: str, *, confirmed: bool = True) -> GroupPage:
        cluster, _, name = key.partition("/")
        master = self.masters.get(key, 1)
        brokers = [
            BrokerShape(
                broker_id=number, address=f"b{number}:10911", store_id="s", registration=number, alive=number != 3,
                learner=number == 4, exited=number == 3,
                end=PointShape(epoch=6 if number == self.older else 7, position=number * 10),
                heard_ms=None if number == 3 else 40,
            )
            for number in (1, 2, 3, 4)
        ]  # fmt: skip
        return GroupPage(
            position=0, confirmed=confirmed, live=True, cluster=cluster, name=name, epoch=self.epochs[key], version=1,
            founded=True, leader=self.master(master),
            in_sync=(1, 2), eligible=(), learners=(4,), committed=PointShape(epoch=7, position=9), brokers=brokers,
            rules=RulesShape(replicas=3, min_in_sync=self.min_in_sync, preferred=None), transfer=self.transfer,
            why=self.why,
        )  # fmt: skip

    def master(self, number: int) -> MasterShape | None:
        address = self.addresses.get(number, f"b{number}:10911")
        return MasterShape(broker_id=number, address=address, registration=1, serving=True) if number else None

    def groups(self, after: str, *, confirmed: bool) -> GroupsPage:
        keys = [key for key in sorted(self.epochs) if key > after]
        found = [
            GroupSummary(
                cluster=page.cluster, name=page.name, epoch=page.epoch, leader=page.leader, in_sync=page.in_sync,
                min_in_sync=page.rules.min_in_sync, brokers=4, alive=3, why=page.why,
            )
            for page in map(self.group, keys[: self.page_size])
        ]  # fmt: skip
        more = keys[self.page_size - 1] if len(keys) > self.page_size else None
        return GroupsPage(position=0, confirmed=confirmed, live=True, groups=found, after=more)


class Port:
    """What one node serves."""

    def __init__(self, quorum: Quorum, node: str, token: Path) -> None:
        self._quorum = quorum
        self._node = node
        group = "/groups/{cluster}/{name}"
        actions: dict[str, Action] = {
            f"{group}/{name}": self._on_group(name) for name in ("elect", "promote", "demote", "forget")
        }
        actions |= {"/quorum/transfer": self._on_quorum("transfer"), "/quorum/members": self._on_quorum("members")}
        pages: dict[str, Page] = {
            "/status": lambda: (200, quorum.status(node)), "/quorum": lambda: (200, quorum.quorum(node)),
        }  # fmt: skip
        views = {"/groups": self._groups, group: self._group}
        self.http = AdminHttp(Routes(pages, views, actions), token_file=token)

    async def _groups(self, query: Mapping[str, str], parts: Mapping[str, str]) -> tuple[int, object]:
        return self._confirmed(query) or (
            200, self._quorum.groups(query.get("after", ""), confirmed="stale" not in query),
        )  # fmt: skip

    async def _group(self, query: Mapping[str, str], parts: Mapping[str, str]) -> tuple[int, object]:
        key = f"{parts['cluster']}/{parts['name']}"
        if key not in self._quorum.epochs:
            return 404, {"error": f"there is no group {key}", "reason": "UNKNOWN_GROUP"}
        self._quorum.proceed(key)
        return self._confirmed(query) or (200, self._quorum.group(key))

    def _confirmed(self, query: Mapping[str, str]) -> tuple[int, object] | None:
        if self._quorum.leader is None and query.get("stale") != "true":
            return 503, {"error": "the quorum does not confirm what is known here"}
        return None

    def _on_group(self, name: str) -> Action:
        async def act(body: dict[str, Any], parts: Mapping[str, str]) -> tuple[int, object]:
            key = f"{parts['cluster']}/{parts['name']}"
            if name == "elect" and self._quorum.elects and self._quorum.refusal is None:
                self._quorum.elected[key] = body["brokerId"]
            return self._carry_out(f"{name} {key}", body, lambda: {"group": self._quorum.group(key)})

        return act

    def _on_quorum(self, name: str) -> Action:
        async def act(body: dict[str, Any], parts: Mapping[str, str]) -> tuple[int, object]:
            return self._carry_out(name, body, lambda: {"quorum": self._quorum.quorum(self._node)})

        return act

    def _carry_out(self, order: str, body: dict[str, Any], shown: Any) -> tuple[int, object]:
        quorum = self._quorum
        if self._node != quorum.leader:
            leader = quorum.leader_shape()
            return 409, {"error": "this controller does not lead", "reason": "NOT_LEADER", "leader": leader}
        if quorum.refusal is not None:
            return quorum.refusal
        changed = (order, body) not in quorum.orders
        if changed:
            quorum.orders.append((order, body))
            if order == "transfer" and quorum.heir is not None:
                quorum.leader = None
        if quorum.lose_answers:
            quorum.lose_answers -= 1
            raise ConnectionResetError
        return 200, {"changed": changed, "requestId": body["requestId"], **shown()}


@contextmanager
def serving(quorum: Quorum, token: Path) -> Iterator[Quorum]:
    """Serve in a thread of its own; `quorum.admins` has the addresses."""
    loop = asyncio.new_event_loop()
    ports = {node: Port(quorum, node, token) for node in NODES}

    async def start() -> None:
        for node, port in ports.items():
            quorum.admins[node] = f"127.0.0.1:{await port.http.start('127.0.0.1', 0)}"

    async def stop() -> None:
        for port in ports.values():
            port.http.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others)

    loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, name="controllers")
    thread.start()
    try:
        yield quorum
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
