"""Sockets from a guardian instead of addresses to bind, and what is refused."""

import os
import socket
from collections.abc import Iterator

import pytest

from logherd.app.binding import CannotListen
from logherd.app.guarded.lent import NAMES, REMOTING, Lent, inherit
from logherd.settings.options import Endpoint
from logherd_guardian.page import PAGE_BYTES, Page, decode_page

MINE = {"LOGHERD_GUARDIAN_PID": str(os.getppid())}
ANY = Endpoint(host="127.0.0.1", port=0)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def lent_as(name: str, listener: socket.socket) -> Lent:
    return Lent({name: listener.dup()})


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def test_a_lent_socket_is_taken_instead_of_bound(listener: socket.socket) -> None:
    port = port_of(listener)
    for host, asked in (("127.0.0.1", port), ("127.0.0.1", 0), ("localhost", port)):
        with lent_as(REMOTING, listener).take(REMOTING, Endpoint(host=host, port=asked), "listen") as taken:
            assert taken.getsockname() == listener.getsockname()


def test_what_is_not_lent_is_bound(listener: socket.socket) -> None:
    lent = lent_as(REMOTING, listener)
    with lent.take(NAMES, ANY, "nameService.listen") as bound, lent.take(REMOTING, ANY, "listen") as taken:
        assert port_of(bound) not in {0, port_of(listener)}
        assert port_of(taken) == port_of(listener)
        lent.take_nothing_else()


def test_a_lent_address_that_contradicts_the_settings_is_refused_by_both_names(listener: socket.socket) -> None:
    port = port_of(listener)
    for wrong in (Endpoint(host="127.0.0.1", port=port ^ 1), Endpoint(host="127.0.0.2", port=port)):
        text = f"nameService.listen {wrong}: the guardian lends 127.0.0.1:{port} as names"
        with pytest.raises(CannotListen, match=text):
            lent_as(NAMES, listener).take(NAMES, wrong, "nameService.listen")


def test_a_name_that_is_not_found_is_no_contradiction(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    here = Endpoint(host="bg-0", port=port_of(listener))
    with pytest.raises(CannotListen, match=f"listen bg-0:{here.port}: this name has no address at the moment"):
        lent_as(REMOTING, listener).take(REMOTING, here, "listen")


def test_a_descriptor_that_is_no_listening_tcp_socket_is_refused() -> None:
    with socket.socket() as idle, socket.socket(socket.AF_UNIX) as local:
        for wrong, what in ((idle, "a socket that does not listen"), (local, "no TCP socket")):
            with pytest.raises(CannotListen, match=f"listen 127.0.0.1:0: the guardian lends {what} as remoting"):
                lent_as(REMOTING, wrong).take(REMOTING, ANY, "listen")


def test_a_socket_without_a_setting_is_refused(listener: socket.socket) -> None:
    lent = Lent({"names": listener.dup(), "admin": listener.dup()})
    with pytest.raises(CannotListen, match="the guardian lends admin, names, for which there is no setting"):
        lent.take_nothing_else()
    lent.take_nothing_else()


def test_without_a_guardian_nothing_is_lent_and_nobody_is_told() -> None:
    first, second = inherit({}).keeper, inherit({}).keeper
    assert first.guardian is None
    assert len(bytes.fromhex(first.incarnation)) == 16
    assert first.incarnation != second.incarnation
    first.identify(cluster="c", group="g", broker_id=1, store_id="s")
    first.registered()
    first.lease(1, 2)
    first.ready()
    first.release()


def test_what_a_guardian_lent_is_found_and_told(listener: socket.socket) -> None:
    page = os.memfd_create("page")
    os.ftruncate(page, PAGE_BYTES)
    text = {"LOGHERD_LISTEN_FDS": f"remoting={os.dup(listener.fileno())}", "LOGHERD_INCARNATION": "ab" * 16}
    lent = inherit(MINE | text | {"LOGHERD_PAGE_FD": str(page)})
    keeper = lent.keeper
    assert (keeper.guardian, keeper.incarnation) == (os.getppid(), "ab" * 16)
    lent.take(REMOTING, ANY, "listen").close()
    keeper.identify(cluster="c", group="g", broker_id=3, store_id="s")
    keeper.registered()
    keeper.lease(7, 5_000)
    keeper.ready()
    said = decode_page(os.pread(page, PAGE_BYTES, 0)) or Page()
    assert said.identity is not None
    assert (said.identity.cluster, said.identity.group, said.identity.broker_id) == ("c", "g", 3)
    assert (said.epoch, said.lease_end_ms, said.ready, said.registered) == (7, 5_000, True, True)
    keeper.release()
    keeper.ready(accepting=False)
    said = decode_page(os.pread(page, PAGE_BYTES, 0)) or Page()
    assert (said.lease_end_ms, said.ready) == (0, False)
    os.close(page)


def test_an_environment_that_no_guardian_made_is_refused_by_name() -> None:
    for wrong in ({"LOGHERD_LISTEN_FDS": "remoting"}, {"LOGHERD_PAGE_FD": "x"}):
        with pytest.raises(CannotListen, match="LOGHERD_LISTEN_FDS and LOGHERD_PAGE_FD are not as a guardian sets"):
            inherit(MINE | wrong)
