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
FIRST, SECOND = Exit(WHO, "1" * 32), Exit(WHO, "2" * 32)
INQUIRY_MS = 1_000
_START = Struct(">II")


@pytest.fixture
def selector() -> Iterator[selectors.BaseSelector]:
    with selectors.DefaultSelector() as made:
        yield made


class Told:
    """Two controllers, and who tells them."""

    def __init__(self, selector: selectors.BaseSelector, *hosts: str) -> None:
        self.selector = selector
        self.controllers = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        for each in self.controllers:
            each.settimeout(5)
        addresses = tuple(f"a:{each.getsockname()[1]}" for each in self.controllers)
        self.names = Names(*hosts)
        self.reports = Reports(addresses, selector, cast("Resolver", self.names))

    @property
    def inquiries(self) -> int:
        return len(self.selector.get_map())

    def close(self) -> None:
        for each in [key.fileobj for key in self.selector.get_map().values()] + self.controllers:
            cast("socket.socket", each).close()


@pytest.fixture
def told(selector: selectors.BaseSelector) -> Iterator[Told]:
    made = Told(selector, "127.0.0.1")
    yield made
    made.close()


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
        reports.add(FIRST, clock_ms())
        while names.hosts[0] == nowhere or not selector.get_map():
            dispatch(selector, 20)
            reports.tick(clock_ms())
        dispatch(selector, 5_000)
        answer(controller)
        dispatch(selector, 5_000)
        assert reports.is_done


def test_all_are_asked_at_once_and_no_more_when_one_has_answered(told: Told, capfd: pytest.CaptureFixture[str]) -> None:
    told.reports.add(FIRST, clock_ms())
    assert told.inquiries == 2
    quick, silent = told.controllers
    with silent.accept()[0] as asked:
        dispatch(told.selector, 5_000)
        answer(quick)
        while told.inquiries:
            dispatch(told.selector, 5_000)
        while asked.recv(65536):
            pass
    assert told.reports.is_done
    assert "the controllers know of the exit: a:" in capfd.readouterr().err
    told.reports.add(SECOND, clock_ms())
    assert told.inquiries == 2, "nothing is known against the silent one"


def test_who_ends_the_connection_without_an_answer_is_not_waited_for(told: Told) -> None:
    told.reports.add(FIRST, clock_ms())
    asked = [each.accept()[0] for each in told.controllers]
    dispatch(told.selector, 5_000)  # the reports leave
    for each in asked:
        each.settimeout(5)
        each.recv(65536)
        each.close()
    for _ in range(10):
        if told.inquiries:
            dispatch(told.selector, 5_000)
    assert told.inquiries == 0
    assert not told.reports.is_done


def test_who_does_not_answer_in_a_second_is_asked_again(told: Told) -> None:
    began = clock_ms()
    told.reports.add(FIRST, began)
    asked = [each.accept()[0] for each in told.controllers]
    told.reports.tick(began + INQUIRY_MS - 1)
    for each in asked:
        each.settimeout(0)
        with pytest.raises(BlockingIOError):
            each.recv(10)
    told.reports.tick(began + INQUIRY_MS)
    for each in asked:
        with each:
            each.settimeout(5)
            assert each.recv(10) == b""
    assert told.inquiries == 2, "after 50 ms, which are over then"


def test_a_controller_that_has_another_address_by_now_is_told_there_at_once(told: Told) -> None:
    """Its pod was made anew since it was last looked up. At the old address nobody says anything for a second."""
    began = clock_ms()
    told.reports.add(FIRST, began)
    asked = [each.accept()[0] for each in told.controllers]
    told.names.hosts[:] = ["127.0.0.2"]
    with socket.create_server(("127.0.0.2", told.controllers[0].getsockname()[1])) as anew:
        anew.settimeout(5)
        told.reports.tick(began + 20)
        for each in asked:
            with each:
                each.settimeout(5)
                assert each.recv(10) == b""
        dispatch(told.selector, 5_000)
        answer(anew)
        while not told.reports.is_done:
            dispatch(told.selector, 5_000)


def test_a_controller_that_was_asked_before_the_next_child_registered_may_answer_afterwards(told: Told) -> None:
    told.reports.add(FIRST, clock_ms())
    dispatch(told.selector, 5_000)  # the reports leave
    told.reports.superseded(clock_ms())
    assert told.inquiries == 2, "they are under way, and nobody is asked twice"
    answer(told.controllers[1])
    while told.inquiries:
        dispatch(told.selector, 5_000)
    assert told.reports.is_done


def test_who_has_no_address_yet_is_asked_when_there_is_one(told: Told) -> None:
    told.names.hosts.clear()
    told.reports.add(FIRST, clock_ms())
    assert told.inquiries == 0
    told.names.hosts.append("127.0.0.1")
    told.reports.tick(clock_ms())
    assert told.inquiries == 0, "so soon"
    told.reports.tick(clock_ms() + 50)
    assert told.inquiries == 2
