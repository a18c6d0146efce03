"""Whatever happens to a child in any order, what the machine promises holds."""

from hypothesis import given
from hypothesis import strategies as st

from logherd_guardian.events import (
    Action,
    Asked,
    Event,
    Exited,
    Kill,
    Leave,
    Parted,
    Report,
    Reported,
    Spawn,
    Spawned,
    SpawnFailed,
    Take,
    Tick,
)
from logherd_guardian.frames import Exit
from logherd_guardian.machine import Phase
from unit.guardian.life import TERM, WHO, Life, known

PAGES = st.none() | st.builds(
    known, ready=st.booleans(), registered=st.booleans(), identity=st.sampled_from([None, WHO]),
    lease_end_ms=st.sampled_from([0, 1_000_001, 1_002_000, 1 << 50]),
)  # fmt: skip
WISHES = st.one_of(
    st.builds(Tick, PAGES), st.builds(Exited, st.sampled_from([0, 1, 3, -9]), PAGES), st.just(TERM),
    st.sampled_from([Reported(), Parted(), Asked(1, stop=False), SpawnFailed("the next one")]),
)  # fmt: skip


class World:
    """Keeps the invariants' books while anything happens in any order."""

    def __init__(self, *, passes: bool = False) -> None:
        self.life = Life(passes=passes)
        self.alive = False
        self.incarnation = ""
        self.reported: set[str] = set()
        self.taking = False
        self.left = False
        self.stopped = False
        self.refused = False

    def happen(self, event: Event, after: int) -> None:
        if isinstance(event, Exited):
            if not self.alive:
                return
            self.alive = False
        if isinstance(event, SpawnFailed):
            self.refused = True
            return
        if isinstance(event, Tick) and not self.alive:
            event = Tick()
        self.stopped = self.stopped or event == TERM
        for action in self.life(event, after):
            self.act(action)

    def act(self, action: Action) -> None:
        assert not self.left, "nothing is done after the end"
        match action:
            case Spawn():
                assert not self.alive, "one child at a time"
                assert not self.stopped, "no child is started after a stop"
                if self.refused:
                    self.refused = False
                    assert [each for each in self.life(SpawnFailed("no")) if isinstance(each, Take)] == []
                    return
                self.alive, self.incarnation = True, f"{self.life.spawned:032x}"
                self.life.spawned += 1
                self.life(Spawned(self.incarnation))
            case Kill():
                assert self.alive, "only a child is sent signals"
            case Report():
                assert not self.alive, "an exit is reported after it was seen"
                assert action.exit == Exit(WHO, self.incarnation)
                assert self.incarnation not in self.reported
                self.reported.add(self.incarnation)
            case Take():
                assert action.on != self.taking, "only a change is said"
                self.taking = action.on
            case Leave():
                assert self.stopped, "only a stop from outside ends the guardian"
                assert not self.alive, "no child is left behind"
                self.left = True


@given(st.lists(st.tuples(WISHES, st.sampled_from([0, 20, 200, 900, 20_000])), max_size=80), st.booleans())
def test_whatever_happens_in_any_order_the_invariants_hold(history: list[tuple[Event, int]], passes: bool) -> None:
    world = World(passes=passes)
    for event, after in history:
        world.happen(event, after)
    machine = world.life.machine
    assert machine.has_child == world.alive
    if machine.phase is not Phase.STOPPING and world.life.spawned:
        assert world.taking == (machine.phase not in {Phase.SERVING, Phase.PARTING, Phase.ENDED})
    if not world.stopped:
        for _ in range(3_000):  # it is always on the way to a child that serves
            world.happen(Tick(known()), 200)
            if machine.phase in {Phase.SERVING, Phase.DOOMED}:
                break
        assert machine.phase in {Phase.SERVING, Phase.DOOMED}
