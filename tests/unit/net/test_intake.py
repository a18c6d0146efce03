"""Requests in flight: limit - 1, limit, limit + 1 of each kind, and what is counted for the whole process."""

import pytest

from logherd.kit.errors import InvariantError
from logherd.net.intake import HEADER_SIZE, SLICE_FRAMES_MAX, Budget, Intake, exact_size
from logherd.net.limits import FlowLimits
from logherd.wire.frame import Flag, Frame

MIB = 1024 * 1024


def frames(count: int, body: bytes = b"") -> list[Frame]:
    return [Frame(310, n, body=body) for n in range(count)]


def test_the_defaults_are_those_of_the_limits_table() -> None:
    limits = FlowLimits()
    assert (limits.running_max, limits.parked_max) == (256, 4096)
    assert (limits.request_bytes_max, limits.unsent_bytes_max) == (32 * MIB, 32 * MIB)


@pytest.mark.parametrize(("running", "fits", "blocked"), [(9, True, False), (10, True, True), (11, False, False)])
def test_running_requests_are_taken_up_to_the_limit(running: int, fits: bool, blocked: bool) -> None:
    intake = Intake(FlowLimits(running_max=10), Budget(MIB))
    assert intake.take_all(frames(running), 0) is fits
    assert intake.running == (running if fits else 0)
    assert intake.blocked is blocked


@pytest.mark.parametrize(("parked", "blocked"), [(3, False), (4, True), (5, True)])
def test_parked_requests_block_at_their_own_limit(parked: int, blocked: bool) -> None:
    intake = Intake(FlowLimits(running_max=10, parked_max=4), Budget(MIB))
    kept = frames(parked)
    assert intake.take_all(kept, 0)
    for frame in kept:
        intake.park(frame)
    assert (intake.running, intake.parked) == (0, parked)
    assert intake.blocked is blocked
    assert intake.take_all(frames(1), 0) is not blocked
    assert intake.parked + intake.running == parked + (not blocked)


@pytest.mark.parametrize(("body", "fits", "blocked"), [(999, True, False), (1000, True, True), (1001, False, False)])
def test_request_bytes_are_taken_up_to_the_limit(body: int, fits: bool, blocked: bool) -> None:
    intake = Intake(FlowLimits(request_bytes_max=1000 + HEADER_SIZE), Budget(MIB))
    assert intake.take_all([Frame(310, 1, body=b"x" * body)], body) is fits
    assert intake.blocked is blocked


def test_slices_keep_the_order_and_stop_at_the_running_limit() -> None:
    intake = Intake(FlowLimits(running_max=SLICE_FRAMES_MAX + 3), Budget(MIB))
    waiting = frames(SLICE_FRAMES_MAX + 10)
    for frame in waiting:
        intake.queue(frame)
    first, second, third = intake.take_slice(), intake.take_slice(), intake.take_slice()
    assert [len(first), len(second), len(third)] == [SLICE_FRAMES_MAX, 3, 0]
    assert [frame.opaque for frame in first + second] == list(range(SLICE_FRAMES_MAX + 3))
    intake.answered(first[0])
    assert [frame.opaque for frame in intake.take_slice()] == [SLICE_FRAMES_MAX + 3]


def test_oneway_requests_are_delivered_but_not_in_flight() -> None:
    budget = Budget(MIB)
    intake = Intake(FlowLimits(), budget)
    intake.queue(Frame(15, 1, flag=Flag.ONEWAY, body=b"abc"))
    assert [frame.opaque for frame in intake.take_slice()] == [1]
    assert (intake.running, intake.size, budget.used) == (0, 0, 0)


def test_nothing_new_overtakes_the_backlog() -> None:
    intake = Intake(FlowLimits(), Budget(MIB))
    intake.queue(Frame(310, 1))
    assert not intake.take_all(frames(1), 0)


def test_everything_counted_is_given_back() -> None:
    budget = Budget(MIB)
    intake = Intake(FlowLimits(), budget)
    at_once, parked, large = Frame(310, 1, body=b"abc"), Frame(11, 2), Frame(310, 3, ext={"i": "x" * 5000})
    intake.take_all([at_once, parked], 3)
    intake.park(parked)
    intake.queue(large, exact_size=exact_size(large))
    assert budget.used == intake.size == 3 + 2 * HEADER_SIZE + exact_size(large)
    intake.take_slice()
    for frame in (large, parked, at_once):
        intake.answered(frame)
    assert (intake.running, intake.parked, intake.size, budget.used) == (0, 0, 0, 0)


def test_what_is_parked_for_a_connection_that_is_gone_takes_no_memory_that_nobody_counts() -> None:
    intake = Intake(FlowLimits(), Budget(MIB))
    parked = Frame(307, 1, body=b"much")
    intake.take_all([parked], 4)
    intake.park(parked)
    intake.clear()
    assert parked.body == b""


def test_large_headers_count_with_their_own_size() -> None:
    assert exact_size(Frame(310, 1, ext={"i": "x" * 200_000}, remark="r" * 100)) > 200_100


def test_a_lost_connection_gives_its_share_of_the_budget_back() -> None:
    budget = Budget(MIB)
    intake, other = Intake(FlowLimits(), budget), Intake(FlowLimits(), budget)
    intake.take_all(frames(3), 0)
    intake.queue(Frame(310, 9, body=b"abc"))
    other.take_all(frames(1), 0)
    intake.clear()
    assert budget.used == other.size == HEADER_SIZE


def test_a_request_is_answered_once() -> None:
    intake = Intake(FlowLimits(), Budget(MIB))
    [frame] = frames(1)
    intake.take_all([frame], 0)
    intake.answered(frame)
    with pytest.raises(InvariantError):
        intake.answered(frame)


@pytest.mark.parametrize(("used", "exhausted"), [(99, False), (100, True), (101, True)])
def test_the_budget_is_exhausted_at_its_limit(used: int, exhausted: bool) -> None:
    budget = Budget(100)
    budget.used = used
    assert budget.exhausted is exhausted
