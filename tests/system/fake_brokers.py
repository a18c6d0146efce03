"""Brokers without messages: they claim ids, register, hold leases, change in-sync sets, resign and start again.

What they do is what a broker does towards its controllers, in a hurry; each keeps a history. Groups live a few seconds
each, so that the search of the judge stays small and new groups begin under every fault.
"""

import itertools
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from checkers.history import Outcome
from checkers.leadership import Lease
from logherd.wire.bodies import decode_body, encode_body
from logherd.wire.bodies.brokers import SyncStateSet
from logherd.wire.bodies.insync import AlteringBody, AlteringMember
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header
from logherd.wire.headers.controller import (
    AlterSyncStateSetResponse,
    ApplyBrokerIdHeader,
    MasterResponse,
    NextBrokerIdHeader,
    NextBrokerIdResponse,
    ReplicaInfoHeader,
)
from logherd.wire.headers.leases import (
    AlteringHeader,
    HeartbeatHeader,
    LeaseAnswer,
    RegisteredResponse,
    RegisteringHeader,
)
from system.controller_client import Asked, ControllerClient, Question

__all__ = ["CLUSTER", "FakeBroker", "GroupFacts", "ask_claim", "ask_look", "ask_next", "ask_register", "drain_group"]

CLUSTER = "proof"
REPLICAS = 3
_HEARTBEAT_SECONDS = 0.3


@dataclass(slots=True)
class GroupFacts:
    """What the brokers of one group know of each other, as they would by replication. Shared by their threads."""

    name: str
    registrations: dict[int, int] = field(default_factory=dict)
    claims: dict[int, str] = field(default_factory=dict)
    processes: dict[int, str] = field(default_factory=dict)


def ask_next(group: str) -> Question:
    header = NextBrokerIdHeader(cluster_name=CLUSTER, broker_name=group)
    return Question(
        "next", group, {}, RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, header,
        lambda frame: {"id": decode_header(NextBrokerIdResponse, frame.ext).next_broker_id},
    )  # fmt: skip


def ask_claim(group: str, broker_id: int, code: str) -> Question:
    header = ApplyBrokerIdHeader(
        cluster_name=CLUSTER, broker_name=group, applied_broker_id=broker_id, register_check_code=code
    )
    return Question(
        "claim", group, {"id": broker_id, "code": code}, RequestCode.CONTROLLER_APPLY_BROKER_ID, header,
        lambda frame: {"granted": frame.code == ResponseCode.SUCCESS},
        refusals=frozenset({ResponseCode.CONTROLLER_BROKER_ID_INVALID}),
    )  # fmt: skip


def ask_register(group: str, broker_id: int, incarnation: str) -> Question:
    store = f"store-{group}-{broker_id}"
    header = RegisteringHeader(
        cluster_name=CLUSTER, broker_name=group, broker_id=broker_id, broker_address=f"{group}-{broker_id}:10911",
        store_id=store, incarnation=incarnation, replicas=REPLICAS, min_in_sync=2,
    )  # fmt: skip
    arguments = {"id": broker_id, "store": store, "incarnation": incarnation}
    return Question(
        "register", group, arguments, RequestCode.CONTROLLER_REGISTER_BROKER, header,
        lambda frame: {"registration": decode_header(RegisteredResponse, frame.ext).registration},
    )  # fmt: skip


def ask_look(group: str) -> Question:
    header = ReplicaInfoHeader(broker_name=group)
    return Question("look", group, {}, RequestCode.CONTROLLER_GET_REPLICA_INFO, header, _roles_of_1004)


def _altered(frame: Frame) -> dict[str, object]:
    """Whoever is not heard is left out."""
    members = sorted(decode_body(SyncStateSet, frame.body).members)
    return {"version": decode_header(AlterSyncStateSetResponse, frame.ext).sync_state_set_epoch, "members": members}


def _roles(epoch: int | None, master: int | None, frame: Frame) -> dict[str, object]:
    body = decode_body(SyncStateSet, frame.body)
    return {"epoch": epoch or 0, "master": master or 0, "version": body.epoch, "members": list(body.members)}


def _roles_of_1004(frame: Frame) -> dict[str, object]:
    header = decode_header(MasterResponse, frame.ext)
    return _roles(header.master_epoch, header.master_broker_id, frame)


def _roles_of_904(frame: Frame) -> dict[str, object]:
    header = decode_header(LeaseAnswer, frame.ext)
    return _roles(header.master_epoch, header.master_broker_id, frame)


def drain_group(client: ControllerClient, facts: GroupFacts, *, seconds: float = 120.0) -> None:
    """Ask everything that can have been lost, the roles last. Raises TimeoutError.

    A group in which nobody got a number gets one broker here: without any, nobody could ask for its roles.
    """
    deadline = time.monotonic() + seconds

    def insist(question: Question) -> Asked:
        for attempt in itertools.count(1):
            asked = client.ask(question, attempt=attempt)
            if asked is not None and asked.outcome is Outcome.OK:
                return asked
            if time.monotonic() > deadline:
                break
        raise TimeoutError(f"{question.name} of {facts.name} is not answered: {asked}")

    free = int(insist(ask_next(facts.name)).answer["id"])
    for number in sorted(facts.claims) or [free]:
        insist(ask_claim(facts.name, number, "somebody else"))
    for number, process in sorted(facts.processes.items()):
        insist(ask_register(facts.name, number, process))
    insist(ask_look(facts.name))


class FakeBroker(threading.Thread):
    """One broker after another, each in the next group, until told to stop."""

    def __init__(
        self, client: ControllerClient, groups: Callable[[], GroupFacts | None], *, seed: int, name: str
    ) -> None:
        """`groups` gives the group to be in now; None: stop."""
        super().__init__(name=name, daemon=True)
        self._client = client
        self._groups = groups
        self._draw = random.Random(seed)
        self._incarnations = itertools.count(1)
        self.leases: list[Lease] = []
        self.error: BaseException | None = None
        self._facts = GroupFacts("")
        self._id = 0
        self._incarnation = ""
        self._registration = 0
        self._resigned = 0

    def run(self) -> None:
        try:
            while (facts := self._groups()) is not None:
                self._facts = facts
                self._live()
        except BaseException as error:
            self.error = error  # the test asks; a thread's own complaint would only be printed
            raise
        finally:
            self._client.close()

    @property
    def _here(self) -> bool:
        return self._groups() is self._facts

    def _live(self) -> None:
        self._id = self._registration = self._resigned = 0
        self._claim()
        while self._here:
            if not self._registration and not self._register():
                continue
            self._beat()
            time.sleep(self._draw.uniform(0.5, 1.0) * _HEARTBEAT_SECONDS)  # the pace of heartbeats

    def _try(self, question: Question) -> Asked | None:
        """One attempt, again and again until it is answered or the group's time is over."""
        for attempt in itertools.count(1):
            if not self._here:
                return None
            asked = self._client.ask(question, attempt=attempt)
            if asked is not None and asked.outcome is Outcome.OK:
                return asked
        return None

    def _claim(self) -> None:
        """All brokers of the group at once, so that they take the same numbers."""
        code = f"{self.name}-{next(self._incarnations)}"
        while not self._id:
            found = self._try(ask_next(self._facts.name))
            if found is None:
                return
            number = int(found.answer["id"])
            claimed = self._try(ask_claim(self._facts.name, number, code))
            if claimed is not None and claimed.answer["granted"]:
                self._id = number
                self._facts.claims[number] = code

    def _register(self) -> bool:
        incarnation = f"{self.name}-{next(self._incarnations)}"
        asked = self._try(ask_register(self._facts.name, self._id, incarnation))
        if asked is None:
            return False
        self._incarnation, self._resigned = incarnation, 0
        self._registration = int(asked.answer["registration"])
        self._facts.registrations[self._id] = self._registration
        self._facts.processes[self._id] = incarnation
        return True

    def _beat(self) -> None:
        header = HeartbeatHeader(
            cluster_name=CLUSTER, broker_name=self._facts.name, broker_id=self._id, epoch=0, max_position=0,
            confirmed_position=0, broker_address=f"{self._facts.name}-{self._id}:10911",
            registration=self._registration, resigned=self._resigned,
        )  # fmt: skip
        asked = self._client.ask(
            Question("look", self._facts.name, {}, RequestCode.BROKER_HEARTBEAT, header, _roles_of_904)
        )
        if asked is None or asked.frame is None:
            return
        if asked.frame.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED:
            self._registration = 0
        elif asked.outcome is Outcome.OK:
            self._act(asked)

    def _act(self, asked: Asked) -> None:
        """What a broker does with its role: a leader changes the set or resigns, anybody may die and start again."""
        answer = decode_header(LeaseAnswer, asked.frame.ext) if asked.frame is not None else LeaseAnswer()
        epoch = answer.master_epoch or 0
        leads = answer.lease_ms is not None and epoch > self._resigned
        if leads and answer.lease_ms is not None:
            until = asked.sent + answer.lease_ms * 1_000_000
            holder = f"{self._id} {self._incarnation}"
            self.leases.append(Lease(self._facts.name, asked.returned, until, holder, epoch))
        chance = self._draw.random()
        if chance < 0.04:
            self._registration = 0
        elif leads and chance < 0.20:
            self._resign(epoch)
        elif leads and chance < 0.70:
            self._alter(epoch, int(asked.answer["version"]), list(asked.answer["members"]))

    def _resign(self, epoch: int) -> None:
        """Lead no more from now on; the heartbeats will say so."""
        self._resigned = epoch
        now = time.monotonic_ns()
        mine = (self._facts.name, epoch)
        self.leases = [
            replace(each, until=max(each.began, min(each.until, now))) if (each.group, each.epoch) == mine else each
            for each in self.leases
        ]

    def _alter(self, epoch: int, version: int, members: list[int]) -> None:
        """Take one out, or everybody in."""
        everybody = sorted(self._facts.registrations)
        rest = [each for each in members if each != self._id]
        wanted = everybody if len(members) < len(everybody) else sorted({self._id, *rest[1:]})
        processes = [
            AlteringMember(broker_id=each, registration=self._facts.registrations[each], end_epoch=0, end_position=0)
            for each in wanted
        ]
        header = AlteringHeader(
            broker_name=self._facts.name, master_broker_id=self._id, master_epoch=epoch, cluster_name=CLUSTER,
            registration=self._registration, min_in_sync=2,
        )  # fmt: skip
        arguments = {"broker": self._id, "epoch": epoch, "version": version, "members": wanted}
        body = encode_body(AlteringBody(members=wanted, version=version, processes=processes))
        self._client.ask(
            Question(
                "alter", self._facts.name, arguments, RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header,
                _altered,
                body,
            )
        )  # fmt: skip
