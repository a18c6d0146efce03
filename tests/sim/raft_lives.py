"""Lives of one member's log on a simulated disk: changes, batches, crashes at any call, recoveries, crashes in those.

The model keeps what the owner has seen after every change. Whatever is found after a crash must be one of these states,
and none older than what the last finished batch covered: the log, the promise and the image each for itself, since Raft
asks for no order between them. What was found is durable: the next crash must not lose it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from zlib import crc32

from logherd.model.names import Epoch, Position
from logherd.raft.record import Kind
from logherd.raft.store import HardState
from logherd.raftlog import RaftLog, RaftLogOptions
from logherd.raftlog.writer import promises_path
from logherd.replication.epochs import ORIGIN, Point
from logherd.replication.log import Image
from logherd.replication.messages import ClusterId, ReplicaId
from logherd.store.errors import StoreFull, StoreStopped
from sim.disk import SimDisk, SimulatedCrash

__all__ = ["ROOT", "run_life"]

ROOT = "/data/raft"
CLUSTER, SELF = ClusterId("c"), ReplicaId("a.1")
FOUNDING = Image("founding", ORIGIN, 0, 0, 0, b"members")


@dataclass(frozen=True, slots=True)
class State:
    """What the owner saw. `end` with `seal` names every record below it."""

    hard: HardState | None
    end: Position
    seal: int
    base: Position
    image: tuple[Image, bytes] | None


class Life:
    """One seed: a directory from its founding through several processes."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.marks: Counter[str] = Counter()
        self.disk = SimDisk()
        self.disk.make_directory("/data")
        self.disk.sync_dir("/")
        draw = self.draw
        self.options = RaftLogOptions(
            segment_bytes=draw.choice((128, 256, 1024, 8192)),
            record_bytes_max=1024,
            window_bytes=draw.choice((1, 200, 4096)),
            spare_segments=draw.choice((0, 1, 2)),
            reserve_bytes=0,
            mark_bytes=draw.choice((1, 500, 10_000)),
        )
        self.states = [State(None, Position(0), 0, Position(0), None)]
        self.promised = 0
        self.log: RaftLog | None = None
        self.was_full = False

    # ---- what the owner does -----------------------------------------------------------------------------------

    @property
    def open_log(self) -> RaftLog:
        assert self.log is not None
        return self.log

    def see(self) -> None:
        log = self.open_log
        image = log.image()
        data = None if image is None else (image, log.image_chunk(image, 0, image.size) or b"")
        base, hard = log.epochs.base.position, log.hard_state()
        hard = hard and replace(hard, doubtful=False)
        self.states.append(State(hard, log.end, log.seal_at(log.end), base, data))

    def found(self) -> None:
        log = self.open_log
        log.keep_hard_state(HardState(CLUSTER, SELF))
        log.keep_image(FOUNDING, b"")
        self.see()

    def term(self) -> Epoch:
        hard = self.open_log.hard_state()
        assert hard is not None
        return max(hard.term, self.open_log.epochs.last_epoch)

    def append(self) -> None:
        for _ in range(self.draw.randint(1, 5)):
            body = self.draw.randbytes(self.draw.choice((0, 3, 20, 60, 200, 900)))
            self.open_log.append(Kind.DATA, self.term(), body)
            self.see()

    def vote(self) -> None:
        vote = self.draw.choice((None, SELF, ReplicaId("b.1")))
        self.open_log.keep_hard_state(HardState(CLUSTER, SELF, Epoch(self.term() + 1), vote))
        self.see()

    def ends(self) -> list[Position]:
        log, image = self.open_log, self.open_log.image()
        low = image.point.position if image else log.epochs.base.position
        return [low, *(record.end for record in log.records(low, log.end))]

    def cut(self) -> None:
        self.open_log.truncate(self.draw.choice(self.ends()))
        self.see()
        self.vote()

    def image(self) -> None:
        log = self.open_log
        at, data = self.draw.choice(self.ends()), self.draw.randbytes(self.draw.choice((0, 10, 900)))
        before = log.image()
        image = Image(f"own {at} {crc32(data)}", log.epochs.point_at(at), log.seal_at(at), crc32(data), len(data), b"n")
        log.keep_image(image, data)
        self.see()
        if before is not None and before.point.position > log.epochs.base.position:
            log.compact(before.point.position)
            self.see()

    def copy(self) -> None:
        """An image of the leader: mostly far ahead, sometimes of this very log."""
        log, data = self.open_log, self.draw.randbytes(self.draw.choice((0, 10, 900)))
        if self.draw.random() < 0.3:
            point = log.epochs.point_at(self.draw.choice(self.ends()))
            seal = log.seal_at(point.position)
        else:
            low = self.ends()[0]
            point = Point(Epoch(self.term() + 1), Position(low + self.draw.choice((1, 40, 300, 5_000))))
            seal = self.draw.getrandbits(32)
        image = Image(f"copy {point} {crc32(data)}", point, seal, crc32(data), len(data), b"n")
        half = len(data) // 2
        log.stage(image, 0, data[:half])
        log.stage(image, half, data[half:])
        log.install(image)
        self.see()
        if log.epochs.last_epoch > self.term():
            self.vote()

    # ---- what the writer does ----------------------------------------------------------------------------------

    def flush(self) -> None:
        batch, upto = self.open_log.take_batch(0), len(self.states) - 1
        if self.draw.random() < 0.05:
            self.disk.capacity = self.disk.used() + self.draw.choice((0, 100, 3_000))
            self.was_full = True
        try:
            batch.write_and_flush()
        except StoreFull:
            self.marks["no space"] += 1
            self.disk.capacity = 1 << 30
            batch.write_and_flush()
        self.marks["full"] += self.open_log.full
        self.disk.capacity = 1 << 30
        self.promised = upto
        self.marks["flushes"] += 1

    def tend(self) -> None:
        self.open_log.tend()

    def act(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            (8, self.append), (2, self.vote), (2, self.cut), (2, self.image), (1, self.copy), (6, self.flush),
            (2, self.tend),
        ]  # fmt: skip
        self.draw.choices([action for _, action in actions], [weight for weight, _ in actions])[0]()

    # ---- processes ---------------------------------------------------------------------------------------------

    def live(self) -> None:
        """One process, until it crashes."""
        self.disk.crash_after(self.draw.randint(1, self.draw.choice((30, 100, 300))))
        if self.draw.random() < 0.15:
            self.disk.failing_flush = self.draw.randrange(8)
        try:
            self.log = RaftLog.open(self.disk, ROOT, self.options)
            self.check()
            if self.open_log.hard_state() is None:
                self.found()
            for _ in range(self.draw.randint(0, 40)):
                self.act()
            self.flush()
        except SimulatedCrash:
            self.marks["crashed while recovering"] += self.log is None
        except StoreStopped:
            self.marks["stopped by a failed flush"] += 1
            self.must_stay_stopped()
        except OSError:
            self.marks["a flush failed while opening"] += 1
        power = self.draw.random() < 0.7
        self.disk = self.disk.crash(self.draw, power=power, fine=(promises_path(ROOT),))
        self.disk.capacity = 1 << 30
        self.log = None
        self.marks["power lost" if power else "process died"] += 1
        self.marks["states"] += 1

    def must_stay_stopped(self) -> None:
        self.disk.crash_after(None)
        for action in (self.open_log.take_batch(0).write_and_flush, self.open_log.tend):
            try:
                action()
            except StoreStopped:
                continue
            raise AssertionError("a stopped log went on")

    def check(self) -> None:
        log = self.open_log
        for row in log.recovered.rows:
            self.marks[row] += 1
        self.marks["doubtful"] += log.recovered.doubtful
        found_from = len(self.states)
        self.see()
        found, known = self.states[-1], self.states[self.promised : found_from]
        latest = known[-1]
        assert any(found.hard == state.hard for state in known), f"promise: {found.hard} of {latest.hard}"
        log_known = any((found.end, found.seal) == (state.end, state.seal) for state in known)
        if found.hard is None:
            assert known[0].hard is None, "promise: forgotten"
        else:
            assert log_known, f"log: {found.end} of {[state.end for state in known]}"
            # An own image that finds no space is left out, so an older one may be the newest.
            images = self.states[:found_from] if self.was_full else known
            assert any(found.image == state.image for state in images), "image: not one that was kept"
            assert found.base <= max(state.base for state in known), "base: beyond what was dropped"
            assert found.base >= known[0].base or self.was_full, "base: dropped records are back"
        records = log.records(found.base, found.end)
        assert (records[-1].end if records else found.base) == found.end, "log: a hole"
        self.states, self.promised, self.was_full = [found], 0, False


def run_life(seed: int) -> Counter[str]:
    """Raises AssertionError naming what was broken."""
    life = Life(seed)
    for _ in range(life.draw.randint(2, 8)):
        life.live()
    life.disk.crash_after(None)
    life.log = RaftLog.open(life.disk, ROOT, life.options)
    life.check()
    life.log.close()
    return life.marks
