"""Carries out the faults of a plan."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from logherd.controller.values import GroupKey
from sim.leases.broker import Broker
from sim.leases.controller import Controller
from sim.leases.orders import Orders
from sim.leases.process import Process
from sim.leases.restored import Backups
from sim.leases.shape import LEADING, LOSING, MASTER, RESTORE
from sim.plan import Fault

if TYPE_CHECKING:
    from sim.leases.world import World

__all__ = ["Faults"]


class Faults:
    """One method for each kind; each draws what it needs from the fault's own number."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.orders = Orders(world)
        self.backups = Backups(world)
        self._twins: list[Broker] = []
        self._kinds: dict[str, Callable[[Process, int, Random], None]] = {
            **self._on_processes(), **self._on_controllers(), **self._on_brokers(), **self._by_operators()
        }  # fmt: skip

    def strike(self, fault: Fault) -> None:
        """It happens now."""
        draw = Random(fault.number)
        victim = self._target(fault.target, draw)
        self._world.note(victim.name, f"{fault.kind} for {fault.lasts_ms} ms")
        if fault.kind in LOSING:
            for fate in self._world.observer.fates.values():
                fate.doubt.told(self._world.now_us)
        self._kinds[fault.kind](victim, 1_000 * fault.lasts_ms, draw)

    def heal(self) -> None:
        """Everything goes well from now on."""
        world = self._world
        world.net.heal()
        for twin in self._twins:
            twin.retire()
        for process in world.everybody():
            process.heal()
        for broker in world.brokers.values():
            broker.full = broker.sick = False
        for controller in world.controllers.values():
            controller.silent_until = 0
            if controller.full:
                controller.fill(full=False)

    def _target(self, target: int, draw: Random) -> Process:
        world = self._world
        everybody = [process for process in world.everybody() if not process.retired]
        if target == MASTER:
            masters = [broker for broker in world.brokers.values() if broker.believes() is not None]
            return draw.choice(masters) if masters else draw.choice(everybody)
        if target == LEADING:
            return self._leading(draw)
        return everybody[target % len(everybody)]

    def _leading(self, draw: Random) -> Controller:
        controllers = list(self._world.controllers.values())
        return draw.choice([each for each in controllers if each.office is not None] or controllers)

    def _broker(self, victim: Process, draw: Random) -> Broker:
        """The victim, or a broker instead of a controller."""
        if isinstance(victim, Broker):
            return victim
        return draw.choice([broker for broker in self._world.brokers.values() if not broker.retired])

    # ---- any process -------------------------------------------------------------------------------------------

    def _on_processes(self) -> dict[str, Callable[[Process, int, Random], None]]:
        return {
            "pause": lambda victim, lasts, draw: self._pause(victim, lasts),
            "crash": lambda victim, lasts, draw: victim.crash(lasts),
            "isolate": lambda victim, lasts, draw: self._part(victim, lasts),
            "deafen": lambda victim, lasts, draw: self._part(victim, lasts, back=False),
            "mute": lambda victim, lasts, draw: self._part(victim, lasts, to=False),
            "split": lambda victim, lasts, draw: self._part(victim, lasts, draw=draw),
            "half-split": lambda victim, lasts, draw: self._part(
                victim, lasts, draw=draw, to=(way := draw.random() < 0.5), back=not way
            ),
            "minority": lambda victim, lasts, draw: self._part_from_controllers(victim, lasts, draw, one_way=False),
            "half-minority": lambda victim, lasts, draw: self._part_from_controllers(victim, lasts, draw, one_way=True),
            "clog": self._clog,
        }

    def _pause(self, victim: Process, lasts: int) -> None:
        master = isinstance(victim, Broker) and victim.believes() is not None
        self._world.marks.hit_if("paused-past-lease", master and lasts > 1_000 * self._world.terms.lease_ms)
        victim.pause(lasts)

    def _part(
        self, victim: Process, lasts: int, *, draw: Random | None = None, to: bool = True, back: bool = True
    ) -> None:
        for other in self._world.everybody():
            if other is not victim and (draw is None or draw.random() < 0.5):
                self._world.net.part(victim.name, other.name, lasts, to=to, back=back)

    def _part_from_controllers(self, victim: Process, lasts: int, draw: Random, *, one_way: bool) -> None:
        """From all controllers, or from some of them only."""
        names = list(self._world.controllers)
        chosen = draw.sample(names, draw.randint(1, len(names)))
        way = draw.random() < 0.5
        for name in chosen:
            if name != victim.name:
                self._world.net.part(victim.name, name, lasts, to=not one_way or way, back=not one_way or not way)
        master = isinstance(victim, Broker) and victim.believes() is not None
        self._world.marks.hit_if("half-heard", master and len(chosen) < len(names))

    def _clog(self, victim: Process, lasts: int, draw: Random) -> None:
        for other in self._world.everybody():
            if other is not victim and draw.random() < 0.5:
                pair = (victim.name, other.name) if draw.random() < 0.5 else (other.name, victim.name)
                self._world.net.clog(*pair, lasts)

    # ---- controllers -------------------------------------------------------------------------------------------

    def _on_controllers(self) -> dict[str, Callable[[Process, int, Random], None]]:
        return {
            "double": lambda victim, lasts, draw: self._lose_both_leaders(draw),
            "blackout": lambda victim, lasts, draw: self._blackout(lasts),
            "controller-full": lambda victim, lasts, draw: self._fill_controller(lasts, draw),
            "unconfirmed": lambda victim, lasts, draw: self._silence(self._leading(draw), lasts),
            "nap": lambda victim, lasts, draw: self._leading(draw).pause(lasts),
            "change-leader": lambda victim, lasts, draw: self._change_leader(draw),
            RESTORE: lambda victim, lasts, draw: self.backups.restore(draw),
        }

    def _blackout(self, lasts: int) -> None:
        self._world.marks.hit("blackout")
        for controller in self._world.controllers.values():
            controller.crash(lasts)

    def _fill_controller(self, lasts: int, draw: Random) -> None:
        controller = self._leading(draw)
        self._world.marks.hit_if("controller-full", controller.office is not None)
        controller.fill(full=True)
        self._world.after(lasts, lambda: controller.fill(full=False))

    def _silence(self, controller: Controller, lasts: int) -> None:
        """The quorum's word does not come through."""
        controller.silent_until = self._world.now_us + lasts

    def _change_leader(self, draw: Random) -> None:
        controller = self._leading(draw)
        if controller.active:
            controller.hand_over()

    def _lose_both_leaders(self, draw: Random) -> None:
        """The controllers' leader is gone or asleep, and the brokers' master reaches none of the others."""
        masters = [broker for broker in self._world.brokers.values() if broker.believes() is not None]
        for name, controller in self._world.controllers.items():
            if controller.office is None:
                for broker in masters:
                    self._world.net.part(broker.name, name, 3_000_000)
            elif draw.random() < 0.5:
                # It wakes up cut off from its peers, still thinking that it leads, and only the master finds it.
                controller.pause(draw.choice((900_000, 1_500_000)))
                for peer in self._world.controllers:
                    self._world.net.part(name, peer, 3_000_000)
            else:
                controller.crash(1_500_000)

    # ---- brokers -----------------------------------------------------------------------------------------------

    def _on_brokers(self) -> dict[str, Callable[[Process, int, Random], None]]:
        kinds: dict[str, Callable[[Broker, int, Random], None]] = {
            "full": lambda broker, lasts, draw: self._for_a_while(broker, "full", lasts),
            "sick": lambda broker, lasts, draw: self._for_a_while(broker, "sick", lasts),
            "power": self._power,
            "wipe": self._wipe,
            "replace": self._replace,
            "rollback": self._roll_back,
            "twin": self._twin,
            "stop": self._stop,
            "old-exit": self._old_exit,
            "move": self._move,
            "bounce": lambda broker, lasts, draw: broker.crash(20_000),
            "late-grant": self._late_grant,
            "late-beat": self._late_beat,
            "echo": self._echo,
        }
        return {
            kind: lambda victim, lasts, draw, act=act: act(self._broker(victim, draw), lasts, draw)  # type: ignore[misc]
            for kind, act in kinds.items()
        }

    def _for_a_while(self, broker: Broker, what: str, lasts: int) -> None:
        setattr(broker, what, True)
        self._world.after(lasts, lambda: setattr(broker, what, False))

    def _power(self, broker: Broker, lasts: int, draw: Random) -> None:
        """A stop that was not clean, of a store that had acknowledged what was not flushed."""
        if broker.alive:
            broker.crash(lasts)
            broker.trusted = False
            broker.volume.cut(draw.randint(0, len(broker.volume.log)))

    def _wipe(self, broker: Broker, lasts: int, draw: Random) -> None:
        """The volume is lost: its records live on elsewhere, or an operator will have to decide."""
        if broker.alive:
            broker.crash(lasts)
            broker.new_volume()

    def _replace(self, broker: Broker, lasts: int, draw: Random) -> None:
        """Another machine under the old id."""
        self._wipe(broker, lasts, draw)
        self._move(broker, lasts, draw)

    def _move(self, broker: Broker, lasts: int, draw: Random) -> None:
        broker.address = f"{broker.name}@{self._world.now_us}"

    def _roll_back(self, broker: Broker, lasts: int, draw: Random) -> None:
        """The volume is restored to an older state. The controllers can see that only below what they know."""
        group = self._world.observer.group(broker.key)
        floor = min(group.sync.committed.position, len(broker.volume.log)) if group is not None else 0
        if broker.alive and floor > 0:
            broker.crash(lasts)
            broker.volume.cut(draw.randrange(floor))

    def _twin(self, broker: Broker, lasts: int, draw: Random) -> None:
        """A second process starts under the id, on another machine; often because the first one is not heard."""
        if draw.random() < 0.7:
            self._part_from_controllers(broker, lasts, draw, one_way=False)
        twin = self._world.add_broker(broker.key, broker.id, twin="'" * (1 + len(self._twins)))
        twin.learner = broker.learner
        self._twins.append(twin)
        self._world.marks.hit_if("twins", broker.alive)
        self._world.after(lasts + 2_000_000, twin.retire)

    def _stop(self, broker: Broker, lasts: int, draw: Random) -> None:
        """An orderly stop: a master lets go first."""
        epoch = broker.believes()
        if epoch is not None and broker.active:
            broker.resign(epoch)
        broker.soon(draw.choice((1_000, 300_000)), lambda: broker.crash(lasts))

    def _old_exit(self, broker: Broker, lasts: int, draw: Random) -> None:
        """A guardian's report about a former process arrives now."""
        if broker.exits:
            broker.report_exit(draw.choice(broker.exits), 2)

    def _late_grant(self, broker: Broker, lasts: int, draw: Random) -> None:
        """The controllers' answers take a while; meanwhile the master lets go."""
        wait = draw.randrange(300_000, 900_000)
        for name in self._world.controllers:
            self._world.net.clog(name, broker.name, wait)

        def resign() -> None:
            epoch = broker.believes()
            if epoch is not None:
                broker.resign(epoch)

        broker.soon(draw.randrange(wait), resign)

    def _late_beat(self, broker: Broker, lasts: int, draw: Random) -> None:
        """Heartbeats of a follower arrive all at once; meanwhile its disk got full, and the master is gone."""
        wait = draw.randrange(300_000, 700_000)
        for other in self._world.group(broker.key):
            if other is not broker and (other.believes() is not None or draw.random() < 0.3):
                self._world.after(wait // 2, lambda other=other: other.crash(lasts))  # type: ignore[misc]
        for name in self._world.controllers:
            self._world.net.clog(broker.name, name, wait)
        self._world.after(draw.randrange(wait), lambda: self._for_a_while(broker, "full", 3_000_000))

    def _echo(self, broker: Broker, lasts: int, draw: Random) -> None:
        """Old proposals, of a connection that was closed, arrive now."""
        for command in broker.duty.history[-5:]:
            broker.duty.propose(command)

    # ---- operators ---------------------------------------------------------------------------------------------

    def _by_operators(self) -> dict[str, Callable[[Process, int, Random], None]]:
        orders = self.orders

        def about(victim: Process, draw: Random) -> GroupKey:
            return self._broker(victim, draw).key

        return {
            "transfer": lambda victim, lasts, draw: orders.elect(about(victim, draw), draw),
            "elect": lambda victim, lasts, draw: orders.elect(about(victim, draw), draw, guess=True),
            "unclean": lambda victim, lasts, draw: orders.elect(about(victim, draw), draw, unclean=True),
            "demote": lambda victim, lasts, draw: orders.set_learner(about(victim, draw), draw, learner=True),
            "promote": lambda victim, lasts, draw: orders.set_learner(about(victim, draw), draw, learner=False),
            "forget": lambda victim, lasts, draw: orders.forget(about(victim, draw), draw),
            "dissolve": lambda victim, lasts, draw: orders.forget(about(victim, draw), draw, all_of_it=True),
            "tune": lambda victim, lasts, draw: orders.tune(draw),
            "configure": lambda victim, lasts, draw: orders.configure(about(victim, draw), draw),
        }
