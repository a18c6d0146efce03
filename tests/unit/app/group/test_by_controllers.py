"""Controller mode in the shell: what the controllers answer, and who hears of it."""

from types import SimpleNamespace
from typing import cast

import pytest

from logherd.app.clock import boot_ms
from logherd.app.group import roster as roster_module
from logherd.app.group.about import About
from logherd.app.group.by_controllers import ByControllers
from logherd.app.group.making import Opened, make_mode
from logherd.app.group.mode import Host
from logherd.app.group.roster import Roster, read_roster
from logherd.app.guarded.keeper import Unguarded
from logherd.controller.commands import Register
from logherd.controller.reports import Withheld
from logherd.controller.values import BrokerId, Registration
from logherd.group.inputs import Heard, Input
from logherd.group.output import Promise
from logherd.group.seat import Process, replica_of
from logherd.model.names import Epoch
from logherd.service.controllers.asking import Joined
from logherd.settings.options import BrokerOptions
from logherd.store import StoreFull
from unit.app.group.stand import GROUP, Stand, options_of, seat_of
from unit.store.helpers import HOST, ROOT, SimClock

QUESTION = Register(group=GROUP, broker_id=BrokerId(2), store_id="s", incarnation="i", address="b2:10911")


def roster_of(stand: Stand) -> Roster:
    roster = Roster(stand.disk, str(ROOT))
    roster.begin(stand.broker_id)
    return roster


def test_links_are_made_anew_with_another_number_and_not_because_the_same_one_is_said_again() -> None:
    """Whose controllers are slow has asked for its number several times before it hears it, and is linked by then."""
    stand, joined = Stand("controller"), list[str]()
    options = options_of("controller", controllers=["c:9878"])
    mode = ByControllers(
        seat_of(stand.file), options, stand.log, epoch=Epoch(0), keeper=Unguarded(), roster=roster_of(stand)
    )

    def step(event: Input) -> None:
        mode.machine.step(event, boot_ms())

    mode._host = Host(step, stand.failures.append, joined.append, lambda: None, lambda: ())
    for registration in (7, 7, 7):
        mode._answered(QUESTION, Joined(Registration(registration), 2), boot_ms())
    assert len(joined) == 1
    mode._answered(QUESTION, Joined(Registration(8), 2), boot_ms())
    assert len(joined) == 2
    step(Heard(Withheld(None, None), boot_ms() + 1))  # they do not know it, and give the same number again
    mode._answered(QUESTION, Joined(Registration(8), 2), boot_ms())
    assert len(joined) == 3


def test_who_has_said_hello_is_known_to_a_process_that_heals() -> None:
    stand, options = Stand("controller"), options_of("controller", controllers=["c:9878"])
    mode = ByControllers(
        seat_of(stand.file), options, stand.log, epoch=Epoch(0), keeper=Unguarded(), roster=roster_of(stand)
    )
    mode._host = stand.host
    for number in (3, 1, 3):
        sender = replica_of(Process(BrokerId(number), Registration(number)))
        mode.heard(stand.hello(sender, About(mode="controller", address="b:1")))
    assert read_roster(stand.disk, str(ROOT)) == {1, 2, 3}
    assert not stand.failures


@pytest.mark.parametrize(("epoch", "known"), [(0, {2}), (3, None)])
def test_only_a_new_replica_begins_a_list_of_whom_it_knows(epoch: int, known: set[int] | None) -> None:
    """One of a release before that list, or that has lost it, may have copied from brokers that are away."""
    stand, options = Stand("controller"), options_of("controller", controllers=["c:9878"])
    stand.file.keep(Promise(Epoch(epoch)))
    opened = Opened(stand.store, [], SimClock(), HOST)
    settings = cast("BrokerOptions", SimpleNamespace(replication=options))
    made = make_mode(settings, seat_of(stand.file), stand.opened(log_empty=False), opened, keeper=Unguarded())
    assert read_roster(stand.disk, str(ROOT)) == known
    assert made.mode.roster is not None
    assert made.mode.roster.brokers == (tuple(known) if known is not None else None)


def test_what_a_full_disk_did_not_keep_is_kept_though_nobody_says_hello_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stand, now = Stand("controller"), 5_000
    mode = ByControllers(
        seat_of(stand.file), options_of("controller", controllers=["c:9878"]), stand.log, epoch=Epoch(0),
        keeper=Unguarded(), roster=roster_of(stand),
    )  # fmt: skip
    mode._host = stand.host
    monkeypatch.setattr(roster_module, "boot_ms", lambda: now)

    def full(*_: object) -> None:
        raise StoreFull("no space")

    with monkeypatch.context() as patch:
        patch.setattr(roster_module, "replace_file", full)
        mode.heard(stand.hello(replica_of(Process(BrokerId(3), Registration(3))), About(mode="controller", address="")))
    mode.tick()
    assert read_roster(stand.disk, str(ROOT)) is None
    now += 60_000
    mode.tick()
    assert read_roster(stand.disk, str(ROOT)) == {2, 3}
    assert not stand.failures
