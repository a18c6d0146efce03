"""What the leader's endpoint should say, for everything that a sidecar may hear (H17)."""

from typing import Any

import pytest

from logherd_operator.keeper.decision import EPOCH, HOLDER, Change, Heard, Keeper, Slice, heard_of, slice_of

LEASE, MARGIN, AGAIN = 3.0, 1.0, 10.0
EMPTY = Slice(version="1", epoch=0, address="", holder="")


def keeper(stands: Slice = EMPTY, now: float = 0.0) -> Keeper:
    made = Keeper("c-0", LEASE, now)
    made.read(stands, now)
    return made


def leading(made: Keeper, heard: Heard, stands: Slice, at: float = 0.0) -> Keeper:
    """Its controller leads the quorum; the slice was read since."""
    made.heard(heard, at)
    made.read(stands, at)
    return made


def test_a_confirmed_leader_goes_in_with_its_epoch() -> None:
    made = leading(keeper(), Heard(7, "10.0.0.1"), EMPTY)
    assert made.change(0.1, MARGIN) == Change("1", 7, "10.0.0.1")


@pytest.mark.parametrize(
    ("stands", "changed"),
    [
        (Slice("4", 7, "10.0.0.1", "c-0"), False),
        (Slice("4", 7, "10.0.0.9", "c-1"), True),  # its pod was made anew
        (Slice("4", 6, "10.0.0.1", "c-1"), True),
        (Slice("4", 8, "10.0.0.2", "c-1"), False),  # somebody knows better
        (Slice("4", 7, "", "c-1"), True),
    ],
)
def test_only_a_rising_epoch_or_a_new_address_changes_it(stands: Slice, changed: bool) -> None:
    made = leading(keeper(), Heard(7, "10.0.0.1"), stands)
    assert (made.change(0.1, MARGIN) is not None) == changed


def test_whoever_begins_to_lead_the_controllers_reads_the_slice_first() -> None:
    made = keeper(Slice("4", 6, "10.0.0.9", "c-1"))
    made.heard(Heard(7, "10.0.0.1"), 5.0)
    assert made.needs_slice(5.0)
    assert made.change(5.0, MARGIN) is None


def test_between_two_leaders_the_old_address_stays_and_then_goes_within_one_lease() -> None:
    stands = Slice("4", 7, "10.0.0.1", "c-0")
    made = leading(keeper(), Heard(7, "10.0.0.1"), stands, 10.0)
    made.heard(Heard(7, ""), 10.4)
    assert made.change(11.9, MARGIN) is None
    assert made.change(12.0, MARGIN) == Change("4", 7, "")


def test_who_put_it_there_empties_it_when_nobody_confirms_any_more() -> None:
    stands = Slice("4", 7, "10.0.0.1", "c-0")
    made = leading(keeper(), Heard(7, "10.0.0.1"), stands, 10.0)
    made.heard(None, 10.4)
    assert made.change(12.0, MARGIN) == Change("4", 7, "")


def test_a_sidecar_that_is_only_cut_off_leaves_anothers_work_alone() -> None:
    made = keeper(Slice("4", 7, "10.0.0.1", "c-1"))
    made.heard(None, 1.0)
    assert made.change(100.0, MARGIN) is None


def test_whoever_leads_the_controllers_now_takes_the_slice_over_before_its_former_keeper_empties_it() -> None:
    leader, stands = Heard(7, "10.0.0.1"), Slice("4", 7, "10.0.0.1", "c-1")
    former = Keeper("c-1", LEASE, 0.0)
    leading(former, leader, stands, 10.0)
    former.heard(None, 10.4)
    taken = leading(keeper(), leader, stands, 10.6).change(10.6, MARGIN)
    assert taken == Change("4", 7, "10.0.0.1")
    assert former.change(12.0, MARGIN) == Change("4", 7, "")  # over a version that stands no longer
    former.read(Slice("5", taken.epoch, taken.address, "c-0"), 12.1)
    assert former.change(100.0, MARGIN) is None


def test_a_new_leading_controller_gives_whoever_leads_a_lease_before_it_empties() -> None:
    stands = Slice("4", 7, "10.0.0.1", "c-1")
    made = leading(keeper(now=0.0), Heard(7, ""), stands, 50.0)
    assert made.change(51.9, MARGIN) is None
    assert made.change(52.0, MARGIN) == Change("4", 7, "")


def test_a_controller_that_answers_only_now_and_then_gives_no_lease_anew() -> None:
    stands = Slice("4", 7, "10.0.0.1", "c-0")
    made = leading(keeper(), Heard(7, "10.0.0.1"), stands, 10.0)
    for at in (10.4, 11.2):
        made.heard(None, at)
        leading(made, Heard(7, ""), stands, at + 0.4)
    assert made.change(12.0, MARGIN) == Change("4", 7, "")


def test_but_where_another_kept_it_meanwhile_a_lease_is_given() -> None:
    made = leading(keeper(), Heard(7, "10.0.0.1"), Slice("4", 7, "10.0.0.1", "c-0"), 10.0)
    made.heard(None, 10.4)
    leading(made, Heard(8, ""), Slice("5", 8, "10.0.0.2", "c-1"), 10.8)
    assert made.change(12.7, MARGIN) is None
    assert made.change(12.8, MARGIN) == Change("5", 8, "")


@pytest.mark.parametrize(
    ("heard", "stands", "confirmed"),
    [
        (Heard(7, "10.0.0.1"), Slice("4", 7, "10.0.0.1", "c-0"), 7),
        (Heard(7, "10.0.0.1"), Slice("4", 7, "10.0.0.1", "c-1"), None),  # whose keeper may empty it
        (Heard(7, "10.0.0.1"), Slice("4", 6, "10.0.0.1", "c-0"), None),
        (Heard(7, "10.0.0.1"), Slice("4", 7, "10.0.0.9", "c-0"), None),
        (Heard(7, ""), Slice("4", 7, "", "c-0"), None),
        (Heard(7, "10.0.0.1"), None, None),  # nobody knows how it stands
        (None, Slice("4", 7, "10.0.0.1", "c-0"), None),
    ],
)
def test_only_what_is_its_own_and_the_leaders_is_confirmed(
    heard: Heard | None, stands: Slice | None, confirmed: int | None
) -> None:
    made = keeper()
    made.heard(heard, 0.0)
    if stands is not None:
        made.read(stands, 0.0)
    else:
        made.forget()
    assert made.confirmed == confirmed


def test_what_stands_is_read_again_after_a_while_by_who_hears_the_leader() -> None:
    made = leading(keeper(), Heard(7, "10.0.0.1"), Slice("4", 7, "10.0.0.1", "c-0"))
    assert not made.needs_slice(AGAIN - 0.1)
    assert made.needs_slice(AGAIN)
    made.read(Slice("9", 7, "", "c-0"), AGAIN)  # somebody emptied it
    assert made.change(AGAIN, MARGIN) == Change("9", 7, "10.0.0.1")
    made.read(Slice("10", 0, "", ""), 2 * AGAIN)  # somebody deleted it, and the operator made it
    assert made.change(2 * AGAIN, MARGIN) == Change("10", 7, "10.0.0.1")


@pytest.mark.parametrize("heard", [None, Heard(7, "")])
def test_without_a_leader_no_time_of_the_lease_is_spent_on_reading_again(heard: Heard | None) -> None:
    made = leading(keeper(), Heard(7, "10.0.0.1"), Slice("4", 7, "10.0.0.1", "c-0"))
    made.heard(heard, 1.0)
    assert not made.needs_slice(10 * AGAIN)


def test_a_slice_that_is_not_there_is_not_asked_for_all_the_time() -> None:
    made = keeper()
    made.heard(Heard(7, "10.0.0.1"), 0.0)
    made.missed(0.0)
    assert (made.confirmed, made.change(1.0, MARGIN)) == (None, None)
    assert not made.needs_slice(AGAIN - 0.1)
    assert made.needs_slice(AGAIN)


def test_what_stood_there_stands_while_the_api_server_does_not_answer() -> None:
    made = leading(keeper(), Heard(7, "10.0.0.1"), Slice("4", 7, "10.0.0.1", "c-0"))
    made.unread(AGAIN)
    assert made.confirmed == 7
    assert not made.needs_slice(AGAIN + 1.0)
    made.forget()
    made.unread(AGAIN)
    assert made.needs_slice(AGAIN), "nobody knows how it stands: asked for in each round"


def test_a_stale_sidecar_puts_no_older_leader_over_a_newer_one() -> None:
    """Its controller was cut off and comes back, confirmed by nobody or by an older epoch; the slice went on."""
    made = leading(keeper(), Heard(7, "10.0.0.1"), Slice("4", 7, "10.0.0.1", "c-0"))
    for stands in (Slice("8", 8, "10.0.0.2", "c-1"), Slice("9", 8, "", "c-1")):
        for heard in (Heard(7, "10.0.0.1"), None):
            made.heard(heard, 20.0)
            made.read(stands, 20.0)
            assert made.change(100.0, MARGIN) is None


def test_an_empty_slice_is_not_emptied_again() -> None:
    made = leading(keeper(), Heard(7, ""), Slice("4", 7, "", "c-0"), 0.0)
    assert made.change(100.0, MARGIN) is None


def page(**fields: Any) -> dict[str, Any]:
    leader = {"brokerId": 1, "address": "b1:10911", "serving": True, "renewedFrom": "10.0.0.1"}
    return {"confirmed": True, "live": True, "epoch": 7, "leader": leader, **fields}


@pytest.mark.parametrize(
    ("status", "document", "heard"),
    [
        (200, page(), Heard(7, "10.0.0.1")),
        (200, page(leader=None), Heard(7, "")),
        (200, page(leader={"serving": False, "renewedFrom": "10.0.0.1"}), Heard(7, "")),
        (200, page(leader={"serving": True, "renewedFrom": None}), Heard(7, "")),
        (200, page(confirmed=False), None),
        (200, page(live=False), None),
        (503, page(), None),
        (404, {}, None),
        (0, {}, None),
        (200, {"confirmed": True, "live": True}, None),
    ],
)
def test_only_the_leading_controllers_confirmed_word_counts(
    status: int, document: dict[str, Any], heard: Heard | None
) -> None:
    assert heard_of(status, document) == heard


def test_a_slice_is_read() -> None:
    document = {
        "metadata": {"resourceVersion": "9", "annotations": {EPOCH: "7", HOLDER: "c-1"}},
        "endpoints": [{"addresses": ["10.0.0.1"]}],
    }
    assert slice_of(document) == Slice("9", 7, "10.0.0.1", "c-1")
    assert slice_of({"metadata": {"resourceVersion": "1"}, "endpoints": []}) == EMPTY


@pytest.mark.parametrize("epoch", ["", "seven", "-1", "\N{SUPERSCRIPT TWO}", "1" * 5000])
def test_an_epoch_that_is_none_is_earlier_than_any(epoch: str) -> None:
    document = {"metadata": {"resourceVersion": "4", "annotations": {EPOCH: epoch}}, "endpoints": None}
    assert slice_of(document) == Slice(version="4", epoch=0, address="", holder="")
