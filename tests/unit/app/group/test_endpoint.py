"""Design 4: which address routes name while a replica leads."""

from logherd.app.group.endpoint import Endpoint
from logherd.controller.reports import Granted
from logherd.model.names import Epoch
from unit.controller.test_leases import view

PATIENCE = 3_000


def grant(epoch: int, *, found: bool, holder_ms: int = 3_000) -> Granted:
    return Granted(view=view(epoch), holder_ms=holder_ms, hand_over=None, endpoint=found)


def test_a_new_leader_is_given_a_lease_to_be_confirmed_in() -> None:
    endpoint = Endpoint()
    assert endpoint.holds(Epoch(7), 1_000)
    assert endpoint.holds(Epoch(7), 1_000 + PATIENCE - 1)
    assert not endpoint.holds(Epoch(7), 1_000 + PATIENCE)


def test_it_holds_while_it_is_confirmed_and_a_lease_longer() -> None:
    endpoint = Endpoint()
    assert endpoint.holds(Epoch(7), 0)
    for sent in range(0, 20_000, 500):
        endpoint.granted(grant(7, found=True), sent)
        assert endpoint.holds(Epoch(7), sent)
    assert endpoint.holds(Epoch(7), 19_500 + PATIENCE - 1)
    assert not endpoint.holds(Epoch(7), 19_500 + PATIENCE)
    endpoint.granted(grant(7, found=False), 30_000)
    assert not endpoint.holds(Epoch(7), 30_000)
    endpoint.granted(grant(7, found=True), 31_000)
    assert endpoint.holds(Epoch(7), 31_000)


def test_what_was_confirmed_of_another_epoch_does_not_count() -> None:
    endpoint = Endpoint()
    assert endpoint.holds(Epoch(7), 0)
    endpoint.granted(grant(6, found=True), 2_900)
    endpoint.granted(grant(8, found=True), 2_900)
    assert not endpoint.holds(Epoch(7), PATIENCE)
    assert endpoint.holds(Epoch(9), 50_000)
    assert not endpoint.holds(Epoch(9), 50_000 + PATIENCE)


def test_a_longer_lease_is_waited_out() -> None:
    endpoint = Endpoint()
    endpoint.granted(grant(7, found=False, holder_ms=9_000), 0)
    assert endpoint.holds(Epoch(7), 0)
    assert endpoint.holds(Epoch(7), 8_999)
    assert not endpoint.holds(Epoch(7), 9_000)
