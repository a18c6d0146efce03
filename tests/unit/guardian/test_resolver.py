"""Names are asked for in a fork. It is real here, and what the system knows is not."""

import os
import selectors
import signal
import socket
from collections.abc import Callable, Iterator
from typing import NoReturn, cast

import pytest

from logherd_guardian.brood import Brood
from logherd_guardian.resolver import Resolver
from logherd_guardian.shell import dispatch

Known = Callable[[str], str]
"""Addresses of a name, with spaces between them."""
FRESH_MS = 1_000


class Forks:
    """A brood that only remembers whom it must spare."""

    def __init__(self) -> None:
        self.spared: set[int] = set()


class Asking:
    """A resolver, and the end of its forks."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.forks = Forks()
        self.resolver = Resolver(self.selector, cast("Brood", self.forks))

    def hear(self) -> None:
        """Until the answer of the fork under way has been taken."""
        (fork,) = self.forks.spared
        while self.selector.get_map():
            dispatch(self.selector, 15_000)
        self.forks.spared.remove(fork)
        os.waitpid(fork, 0)


@pytest.fixture
def asking() -> Iterator[Asking]:
    made = Asking()
    yield made
    assert not made.forks.spared
    made.selector.close()


@pytest.fixture
def know(monkeypatch: pytest.MonkeyPatch) -> Callable[[Known], None]:
    """Let the system know addresses of names."""

    def use(known: Known) -> None:
        def getaddrinfo(name: bytes, *_: object, **__: object) -> list[tuple[object, ...]]:
            addresses = known(name.decode()).split()
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    return use


def test_a_name_is_known_once_the_fork_has_answered_and_asked_for_again_after_a_second(
    asking: Asking, know: Callable[[Known], None]
) -> None:
    know(lambda _: "10.0.0.1")
    find = asking.resolver.find
    assert find("a:7", 5_000) is None
    asking.hear()
    know(lambda _: "10.0.0.2")
    assert find("a:7", 5_000 + FRESH_MS - 1) == ("10.0.0.1", 7)
    assert not asking.forks.spared
    assert find("a:7", 5_000 + FRESH_MS) == ("10.0.0.1", 7)
    asking.hear()
    assert find("a:8", 5_000 + FRESH_MS) == ("10.0.0.2", 8)


def test_a_name_without_an_address_hides_no_other_and_keeps_what_it_had(
    asking: Asking, know: Callable[[Known], None]
) -> None:
    def gone(name: str) -> str:
        if name == "a":
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        return {"b": "10.0.0.2", "c": "none"}[name]

    know(lambda _: "10.0.0.1")
    asking.resolver.learn(("a:7", "b:7", "c:7"))
    asking.hear()
    know(gone)
    find = asking.resolver.find
    assert find("a:7", 0) == ("10.0.0.1", 7)
    asking.hear()
    assert [find(f"{name}:7", 1) for name in "abc"] == [("10.0.0.1", 7), ("10.0.0.2", 7), ("10.0.0.1", 7)]


def test_what_is_learned_is_known_before_it_matters(asking: Asking, know: Callable[[Known], None]) -> None:
    know(lambda _: "10.0.0.1")
    asking.resolver.learn(("10.0.0.9:7", "a:7", "b:7", "c:7"))
    asking.hear()
    know(lambda _: "10.0.0.2")
    assert [asking.resolver.find(f"{name}:7", 0) for name in "abc"] == [("10.0.0.1", 7)] * 3
    asking.hear()


def test_an_address_that_its_name_has_no_more_is_known_as_that(asking: Asking, know: Callable[[Known], None]) -> None:
    has = asking.resolver.has
    know(lambda _: "10.0.0.1 10.0.0.2")
    asking.resolver.learn(("a:7",))
    assert has("a:7", ("10.0.0.9", 7)), "nothing is known yet"
    asking.hear()
    assert [has("a:7", (f"10.0.0.{n}", 7)) for n in (1, 2, 3)] == [True, True, False]
    assert has("10.0.0.9:7", ("10.0.0.9", 7))


def test_of_many_addresses_one_is_used_until_it_leads_nowhere(asking: Asking, know: Callable[[Known], None]) -> None:
    """`localhost` is an IPv6 address first, whatever its server listens on."""
    know(lambda _: "::1 127.0.0.1 ::1")
    asking.resolver.learn(("a:7",))
    asking.hear()
    find, shun = asking.resolver.find, asking.resolver.shun
    know(lambda _: "10.0.0.9 ::1 127.0.0.1")
    assert find("a:7", 0) == ("::1", 7)
    asking.hear()
    assert find("a:7", 1) == ("::1", 7), "it is still one of them"
    shun("a:7", ("127.0.0.1", 7))
    assert find("a:7", 1) == ("::1", 7), "it was another that led nowhere"
    met = []
    for _ in range(4):
        found = find("a:7", 1)
        assert found is not None
        shun("a:7", found)
        met.append(found[0])
    assert met == ["::1", "127.0.0.1", "10.0.0.9", "::1"]


def test_an_address_or_a_name_without_one_is_shunned_in_vain(asking: Asking, know: Callable[[Known], None]) -> None:
    know(lambda _: "")
    asking.resolver.learn(("a:7",))
    asking.hear()
    for text in ("10.0.0.1:7", "a:7", "b:7"):
        asking.resolver.shun(text, ("10.0.0.1", 7))
    assert asking.resolver.find("10.0.0.1:7", 0) == ("10.0.0.1", 7)


def test_a_name_that_hangs_hides_no_other_name_for_long(asking: Asking, know: Callable[[Known], None]) -> None:
    """A name server that does not answer for one domain: the fork ends while it waits."""

    def ends(name: str) -> str:
        if name == "b":
            os._exit(0)
        return "10.0.0.1"

    know(ends)
    asking.resolver.learn(("a:7", "b:7", "c:7"))
    asking.hear()
    for now in (0, FRESH_MS):
        asking.resolver.find("a:7", now)
        asking.hear()
    assert [asking.resolver.find(f"{name}:7", FRESH_MS) for name in "abc"] == [
        ("10.0.0.1", 7), None, ("10.0.0.1", 7),
    ]  # fmt: skip


def test_a_fork_that_is_never_answered_ends_so_that_names_are_asked_for_again(
    asking: Asking, know: Callable[[Known], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs(name: str) -> str:
        signal.pause()
        return name

    know(hangs)
    monkeypatch.setattr("logherd_guardian.resolver._SECONDS_MAX", 1)
    asking.resolver.learn(("a:7",))
    asking.hear()
    know(lambda _: "10.0.0.1")
    asking.resolver.find("a:7", FRESH_MS)
    asking.hear()
    assert asking.resolver.find("a:7", FRESH_MS) == ("10.0.0.1", 7)


def test_an_answer_is_used_before_the_fork_has_asked_for_all(asking: Asking, know: Callable[[Known], None]) -> None:
    reader, writer = os.pipe()

    def waits(name: str) -> str:
        if name == "a":  # asked for last
            os.read(reader, 1)
        return "10.0.0.1"

    know(waits)
    asking.resolver.learn(("a:7", "b:7"))
    dispatch(asking.selector, 15_000)
    assert asking.resolver.find("b:7", 0) == ("10.0.0.1", 7)
    assert asking.resolver.find("a:7", 0) is None
    os.write(writer, b"go")
    asking.hear()
    for each in (reader, writer):
        os.close(each)


def test_a_new_name_is_asked_for_at_once(asking: Asking, know: Callable[[Known], None]) -> None:
    know(lambda _: "10.0.0.1")
    asking.resolver.find("a:7", 0)
    asking.hear()
    assert asking.resolver.find("b:7", 1) is None
    asking.hear()
    assert asking.resolver.find("b:7", 1) == ("10.0.0.1", 7)


def test_no_more_than_so_many_names_are_kept(asking: Asking, know: Callable[[Known], None]) -> None:
    """A liar may name a new leader each time."""
    know(lambda _: "10.0.0.1")
    names = [f"n{number}:7" for number in range(300)]
    asking.resolver.learn(names)
    asking.hear()
    assert [asking.resolver.find(name, 0) is not None for name in names] == [True] * 256 + [False] * 44
    asking.hear()


@pytest.mark.parametrize("refused", ["fork", "pipe2"])
def test_a_system_that_refuses_is_asked_again_a_second_later_and_keeps_nothing_open(
    asking: Asking, know: Callable[[Known], None], monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    def refuse(*_: int) -> NoReturn:
        asked.append(refused)
        raise BlockingIOError

    asked: list[str] = []
    know(lambda _: "10.0.0.1")
    with monkeypatch.context() as patched:
        patched.setattr(os, refused, refuse)
        before = os.listdir("/proc/self/fd")
        assert [asking.resolver.find("a:7", now) for now in (0, FRESH_MS - 1)] == [None, None]
        assert os.listdir("/proc/self/fd") == before
    assert asked == [refused]
    asking.resolver.find("a:7", FRESH_MS)
    asking.hear()
    assert asking.resolver.find("a:7", FRESH_MS) == ("10.0.0.1", 7)


def test_an_address_is_nobodys_name_and_what_is_no_address_is_never_asked_for(asking: Asking) -> None:
    find = asking.resolver.find
    assert [find(text, 0) for text in ("10.0.0.1:7", "[::1]:7", "a", "a\0b:7")] == [
        ("10.0.0.1", 7), ("::1", 7), None, None,
    ]  # fmt: skip
    asking.resolver.learn(("10.0.0.1:7", "[::1]:7"))
    assert not asking.forks.spared


def test_the_fork_holds_nothing_open_however_many_descriptors_there_may_be(
    asking: Asking, know: Callable[[Known], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system without close_range closes them one by one; a container may have a thousand million."""

    most = 1 << 16

    def one_by_one(low: int, high: int) -> None:
        assert high - low <= 1 << 20, "this takes minutes"
        for number in range(low, min(high, most)):
            try:
                os.close(number)
            except OSError:
                continue

    def held() -> int:
        """How many beyond the standard ones, of which a test may have none."""
        found = 0
        for number in range(3, most):
            try:
                os.fstat(number)
            except OSError:
                continue
            found += 1
        return found

    monkeypatch.setattr(os, "sysconf", lambda _: (1 << 30) - 1)
    monkeypatch.setattr(os, "closerange", one_by_one)
    know(lambda _: f"10.0.0.{held()}")
    with socket.create_server(("127.0.0.1", 0)):
        asking.resolver.find("a:7", 0)
        asking.hear()
    assert asking.resolver.find("a:7", 1) == ("10.0.0.1", 7), "the way back, and nothing else"
