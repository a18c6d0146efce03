"""One round of a sidecar, over real connections: what it asks, patches and tells."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from logherd_operator.keeper.decision import EPOCH, HOLDER, Heard, Keeper, Slice
from logherd_operator.keeper.keeping import Keeping, step
from logherd_operator.keeper.slices import ApiPlace

SLICE = "/apis/discovery.k8s.io/v1/namespaces/n/endpointslices/g-leader"
PAGE = {"confirmed": True, "live": True, "epoch": 7, "leader": {"serving": True, "renewedFrom": "10.0.0.1"}}


class Both:
    """A controller and an API server in one."""

    def __init__(self) -> None:
        self.slice: dict[str, Any] = _empty("1")
        self.page: dict[str, Any] = PAGE
        self.shown_pages = 0
        self.api_answers = True
        self.refuses: dict[str, int] = {}
        """What the API server says to a method, in place of doing it."""
        self.asked: list[str] = []
        self.told: list[tuple[str | None, Any]] = []

    def answer(self, method: str, path: str, token: str | None, body: bytes) -> tuple[int, Any]:
        if path == "/groups/c/g":
            self.shown_pages += 1
            return 200, self.page
        if path == "/groups/c/g/endpoint":
            self.told.append((token, json.loads(body)))
            return 200, {}
        if path != SLICE or not self.api_answers:
            return 503, {}
        self.asked.append(method)
        if method in self.refuses:
            return self.refuses[method], {}
        if not self.slice:
            return 404, {}
        if method == "PATCH":
            change = json.loads(body)
            if change["metadata"]["resourceVersion"] != self.slice["metadata"]["resourceVersion"]:
                return 409, {}
            version = str(int(change["metadata"]["resourceVersion"]) + 1)
            self.slice = {**change, "metadata": {**change["metadata"], "resourceVersion": version}}
        return 200, self.slice

    @property
    def shown(self) -> list[str]:
        return [address for each in self.slice["endpoints"] for address in each["addresses"]]


def _empty(version: str) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": version}, "endpoints": []}


@contextmanager
def serving(both: Both) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, document = both.answer(self.command, self.path, self.headers.get("Authorization"), body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        do_GET = do_POST = do_PATCH = handle_one  # noqa: N815 -- as the library calls them

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def both() -> Both:
    return Both()


@pytest.fixture
def keeping(both: Both, tmp_path: Path) -> Iterator[Keeping]:
    (tmp_path / "token").write_text("secret\n")
    with serving(both) as url:
        yield Keeping(
            page=f"{url}/groups/c/g", token_file=tmp_path / "token", slice_place=ApiPlace(url, SLICE), name="c-0",
            lease=80.0,
        )  # fmt: skip


def test_the_controller_is_told_in_each_round_to_which_epochs_leader_the_slice_leads(
    both: Both, keeping: Keeping
) -> None:
    keeper = Keeper("c-0", keeping.lease, 0.0)
    for _ in range(2):
        step(keeper, keeping, lambda: 1.0)
    assert both.slice["endpoints"][0]["addresses"] == ["10.0.0.1"]
    assert both.slice["metadata"]["annotations"] == {EPOCH: "7", HOLDER: "c-0"}
    assert both.told == [("Bearer secret", {"epoch": 7})] * 2


def test_nothing_is_told_while_the_slice_cannot_be_reached(both: Both, keeping: Keeping) -> None:
    keeper = Keeper("c-0", keeping.lease, 0.0)
    both.api_answers = False
    step(keeper, keeping, lambda: 1.0)
    assert both.told == []
    both.api_answers = True
    step(keeper, keeping, lambda: 2.0)
    assert both.told == [("Bearer secret", {"epoch": 7})]
    both.api_answers = False
    step(keeper, keeping, lambda: 3.0)
    assert len(both.told) == 2, "it stands as it stood, whoever can be asked"


def test_a_slice_that_somebody_emptied_or_deleted_is_written_again(both: Both, keeping: Keeping) -> None:
    keeper = Keeper("c-0", keeping.lease, 0.0)
    step(keeper, keeping, lambda: 1.0)
    both.slice = _empty("20")
    step(keeper, keeping, lambda: 2.0)
    assert both.shown == [], "it is not read in each round"
    step(keeper, keeping, lambda: 12.0)
    assert both.shown == ["10.0.0.1"]
    both.slice = {}
    told = len(both.told)
    step(keeper, keeping, lambda: 23.0)
    assert len(both.told) == told, "the controller hears no more that it leads anywhere"
    both.slice = _empty("40")  # the operator's work
    step(keeper, keeping, lambda: 34.0)
    assert both.shown == ["10.0.0.1"]


def test_a_minute_in_which_nothing_changes_is_six_readings(both: Both, keeping: Keeping) -> None:
    keeper = Keeper("c-0", keeping.lease, 0.0)
    for second in range(60):
        step(keeper, keeping, lambda second=second: float(second))
    assert both.asked.count("PATCH") == 1
    assert both.asked.count("GET") <= 7


def test_a_patch_over_another_version_is_followed_by_a_look_at_once(both: Both, keeping: Keeping) -> None:
    keeper = Keeper("c-0", keeping.lease, 0.0)
    keeper.heard(Heard(7, ""), 0.5)
    keeper.read(Slice("0", 0, "", ""), 0.5)
    step(keeper, keeping, lambda: 1.0)
    assert both.shown == []
    step(keeper, keeping, lambda: 1.5)
    assert both.shown == ["10.0.0.1"]


@pytest.mark.parametrize("refuses", [{"GET": 429}, {"GET": 503}, {"PATCH": 429}, {"PATCH": 500}, {"PATCH": 422}])
def test_an_api_server_that_refuses_is_asked_more_and_more_seldom_but_once_in_a_lease(
    both: Both, keeping: Keeping, refuses: dict[str, int]
) -> None:
    keeper = Keeper("c-0", keeping.lease, 0.0)
    both.refuses = refuses
    (method,) = refuses
    asked_in: list[int] = []
    for number in range(64):
        before = both.asked.count(method)
        step(keeper, keeping, lambda number=number: number * keeping.pause)
        if both.asked.count(method) > before:
            asked_in.append(number)
    gaps = [later - sooner for sooner, later in pairwise(asked_in)]
    assert gaps[:5] == [1, 1, 3, 7, 8]
    assert set(gaps[4:]) == {8}
    both.refuses = {}
    for number in range(64, 73):
        step(keeper, keeping, lambda number=number: number * keeping.pause)
    assert both.shown == ["10.0.0.1"]


def test_a_refusal_a_while_ago_makes_nobody_wait_after_the_next(both: Both, keeping: Keeping) -> None:
    keeper = Keeper("c-0", keeping.lease, 0.0)
    for at in (0.0, 200.0, 400.0):
        both.refuses = {"GET": 503}
        step(keeper, keeping, lambda at=at: at)
        both.refuses = {}
        both.slice = _empty(f"{at:.0f}")
        step(keeper, keeping, lambda at=at: at + 10)
        assert both.shown == ["10.0.0.1"]


def test_the_lease_counts_from_the_question_and_leaves_time_for_one_more_and_its_patch(
    both: Both, keeping: Keeping
) -> None:
    keeper = Keeper("c-0", keeping.lease, 0.0)
    step(keeper, keeping, lambda: 20.0 if both.shown_pages else 0.0)  # it answers late
    assert both.shown == ["10.0.0.1"]
    both.page = {**PAGE, "epoch": 8, "leader": None}
    step(keeper, keeping, lambda: keeping.lease - 3 * keeping.pause - 1)
    assert both.shown == ["10.0.0.1"]
    step(keeper, keeping, lambda: keeping.lease - 3 * keeping.pause)
    assert both.shown == []
    assert both.slice["metadata"]["annotations"][EPOCH] == "8", "nobody puts the leader of an earlier epoch in again"


def test_a_token_that_is_not_there_yet_ends_nothing(both: Both, keeping: Keeping) -> None:
    keeping.token_file.unlink()
    keeper = Keeper("c-0", keeping.lease, 0.0)
    step(keeper, keeping, lambda: 1.0)
    assert both.slice["endpoints"][0]["addresses"] == ["10.0.0.1"]
    assert both.told == []
