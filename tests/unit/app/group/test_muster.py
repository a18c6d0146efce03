"""When all that may hold what is damaged have answered, although places of the group are empty; every doubt says no."""

import pytest

from logherd.app.group import muster as muster_module
from logherd.app.group.muster import Muster
from logherd.model.names import Epoch
from logherd.peers.pieces import Given
from logherd.service.controllers.asking import Enrolled
from logherd.store.pieces import PieceState

AT = 1000
ALL = (1, 2, 3)


def answer(*knows: int, state: PieceState = PieceState.DAMAGED, log_end: int | None = None) -> Given:
    return Given(state=state, knows=knows or None, log_end=log_end)


def answers(**given: Given) -> dict[str, Given]:
    """`b1` is what broker 1 says."""
    return {name[1:]: each for name, each in given.items()}


BOTH = answers(b1=answer(*ALL), b3=answer(*ALL))


class Controllers:
    """Say who has registered."""

    def __init__(self, *brokers: int, epoch: int = 5) -> None:
        self.says: Enrolled | None = Enrolled(frozenset(brokers), Epoch(epoch)) if brokers else None
        self.asked = 0

    async def ask(self) -> Enrolled | None:
        self.asked += 1
        return self.says


def led(controllers: Controllers, *roster: int, epoch: int = 5) -> Muster:
    return Muster(2, frozenset(roster), enrolled=controllers.ask, epoch=epoch)


@pytest.mark.parametrize("state", [PieceState.DAMAGED, PieceState.GONE, PieceState.DIFFERS])
async def test_all_members_have_answered(state: PieceState) -> None:
    """Places 4 to 7 are not among the answers, and nobody has ever heard of a broker there."""
    said = answers(b1=answer(*ALL, state=state), b3=answer(*ALL, state=state))
    assert await Muster(2, frozenset(ALL)).complete(said, AT, all_places=False)
    assert await led(Controllers(*ALL), *ALL).complete(said, AT, all_places=False)


async def test_while_nothing_is_known_every_place_counts() -> None:
    assert not await Muster(2, None).complete(BOTH, AT, all_places=False)


async def test_a_member_that_is_away_counts() -> None:
    assert not await Muster(2, frozenset(ALL)).complete(answers(b1=answer(*ALL)), AT, all_places=False)
    assert not await Muster(2, frozenset(ALL)).complete({}, AT, all_places=False)


async def test_whom_only_another_one_knows_counts() -> None:
    """As when members were changed while this replica was away."""
    muster, told = Muster(2, frozenset(ALL)), answer(1, 2, 4)
    assert not await muster.complete(answers(b1=told, b3=answer(*ALL)), AT, all_places=False)
    assert await muster.complete(answers(b1=told, b3=answer(*ALL), b4=answer(1, 2, 4)), AT, all_places=False)


async def test_who_does_not_say_whom_it_knows_leaves_it_open() -> None:
    """A release before this one."""
    assert not await Muster(2, frozenset(ALL)).complete(answers(b1=answer(*ALL), b3=answer()), AT, all_places=False)


@pytest.mark.parametrize(
    ("log_end", "complete"), [(None, False), (AT + 1, False), (AT, True), (0, True)],
)  # fmt: skip
@pytest.mark.parametrize("all_places", [False, True])
async def test_who_may_hold_it_without_knowing_that_it_is_committed_has_not_answered(
    log_end: int | None, *, complete: bool, all_places: bool
) -> None:
    said = answers(b1=answer(*ALL), b3=answer(*ALL, state=PieceState.NOT_YET, log_end=log_end))
    assert await Muster(2, frozenset(ALL)).complete(said, AT, all_places=False) is complete


@pytest.mark.parametrize(
    ("registered", "epoch"),
    [
        ((), 5),  # they do not answer
        ((1, 2, 3, 4), 5),  # one that this replica has never met is away
        ((1, 3), 5), ((1, 2), 5), ((2,), 5),  # who answers, or this one, is missing: they have lost their record
        ((1, 2, 3), 4),  # and so have these
    ],
)  # fmt: skip
async def test_what_controllers_say_is_taken_only_if_it_can_be_whole(registered: tuple[int, ...], epoch: int) -> None:
    assert not await led(Controllers(*registered, epoch=epoch), *ALL).complete(BOTH, AT, all_places=False)


async def test_controllers_that_have_lost_a_broker_are_not_believed_over_whoever_has_met_it() -> None:
    controllers = Controllers(*ALL)
    assert not await led(controllers, 1, 2, 3, 4).complete(BOTH, AT, all_places=False)
    assert not await led(controllers, *ALL).complete(
        answers(b1=answer(1, 2, 3, 4), b3=answer(*ALL)), AT, all_places=False
    )
    assert controllers.asked == 0, "they are asked only if it depends on them"
    assert await led(controllers, *ALL).complete(BOTH, AT, all_places=False)
    assert controllers.asked == 1


async def test_where_all_places_have_answered_whoever_is_known_besides_counts_too() -> None:
    """A broker came while this one was away, so that its settings do not name that."""
    for roster, told, complete in (
        (None, (), True),
        (ALL, ALL, True),
        ((1, 2, 3, 4), (), False),
        (None, (1, 2, 3, 4), False),
        ((1, 2), (3,), True),
    ):
        muster = Muster(2, frozenset(roster) if roster is not None else None)
        said = answers(b1=answer(), b3=answer(*told))
        assert await muster.complete(said, AT, all_places=True) is complete


@pytest.mark.parametrize(
    ("registered", "complete"),
    [
        ((), True),  # they do not answer
        ((1, 3), True), ((1, 2, 3), True),
        ((1, 2, 3, 4), False),
    ],
)  # fmt: skip
async def test_where_all_places_have_answered_controllers_only_add_somebody(
    registered: tuple[int, ...], *, complete: bool
) -> None:
    for epoch in (4, 5):
        controllers = Controllers(*registered, epoch=epoch)
        muster = Muster(2, None, enrolled=controllers.ask, epoch=5)
        assert await muster.complete(answers(b1=answer(), b3=answer()), AT, all_places=True) is complete


async def test_the_controllers_are_asked_every_ten_seconds_and_before_anything_is_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may wait for days, and asks the others twice a second."""
    now, controllers = 100.0, Controllers(*ALL)
    monkeypatch.setattr(muster_module, "_now", lambda: now)
    muster = led(controllers, *ALL)

    async def complete(*, anew: bool = False) -> bool:
        return await muster.complete(BOTH, AT, all_places=False, anew=anew)

    assert await complete()
    controllers.says = None
    now += 9.9
    assert await complete()
    assert controllers.asked == 1
    now += 0.1
    assert not await complete()
    assert not await complete()
    assert controllers.asked == 2, "that they do not answer counts as long"
    controllers.says = Enrolled(frozenset(ALL), Epoch(5))
    assert await complete(anew=True)
    assert await complete()
    assert controllers.asked == 3
