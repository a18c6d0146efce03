"""A stage for scripts: a few cores, one clock, and a network that does only what the script says.

A script is lines `> command` with the output below each; blank lines and `#` comments stay. Commands:

    log n1 1 1 4             before `group`: n1 starts with these records, given by their terms
    term 7                   before `group`: everybody has been in this term
    group n1 n2 n3 [k=v]     found a group and start it; options: lease, preferred, window, message, chunk, uncommitted
    joiner n4                a member that knows no group yet
    tick n1 [ms]             time passes, and of it only this member hears; `jump ms`: nobody does (suspension)
    stand n1 / elect n1      its election time-out ends first / and it becomes leader, shown briefly
    wait ms                  time passes for all; messages and flushes go through; only events and answers are shown
    cut/deafen n1, mend      nothing passes to and from it / only to it / everything passes again
    deliver a>b [n]          the oldest n messages (all, if not given) from a to b arrive; `*` stands for everybody
    again/drop/keep a>b      they arrive twice / are lost / are also kept to arrive `late`
    hold n1 / flush n1       flushes of n1 wait for the command `flush n1` / are done now
    settle                   deliver and flush until nothing is left
    propose/read/lease/transfer/change/full/recover/image ...   requests; see the functions
    crash n1 [power] [damage] / start n1; damage: its store is doubtful, and the newest term and vote are lost
    rot n1 n                 while it is down: the last n records are lost, and its store is doubtful
    logs / status            what everybody has
"""

from collections.abc import Callable
from zlib import crc32

from logherd.kit.errors import InvariantError, LogHerdError
from logherd.model.names import Epoch
from logherd.raft.candidate import Candidate, PreCandidate
from logherd.raft.core import RaftCore, found_group, make_image
from logherd.raft.follower import Follower
from logherd.raft.inputs import (
    Applied,
    ChangeMembers,
    DiskFull,
    Flushed,
    ImageKept,
    Input,
    Linked,
    Propose,
    Read,
    Received,
    RecoverQuorum,
    Tick,
    Transfer,
)
from logherd.raft.members import Goal
from logherd.raft.options import RaftOptions
from logherd.raft.output import Output
from logherd.raft.record import Kind
from logherd.raft.store import HardState
from logherd.replication.messages import ClusterId, Envelope, ReplicaId, Stale
from logherd.replication.sender import ShipOptions
from sim.consensus.disk import SimStore
from sim.consensus.streams import stream
from sim.consensus.words import say_answer, say_body, say_configuration, say_event, say_point

__all__ = ["Theatre"]

CLUSTER = ClusterId("script")


class Actor:
    """One member on the stage."""

    def __init__(self, name: str, store: SimStore) -> None:
        self.name = name
        self.store = store
        self.core: RaftCore | None = None
        self.holds = False
        self.wanted: int | None = None
        self.held: list[Envelope] = []
        self.applied = 0


class Theatre:
    """Runs the commands of one script."""

    def __init__(self) -> None:
        self.now = 0
        self.actors: dict[str, Actor] = {}
        self.wire: list[Envelope] = []
        self.lines: list[str] = []
        self.options = RaftOptions()
        self.requests = 0
        self.quiet = False
        self.logs: dict[str, tuple[int, ...]] = {}
        self.starts = 0
        self.cut: dict[str, None] = {}
        self.term = 0
        self.kept: list[Envelope] = []
        self.deaf: dict[str, None] = {}

    def run(self, command: str) -> list[str]:
        """Carry out one command; what it showed."""
        self.lines = []
        word, *rest = command.split()
        method: Callable[..., None] = getattr(self, "do_" + word)
        try:
            method(*rest)
        except (LogHerdError, InvariantError) as error:
            self.lines.append(f"{type(error).__name__}: {str(error).partition(':')[0]}")
        return self.lines

    # ---- the stage ---------------------------------------------------------------------------------------------

    def do_log(self, name: str, *terms: str) -> None:
        self.logs[name] = tuple(int(term) for term in terms)

    def do_term(self, term: str) -> None:
        self.term = int(term)

    def do_group(self, *words: str) -> None:
        names = [word for word in words if "=" not in word]
        self._set_options(dict(word.split("=") for word in words if "=" in word))
        founders = tuple(ReplicaId(name) for name in names)
        for name in names:
            store = SimStore(1 << 20)
            found_group(store, HardState(CLUSTER, ReplicaId(name), Epoch(self.term)), founders)
            for number, term in enumerate(self.logs.get(name, ())):
                store.append(Kind.DATA, Epoch(term), b"%02d of %02d" % (number, term))
            store.flush(len(store.pending))
            self.actors[name] = Actor(name, store)
            self._boot(name)

    def _set_options(self, given: dict[str, str]) -> None:
        message = int(given.get("message", 1 << 20))
        ship = ShipOptions(
            message_bytes_max=message,
            window_messages=int(given.get("window", 64)),
            window_bytes=max(message * 8, int(given.get("bytes", 8 << 20))),
            small_bytes=int(given.get("small", 0)),
            chunk_bytes=int(given.get("chunk", 1 << 20)),
        )
        self.options = RaftOptions(
            preferred=tuple(ReplicaId(name) for name in given.get("preferred", "").split(",") if name),
            lease_reads="lease" in given,
            uncommitted_records_max=int(given.get("uncommitted", 10_000)),
            ship=ship,
        )

    def do_joiner(self, name: str) -> None:
        store = SimStore(1 << 20)
        store.keep_hard_state(HardState(CLUSTER, ReplicaId(name)))
        store.flush(len(store.pending))
        self.actors[name] = Actor(name, store)
        self._boot(name)

    def _boot(self, name: str) -> None:
        actor = self.actors[name]
        self.starts += 1
        hard = HardState(CLUSTER, ReplicaId(name))
        seed = stream(self.starts, name).getrandbits(64)
        actor.core = RaftCore(actor.store, self.options, hard=hard, seed=seed, now=self.now)
        actor.wanted, actor.held = None, []
        image = actor.store.image()
        actor.applied = image.point.position if image else 0
        self.feed(name, Tick())
        while actor.wanted is not None and not actor.holds:
            self._flush(name)

    def do_crash(self, name: str, *how: str) -> None:
        actor = self.actors[name]
        actor.core = None
        if "power" in how:
            actor.store.pending.clear()
        if "damage" in how:
            actor.store.damage(hard=actor.store.hard_before)
        actor.store = actor.store.reopened()

    def do_rot(self, name: str, count: str) -> None:
        actor = self.actors[name]
        actor.store.damage(records=int(count))
        actor.store = actor.store.reopened()

    def do_start(self, name: str) -> None:
        self._boot(name)

    def do_link(self, name: str, peer: str) -> None:
        self.feed(name, Linked(ReplicaId(peer)))

    # ---- time, disk, network -----------------------------------------------------------------------------------

    def do_tick(self, name: str, ms: str = "0") -> None:
        for _ in range(max(1, int(ms) // 50)):
            self.now += min(50, int(ms))
            for actor in self.actors.values():
                if actor.core is not None and actor.name != name:
                    actor.core.ground.clock.now = self.now
            self.feed(name, Tick())

    def do_stand(self, name: str) -> None:
        """Nobody hears a leader for a time-out; this member's ends first."""
        self.now += 1_100
        for actor in self.actors.values():
            if actor.core is not None:
                actor.core.ground.clock.now = self.now
                if isinstance(actor.core._role, Follower):
                    actor.core._role.rearm()
        for _ in range(2):
            role = self._core(name)._role
            if isinstance(role, (Follower, PreCandidate, Candidate)):
                role._deadline = self.now
            self.feed(name, Tick())
            if isinstance(role, Follower):
                return

    def do_elect(self, name: str) -> None:
        self.quiet = True
        self.do_stand(name)
        self.do_settle()
        self.do_wait("200")
        self.lines = [line for line in self.lines if "ready" in line]

    def do_cut(self, *names: str) -> None:
        """Nothing reaches these any more, nor leaves them."""
        self.cut.update(dict.fromkeys(names))

    def do_deafen(self, *names: str) -> None:
        """Nothing reaches these any more."""
        self.deaf.update(dict.fromkeys(names))

    def do_mend(self) -> None:
        """Everything reaches everybody again."""
        self.cut, self.deaf = {}, {}

    def do_jump(self, ms: str) -> None:
        """Time passes and nobody notices, as in a suspension."""
        self.now += int(ms)

    def do_wait(self, ms: str) -> None:
        self.quiet = True
        for _ in range(0, int(ms), 50):
            self.now += 50
            self.do_settle()
            for name in self.actors:
                self.feed(name, Tick())
            self.do_settle()
        self.quiet = False

    def do_settle(self) -> None:
        for _ in range(10_000):
            flushing = [name for name, actor in self.actors.items() if actor.wanted is not None and not actor.holds]
            if flushing:
                self._flush(flushing[0])
            elif self.wire:
                self._arrive(self.wire.pop(0))
            else:
                return
        raise AssertionError("the script never settles")

    def do_deliver(self, link: str, count: str = "1000000") -> None:
        chosen = [envelope for envelope in self.wire if _matches(link, envelope)][: int(count)]
        for envelope in chosen:
            self.wire.remove(envelope)
        for envelope in chosen:
            self._arrive(envelope)
            self._flush_free()

    def do_again(self, link: str) -> None:
        """Duplicate what is under way."""
        self.wire.extend([envelope for envelope in self.wire if _matches(link, envelope)])

    def do_drop(self, *links: str) -> None:
        self.wire = [e for e in self.wire if not any(_matches(link, e) for link in links)]

    def do_keep(self, link: str) -> None:
        """Remember a copy of what is under way, as a straggler."""
        self.kept = [envelope for envelope in self.wire if _matches(link, envelope)]

    def do_late(self) -> None:
        """The stragglers arrive."""
        for envelope in self.kept:
            self._say(f"late: {envelope.sender}>{envelope.to} t{envelope.epoch} {say_body(envelope.body)}")
            self._arrive(envelope)

    def do_misdeliver(self, sender: str, to: str) -> None:
        """A message for an identity that no longer exists arrives at its old address."""
        lost = Envelope(CLUSTER, ReplicaId(sender), ReplicaId("lost"), Epoch(1), Stale())
        self.feed(to, Received(lost))

    def do_hold(self, name: str) -> None:
        self.actors[name].holds = True

    def do_flush(self, name: str) -> None:
        self.actors[name].holds = False
        self._flush(name)

    def _flush_free(self) -> None:
        for name, actor in self.actors.items():
            while actor.wanted is not None and not actor.holds:
                self._flush(name)

    def _flush(self, name: str) -> None:
        actor = self.actors[name]
        token, held = actor.wanted, actor.held
        if token is None or actor.core is None:
            actor.wanted = None
            return
        actor.wanted, actor.held = None, []
        actor.store.flush(len(actor.store.pending))
        for envelope in held:
            self._post(envelope, "")
        self.feed(name, Flushed(token))

    def _post(self, envelope: Envelope, note: str) -> None:
        self.wire.append(envelope)
        self._say(f"{envelope.sender}>{envelope.to} t{envelope.epoch} {say_body(envelope.body)}{note}")

    def _arrive(self, envelope: Envelope) -> None:
        if envelope.to in self.cut or envelope.to in self.deaf or envelope.sender in self.cut:
            return
        if envelope.to in self.actors and self.actors[envelope.to].core is not None:
            self.feed(envelope.to, Received(envelope))

    # ---- requests ----------------------------------------------------------------------------------------------

    def request(self) -> int:
        self.requests += 1
        return self.requests

    def do_propose(self, name: str, *words: str) -> None:
        self.feed(name, Propose(self.request(), " ".join(words).encode()))

    def do_read(self, name: str) -> None:
        self.feed(name, Read(self.request()))

    def do_lease(self, name: str) -> None:
        self.feed(name, Read(self.request(), lease=True))

    def do_transfer(self, name: str, target: str = "") -> None:
        self.feed(name, Transfer(self.request(), ReplicaId(target) if target else None))

    def do_change(self, name: str, voters: str, *words: str) -> None:
        learners = tuple(ReplicaId(peer) for word in words if word != "single" for peer in word.split(","))
        goal = Goal(tuple(ReplicaId(peer) for peer in voters.split(",")), learners, single="single" in words)
        self.feed(name, ChangeMembers(self.request(), goal))

    def do_full(self, name: str, state: str) -> None:
        self.feed(name, DiskFull(full=state == "yes"))

    def do_recover(self, term: str, *names: str) -> None:
        survivors = tuple((ReplicaId(name), self._core(name).ground.last) for name in names)
        for name in names:
            self.feed(name, RecoverQuorum(self.request(), 1, Epoch(int(term)), survivors))

    def do_image(self, name: str, size: str) -> None:
        actor, data = self.actors[name], bytes(int(size))
        image = make_image(self._core(name), self._core(name).ground.progress.applied, data, crc32(data))
        actor.store.keep_image(image, data)
        self.feed(name, ImageKept(image))

    # ---- showing -----------------------------------------------------------------------------------------------

    def do_logs(self) -> None:
        for name, actor in self.actors.items():
            base, runs = actor.store.epochs.base, []
            for run in actor.store.epochs.runs:
                end = actor.store.epochs.end_of(run.epoch, actor.store.end)
                count = len(actor.store.records(run.after, end))
                runs.append(f"{run.epoch} x{count} to {end}")
            above = f" above {say_point(base)}" if base.position else ""
            self._say(f"{name}{above}: {', '.join(runs) or 'empty'}")

    def do_status(self) -> None:
        for name, actor in self.actors.items():
            if actor.core is None:
                self._say(f"{name} down")
                continue
            ground = actor.core.ground
            self._say(
                f"{name} {actor.core.role.value} term {ground.term} vote {ground.hard.vote or '-'} last "
                f"{say_point(ground.last)} durable {ground.durable.position} commit {ground.progress.commit}"
            )

    def do_members(self) -> None:
        for name, actor in self.actors.items():
            if actor.core is not None:
                self._say(f"{name} {say_configuration(actor.core.ground.members.current)}")

    def _say(self, line: str) -> None:
        if not self.quiet:
            self.lines.append(line)

    # ---- the shell ---------------------------------------------------------------------------------------------

    def _core(self, name: str) -> RaftCore:
        core = self.actors[name].core
        if core is None:
            raise AssertionError(f"{name} is down")
        return core

    def feed(self, name: str, event: Input) -> None:
        actor = self.actors[name]
        if actor.core is not None:
            self._carry_out(actor, actor.core.step(event, self.now))

    def _carry_out(self, actor: Actor, output: Output) -> None:
        for event in output.events:
            self.lines.append(f"{actor.name} {say_event(event)}")
        for envelope in output.messages:
            self._post(envelope, "")
        if output.flush is not None:
            actor.wanted = output.flush
            actor.held.extend(output.held)
            if actor.holds:
                self._say(f"{actor.name} flush {output.flush} holds {len(actor.held)} messages")
        for answer in output.answers:
            self.lines.append(f"{actor.name} {say_answer(answer)}")
        if output.load is not None:
            self.lines.append(f"{actor.name} loads the image of {say_point(output.load.point)}")
            self.feed(actor.name, Applied(output.load.point.position))
        if output.apply_to is not None:
            self._say(f"{actor.name} applies to {output.apply_to}")
            self.feed(actor.name, Applied(output.apply_to))


def _matches(link: str, envelope: Envelope) -> bool:
    sender, _, to = link.partition(">")
    return sender in ("*", envelope.sender) and to in ("*", envelope.to)
