"""Exits are told to controllers, which are real sockets here."""

import json
import selectors
import socket
from collections.abc import Iterator
from struct import Struct
from typing import cast

import pytest

from logherd_guardian.clock import clock_ms
from logherd_guardian.frames import Exit
from logherd_guardian.page import Identity
from logherd_guardian.reports import Reports
from logherd_guardian.resolver import Resolver
from logherd_guardian.shell import dispatch
from unit.guardian.names import Names

WHO = Identity(cluster="c", group="g", broker_id=1, store_id="s")
_START = Struct(">II")


@pytest.fixture
def selector() -> Iterator[selectors.BaseSelector]:
    with selectors.DefaultSelector() as made:
        yield made


def answer(controller: socket.socket) -> None:
    """Be the one that takes the report."""
    with controller.accept()[0] as asked:
        asked.recv(65536)
        header = json.dumps({"code": 0, "opaque": 1, "flag": 1}).encode()
        asked.sendall(_START.pack(4 + len(header), len(header)) + header)


@pytest.mark.parametrize("nowhere", ["127.0.0.2", "255.255.255.255"], ids=["refused", "no way to it"])
def test_a_controller_is_told_at_the_address_of_its_name_that_leads_somewhere(
    selector: selectors.BaseSelector, nowhere: str
) -> None:
    names = Names(nowhere, "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as controller:
        reports = Reports((f"a:{controller.getsockname()[1]}",), selector, cast("Resolver", names))
        reports.add(Exit(WHO, "1" * 32), clock_ms())
        while names.hosts[0] == nowhere or not selector.get_map():
            dispatch(selector, 20)
            reports.tick(clock_ms())
        dispatch(selector, 5_000)
        answer(controller)
        dispatch(selector, 5_000)
        assert reports.is_done
