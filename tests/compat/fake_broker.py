"""A broker as the controllers see it: it registers, heartbeats, and takes the role that it is given; it stores nothing.

It speaks RocketMQ's protocol with the few lines of `compat.remoting`, to LogHerd's controllers with LogHerd's fields.
"""

import json
import socket
import threading
from contextlib import closing
from typing import Any

from compat.controllers import Controllers
from compat.processes import until
from compat.remoting import frame, read_frame, split_frame
from compat.server import BROKER, CLUSTER

__all__ = ["FakeBroker", "in_sync"]

ALTER, ELECT, REGISTER, SYNC_STATE, NOTIFY, NEXT_ID, APPLY_ID, BEAT, RELEASE = (
    1001, 1002, 1003, 1006, 1008, 1012, 1013, 904, 27001,
)  # fmt: skip
_NOT_LEADER = 2007
_BEAT_SECONDS = 0.25
_TIMEOUT_MS = 1_500


class Line:
    """One connection that stays. What the controller pushes on it meanwhile is kept."""

    def __init__(self, port: int) -> None:
        self._stream = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._opaque = 0
        self.pushed: list[dict[str, Any]] = []

    def call(self, code: int, fields: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """Header and body of the answer."""
        opaque = self.send(code, fields, body, flag=0)
        while True:
            _, text, answer = split_frame(read_frame(self._stream))
            header: dict[str, Any] = json.loads(text)
            if header["flag"] & 1 and header["opaque"] == opaque:
                return header, answer
            self.pushed.append(header)

    def send(self, code: int, fields: dict[str, Any], body: bytes = b"", *, flag: int = 2) -> int:
        """One way, unless the flag says otherwise."""
        self._opaque += 1
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
        header = {
            "code": code, "extFields": texts, "flag": flag, "language": "JAVA", "opaque": self._opaque, "version": 479,
            "serializeTypeCurrentRPC": "JSON",
        }  # fmt: skip
        self._stream.sendall(frame(header, body))
        return self._opaque

    def close(self) -> None:
        self._stream.close()


class FakeBroker:
    """One broker of the group. `start` returns when it is registered and heartbeats; `stop` is a crash."""

    def __init__(self, number: int, controllers: Controllers) -> None:
        self.number = number
        self.controllers = controllers
        self.address = f"127.0.0.1:{30_000 + number}"
        self.pushed: list[dict[str, Any]] = []
        self._registration = 0
        self._resigned = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat_on, name=f"broker {number}", daemon=True)

    def start(self) -> None:
        group = {"clusterName": CLUSTER, "brokerName": BROKER}
        claim = {"appliedBrokerId": self.number, "registerCheckCode": f"{self.address};1"}
        ours = {"logherdStoreId": f"store-{self.number}", "logherdIncarnation": self._incarnation}
        said = {"brokerId": self.number, "brokerAddress": self.address, **ours}
        with closing(self._leader()) as line:
            header, _ = line.call(NEXT_ID, group)
            assert header["code"] == 0, header
            assert header["extFields"]["nextBrokerId"] == str(self.number), header
            header, _ = line.call(APPLY_ID, {**group, **claim})
            assert header["code"] == 0, header
            header, _ = line.call(REGISTER, {**group, **said})
            assert header["code"] == 0, header
        self._registration = int(header["extFields"].get("logherdRegistration", 0))
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def elect_itself(self) -> None:
        """Ask for a master, as a RocketMQ broker does that finds none."""
        said = {"clusterName": CLUSTER, "brokerName": BROKER, "brokerId": self.number, "designateElect": False}
        with closing(self._leader()) as line:
            header, _ = line.call(ELECT, said)
        assert header["code"] in (0, 2011), header

    def alter(self, *members: int) -> None:
        """Propose an in-sync set, as its master."""
        with closing(self._leader()) as line:
            state = sync_state(line)
            said = {"brokerName": BROKER, "masterBrokerId": self.number, "masterEpoch": state["masterEpoch"]}
            ours = {"logherdRegistration": self._registration, "logherdMinInSync": 2}
            body = {"syncStateSet": members, "syncStateSetEpoch": state["syncStateSetEpoch"]}
            header, _ = line.call(ALTER, {**said, **ours}, json.dumps(body).encode())
        assert header["code"] == 0, header

    @property
    def _incarnation(self) -> str:
        return f"incarnation-{self.number}"

    def _leader(self) -> Line:
        return Line(self.controllers.ports[self.controllers.leader])

    def _beat_on(self) -> None:
        lines = [Line(port) for port in self.controllers.ports.values()]
        while not self._over.wait(_BEAT_SECONDS):
            for line in lines:
                if self.controllers.kind == "rocketmq":
                    line.send(BEAT, self._heartbeat())
                else:
                    self._beat(line)
        self.pushed = [header for line in lines for header in line.pushed]
        for line in lines:
            line.close()

    def _heartbeat(self) -> dict[str, Any]:
        return {
            "clusterName": CLUSTER, "brokerName": BROKER, "brokerAddr": self.address, "brokerId": self.number,
            "epoch": 0, "maxOffset": 0, "confirmOffset": 0, "heartbeatTimeoutMills": _TIMEOUT_MS,
            "electionPriority": self.number, "logherdRegistration": self._registration,
            "logherdResigned": self._resigned,
        }  # fmt: skip

    def _beat(self, line: Line) -> None:
        header, _ = line.call(BEAT, self._heartbeat())
        fields = header["extFields"]
        assert header["code"] in (0, _NOT_LEADER), header
        if "logherdHandOver" in fields:
            self._resigned = int(fields["masterEpoch"])
            said = {"storeId": f"store-{self.number}", "incarnation": self._incarnation, "exited": False}
            group = {"clusterName": CLUSTER, "brokerName": BROKER, "brokerId": self.number}
            header, _ = line.call(RELEASE, {**group, **said})
            assert header["code"] == 0, header


def sync_state(line: Line) -> dict[str, Any]:
    """What 1006 says of the group."""
    _, body = line.call(SYNC_STATE, {}, json.dumps([BROKER]).encode())
    found: dict[str, Any] = json.loads(body)["replicasInfoTable"][BROKER]
    return found


def in_sync(controllers: Controllers, *members: int, alive: int) -> None:
    """Wait until these are in sync, in any order, and so many brokers report."""

    def reached() -> bool:
        with closing(Line(controllers.ports[controllers.leader])) as line:
            state = sync_state(line)
        rows = [*state["inSyncReplicas"], *state["notInSyncReplicas"]]
        living = sum(row["alive"] for row in rows)
        return living == alive and sorted(row["brokerId"] for row in state["inSyncReplicas"]) == list(members)

    until(reached, seconds=60, what=f"{members} in sync, {alive} alive")
