"""What is listed and what the watches show are compared, all pages of all kinds; what differs for a while counts."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

import pytest

from logherd_operator.clients.api import Api, Reply
from logherd_operator.clients.errors import Unreachable
from logherd_operator.handlers.audit import Audit, Thing, WatchStale

OURS = {"app.kubernetes.io/instance": "orders", "app.kubernetes.io/managed-by": "logherd-operator"}
PODS = "/api/v1/namespaces/shop/pods"


def pod(uid: str, labels: Mapping[str, str] = OURS) -> dict[str, Any]:
    return {"metadata": {"name": f"pod-{uid}", "namespace": "shop", "uid": uid, "labels": dict(labels)}}


class Cluster:
    """Lists of an API server, two objects on a page, and what the watches show of pods."""

    def __init__(self, listed: list[dict[str, Any]], shown: set[str]) -> None:
        self.listed = listed
        self.shown = shown
        self.down = False
        self.asked: list[str] = []
        self.slept: list[float] = []
        self.meanwhile: Callable[[], None] = lambda: None

    async def send(self, method: str, path: str, body: Any, content_type: str) -> Reply:
        if self.down:
            raise Unreachable("nobody answers")
        path, _, query = path.partition("?")
        self.asked.append(path)
        options = parse_qs(query)
        first = int(options.get("continue", ["0"])[0])
        items = self.listed if path == PODS else []
        if path == PODS:
            assert options["labelSelector"] == ["app.kubernetes.io/managed-by=logherd-operator"]
        more = {"continue": str(first + 2)} if first + 2 < len(items) else {}
        return Reply(200, {"metadata": more, "items": items[first : first + 2]})

    def things(self, kind: str) -> set[Thing]:
        return {Thing(kind, f"pod-{uid}", uid) for uid in self.shown} if kind == "pods" else set()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.meanwhile()

    def compare(self, namespaces: tuple[str, ...] = ("shop",)) -> None:
        asyncio.run(Audit(Api(self), self, namespaces, sleep=self.sleep).compare())


def test_what_agrees_is_asked_for_once_by_pages_and_nothing_is_said() -> None:
    cluster = Cluster([pod("a"), pod("b"), pod("c")], {"a", "b", "c"})
    cluster.compare()
    assert cluster.asked.count(PODS) == 2
    assert len({path.rsplit("/", 1)[1] for path in cluster.asked}) == 6
    assert cluster.slept == []


@pytest.mark.parametrize(("listed", "shown"), [(["a"], {"a", "b"}), (["a", "b"], {"a"}), (["a", "new"], {"a", "old"})])
def test_what_is_only_there_or_only_shown_for_a_minute_is_told(listed: list[str], shown: set[str]) -> None:
    cluster = Cluster([pod(each) for each in listed], shown)
    with pytest.raises(WatchStale, match="among the pods pod-"):
        cluster.compare()
    assert cluster.slept == [60.0]


def test_a_watch_that_is_late_is_not_told() -> None:
    cluster = Cluster([pod("a"), pod("b")], {"a"})

    def catch_up() -> None:
        cluster.shown = {"a", "b"}
        cluster.listed.append(pod("c"))

    cluster.meanwhile = catch_up
    cluster.compare()
    assert cluster.slept == [60.0]


def test_what_carries_our_label_and_names_no_group_is_nobodys() -> None:
    cluster = Cluster([pod("a"), pod("foreign", {"app.kubernetes.io/managed-by": "logherd-operator"})], {"a"})
    cluster.compare()
    assert cluster.slept == []


def test_where_all_namespaces_are_watched_all_are_asked_for_at_once() -> None:
    cluster = Cluster([], set())
    cluster.compare(())
    assert all("/namespaces/" not in path for path in cluster.asked)


def test_an_api_server_that_does_not_answer_is_asked_another_time() -> None:
    cluster = Cluster([], {"ghost"})
    cluster.down = True
    cluster.compare()

    def go() -> None:
        cluster.down = True

    cluster.down, cluster.meanwhile = False, go
    cluster.compare()
