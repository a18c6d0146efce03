"""Whose slices a sidecar keeps beside its own group's: those of the groups that the controllers know."""

from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock
from typing import Any

import pytest

from compat.processes import until
from logherd_operator.keeper import groups
from logherd_operator.keeper.groups import Others, Shared, groups_in, page_of
from logherd_operator.keeper.keeping import Keeping
from logherd_operator.keeper.slices import ApiPlace

BILLS, TILL = Shared("bills", "bills"), Shared("shop", "till")


def listing(*found: Shared) -> dict[str, Any]:
    return {"groups": [{"cluster": each.cluster, "name": each.name, "epoch": 1} for each in found]}


@pytest.mark.parametrize(
    ("status", "document", "found"),
    [
        (200, listing(BILLS, TILL), {BILLS, TILL}),
        (200, listing(BILLS, Shared("orders", "orders")), {BILLS}),
        (200, listing(BILLS, Shared("other", "orders")), {BILLS}),  # its slice would be ours
        (200, listing(BILLS, Shared("other", "bills"), TILL), {TILL}),
        (200, listing(), set()),
        (200, {}, None),
        (0, {}, None),
        (503, listing(BILLS), None),
    ],
)
def test_groups_with_a_name_of_their_own_are_kept(
    status: int, document: dict[str, Any], found: set[Shared] | None
) -> None:
    assert groups_in(status, document, "orders") == found


def test_a_page_is_asked_for_by_names_as_they_are() -> None:
    assert page_of("http://c", Shared("a b/c", "g")) == "http://c/groups/a%20b%2Fc/g"


def test_a_group_is_kept_from_when_it_is_listed_until_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[tuple[int, dict[str, Any]]] = [(200, listing(BILLS, TILL))]
    monkeypatch.setattr(groups, "ask_controller", lambda _url, _seconds: listed[-1])
    kept: list[str] = []
    ended: list[str] = []
    going: list[Callable[[], bool]] = []
    lock, wake = Lock(), Event()

    def keep(keeping: Keeping, goes_on: Callable[[], bool]) -> None:
        with lock:
            kept.append(keeping.page)
            going.append(goes_on)
        while goes_on():
            wake.wait(0.01)
        with lock:
            ended.append(keeping.page)

    def keeping_of(group: Shared) -> Keeping:
        place = ApiPlace("", group.name)
        return Keeping(page=group.name, token_file=Path("/nowhere"), slice_place=place, name="c-0", lease=3.0)

    others = Others("http://c", "orders", keeping_of, keep)
    others.look()
    others.look()
    until(lambda: sorted(kept) == ["bills", "till"], seconds=50, what="each is kept, once")
    listed.append((0, {}))
    others.look()
    assert all(goes_on() for goes_on in going), "a controller that does not answer says nothing"
    listed.append((200, listing(TILL)))
    others.look()
    until(lambda: ended == ["bills"], seconds=50, what="who is gone is kept no longer")
    listed.append((200, listing(BILLS, TILL)))
    until(lambda: _again(others, kept), seconds=50, what="who comes again is kept again")
    listed.append((200, listing()))
    others.look()
    until(lambda: len(ended) == 3, seconds=50, what="all have ended")


def test_without_room_for_a_thread_a_group_is_kept_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever ended here would never hear of another group."""
    monkeypatch.setattr(groups, "ask_controller", lambda _url, _seconds: (200, listing(BILLS, TILL)))
    kept, full = list[str](), [True]

    class Thread:
        def __init__(self, *, target: Callable[..., None], args: tuple[Any, ...], daemon: bool) -> None:
            assert daemon
            self._run = lambda: target(*args)

        def start(self) -> None:
            if full.pop():
                full.append(False)
                raise RuntimeError("can't start new thread")
            full.append(False)
            self._run()

        def is_alive(self) -> bool:
            return True

    def keeping_of(group: Shared) -> Keeping:
        return Keeping(
            page=group.name, token_file=Path("/nowhere"), slice_place=ApiPlace("", group.name), name="c-0", lease=3.0
        )  # fmt: skip

    monkeypatch.setattr(groups, "Thread", Thread)
    others = Others("http://c", "orders", keeping_of, lambda keeping, _: kept.append(keeping.page))
    others.look()
    assert kept == []
    others.look()
    assert kept == ["bills", "till"]


def _again(others: Others, kept: list[str]) -> bool:
    others.look()
    return kept.count("bills") == 2
