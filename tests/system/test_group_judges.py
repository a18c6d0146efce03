"""The judges of a chapter can fail: a process that keeps connections, a queue that takes or gives nothing."""

import os
import socket
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from checkers.history import Outcome, Read, Send
from system import group_chaos
from system.group_load import QUEUES, TOPIC, GroupLoad

SOON = 1 << 62


def bench_of(pid: int) -> Any:
    """Each of its processes is this one."""
    nodes = {f"b{number}": SimpleNamespace(broker_pid=pid) for number in (1, 2, 3)}
    group = SimpleNamespace(brokers=nodes, agree=lambda: "b1")
    return SimpleNamespace(group=group, controllers=SimpleNamespace(nodes={"c1": SimpleNamespace(pid=pid)}))


def test_a_process_that_keeps_connections_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_chaos, "_LET_GO_SECONDS", 0.0)
    bench = bench_of(os.getpid())
    before = group_chaos._held(bench)
    group_chaos._judge_held(bench, before)
    with ExitStack() as stack:
        for _ in range(group_chaos._HELD_MORE + 1):
            stack.enter_context(socket.socket())
        with pytest.raises(AssertionError, match="sockets and threads"):
            group_chaos._judge_held(bench, before)
    group_chaos._judge_held(bench, before)


def load_of(takes: int, gives: int) -> GroupLoad:
    """Of so many queues a message was taken, and of so many one was given."""
    load = GroupLoad(None)  # type: ignore[arg-type]
    queues = [(TOPIC, number) for number in range(QUEUES)]
    load._senders[0].sends += [Send("v", Outcome.OK, SOON, SOON, queue, 0) for queue in queues[:takes]]
    load._readers[0].reads += [Read(queue, (), SOON, SOON, 1) for queue in queues[:gives]]
    return load


def test_a_queue_that_takes_or_gives_nothing_after_a_fault_is_found() -> None:
    load_of(QUEUES, QUEUES).wait_for_queues(seconds=0.0)
    for takes, gives in ((QUEUES - 1, QUEUES), (QUEUES, QUEUES - 1)):
        with pytest.raises(AssertionError, match="of 4 queues only"):
            load_of(takes, gives).wait_for_queues(seconds=0.0)
