"""Real brokers under their guardians, as `logherd broker --guarded` runs them, and a client that keeps connecting."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from logherd.wire.codes import RequestCode
from system.blocking import BlockingClient, NoAnswerError
from system.guardians import eventually
from system.load import TOPIC
from system.processes import BrokerProcess

__all__ = ["GuardedBroker", "knocking", "said"]

_START_SECONDS_MAX = 120.0


class GuardedBroker(BrokerProcess):
    """`process` is the guardian; `child` is the broker that lives now."""

    def __init__(self, directory: Path, **settings: object) -> None:
        super().__init__(directory, **settings)
        self.flags = ("--guarded",)

    @property
    def told(self) -> dict[str, Any]:
        """The ready file, which each life of the child writes."""
        document = json.loads((self.directory / "ready.json").read_text())
        assert isinstance(document, dict)
        return document

    @property
    def child(self) -> int:
        return int(self.told["pid"])

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def kill_child(self) -> int:
        """SIGKILL to the broker; its pid."""
        child = self.child
        os.kill(child, signal.SIGKILL)
        return child

    def wait_until_lent(self, lives: int) -> None:
        """Until the guardian knows that the child serves, in this life, and leaves new connections to it."""
        told = "logherd-guardian: the child serves"
        eventually(lambda: self.log().count(told) >= lives, f"it does not:\n{self.log()}", _START_SECONDS_MAX)

    def wait_for_another(self, child: int) -> None:
        """Until a child other than this one serves."""
        eventually(lambda: self.child != child, f"no other child:\n{self.log()[-4000:]}", _START_SECONDS_MAX)


def said(log: str, *texts: str) -> bool:
    """Whether the log has all of these, in this order."""
    at = 0
    for text in texts:
        at = log.find(text, at)
        if at < 0:
            return False
        at += len(text)
    return True


@contextmanager
def knocking(broker: BrokerProcess) -> Iterator[list[str]]:
    """A client that keeps connecting: one connection, one question, one answer; what came of each, in order."""
    outcomes: list[str] = []
    over = threading.Event()

    def knock() -> None:
        while not over.is_set():
            try:
                client = BlockingClient(broker.port, host=broker.host, timeout_seconds=_START_SECONDS_MAX)
            except OSError as error:
                outcomes.append(f"not connected: {error}")
                continue
            try:
                client.offset(RequestCode.GET_MAX_OFFSET, TOPIC, 0)
                outcomes.append("answered")
            except NoAnswerError as error:
                outcomes.append(f"cut: {error}")
            finally:
                client.close()

    thread = threading.Thread(target=knock)
    thread.start()
    try:
        yield outcomes
    finally:
        over.set()
        thread.join()
