"""Peers are asked in turn; what failed waits a little and comes last."""

from logherd_guardian.peers import Peers


def test_peers_are_dialled_in_turn() -> None:
    peers = Peers(("a", "b", "c"))
    assert [peers.next(0) for _ in range(6)] == ["a", "b", "c", "a", "b", "c"]


def test_without_peers_there_is_nobody() -> None:
    assert Peers(()).next(0) is None


def test_a_peer_that_is_named_twice_waits_like_any_other_after_it_failed() -> None:
    peers = Peers(("a", "a"))
    assert peers.next(0) == "a"
    peers.failed("a", 0)
    assert peers.next(0) is None


def test_a_peer_that_failed_waits_longer_and_longer_up_to_a_bound() -> None:
    peers, now, waits = Peers(("a",)), 0, []
    for _ in range(8):
        peers.failed("a", now)
        began = now
        while peers.next(now) is None:
            now += 1
        waits.append(now - began)
    assert waits == [50, 100, 200, 400, 800, 1_000, 1_000, 1_000]


def test_those_that_serve_come_before_those_that_failed() -> None:
    peers = Peers(("a", "b"))
    peers.failed("a", 0)
    assert [peers.next(100) for _ in range(3)] == ["b", "b", "b"]


def test_who_failed_is_who_waits() -> None:
    peers = Peers(("a", "b"))
    peers.failed("b", 0)
    assert [peers.next(100) for _ in range(3)] == ["a", "a", "a"]
    peers.greeted("b")
    assert peers.next(100) == "b"


def test_those_that_failed_are_asked_in_turn_however_often_they_failed() -> None:
    peers = Peers(("a", "b"))
    for address in ("a", "a", "a", "b"):
        peers.failed(address, 0)
    assert [peers.next(1_000) for _ in range(4)] == ["a", "b", "a", "b"]


def test_a_peer_that_hangs_takes_not_all_dials() -> None:
    peers = Peers(("a", "b"))
    assert peers.next(0, ["a", "a"]) == "b"
    assert peers.next(0, ["a", "a"]) == "b"
    assert peers.next(0, ["a", "b", "a", "b"]) is None
    peers.failed("a", 0)
    assert peers.next(100, ["a", "b", "b"]) is None
    assert peers.next(100, ["b", "b"]) == "a"


def test_a_peer_that_serves_is_dialled_twice_at_a_time() -> None:
    peers = Peers(("a",))
    assert peers.next(0, ["a"]) == "a"
    assert peers.next(0, ["a", "a"]) is None


def test_only_a_change_is_news() -> None:
    peers = Peers(("a",))
    assert not peers.greeted("a")
    assert peers.failed("a", 0)
    assert not peers.failed("a", 100)
    assert peers.greeted("a")
    assert not peers.greeted("a")
    assert peers.failed("a", 200)
    assert peers.greeted("a")
