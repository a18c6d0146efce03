"""Bits that flip in a replica's log, below its file system, where nobody is told.

Whatever a client gets is what was sent; the replica finds the damage when it reads, ships or looks through its log,
fetches what is damaged from another one, and holds again what all others hold, byte for byte (P21 of the fault plan).
"""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from logherd.model.record import RecordError
from logherd.store.damage_note import DAMAGE_NOTE
from logherd.store.files_os import OsFiles
from logherd.store.mending import replica_checkpoint
from logherd.store.scan import Scanned, read_record, scan_records
from system.blocking import BlockingClient, NoAnswerError
from system.broker_groups import BROKER_PORT, BROKERS, BrokerNode
from system.controllers import CLIENTS
from system.faults import UnprovedFault, prove_within
from system.group_load import TOPIC
from system.group_rounds import Round, Shape

__all__ = ["ROT_SHAPES"]

_NOTICED = ("damage met", "this replica heals: it takes no part in its group until its log is whole")
_HEALED = "the log is whole again"
_ANY_SECONDS = 600.0
"""A replica looks through its log with a small share of a processor that may be busy."""


@dataclass(slots=True)
class _Flip:
    """One bit of a whole record that is committed, in a file of a broker's log. `whole`: the record as it was."""

    node: BrokerNode
    path: Path
    at: int
    record: Scanned
    whole: bytes
    noticed_before: int = field(init=False)
    healed_before: int = field(init=False)

    def __post_init__(self) -> None:
        self.noticed_before, self.healed_before = self._times(*_NOTICED), self._times(_HEALED)

    def inject(self, byte: int, bit: int) -> None:
        with self.path.open("r+b") as file:
            file.seek(self.at + byte)
            (was,) = file.read(1)
            file.seek(self.at + byte)
            file.write(bytes((was ^ 1 << bit,)))
            file.flush()
            os.fsync(file.fileno())

    def prove(self) -> None:
        """What is on the disk is another record now, or rather none."""
        found = self._bytes()
        try:
            read_record(memoryview(found), 0, self.record.position, 0)
        except RecordError:
            return
        raise UnprovedFault(f"{self.node.name}: bytes {'are' if found == self.whole else 'differ and are'} a record")

    @property
    def gone(self) -> bool:
        """Whether retention took it, and the damage with it."""
        return not self.path.exists()

    def noticed(self) -> bool:
        return self.gone or self._times(*_NOTICED) > self.noticed_before

    def await_healed(self) -> None:
        """The replica says that it has mended its log, and its disk holds what it held."""
        name = self.node.name
        prove_within(_ANY_SECONDS, f"{name} finds the flipped bit", self.noticed)
        if not self.gone:
            prove_within(_ANY_SECONDS, f"{name} heals", lambda: self._times(_HEALED) > self.healed_before)
            prove_within(60, f"{name} holds no note of damage", lambda: not (self.node.data / DAMAGE_NOTE).exists())
        prove_within(_ANY_SECONDS, f"{name} holds the record again", lambda: self.gone or self._bytes() == self.whole)

    def _bytes(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                file.seek(self.at)
                return file.read(self.record.size)
        except FileNotFoundError:
            return b""

    def _times(self, *messages: str) -> int:
        return sum(len(self.node.log_events(message)) for message in messages)


def _flip(r: Round, name: str, end: int, *, closed: bool, wanted: Callable[[Scanned], bool] = lambda _: True) -> _Flip:
    """Flip a drawn bit of a drawn record below `end`; of a segment that is not written any more, if `closed`."""
    node = r.group.brokers[name]
    files = [(int(path.name), path) for path in (node.data / "commitlog").iterdir() if path.name.isdecimal()]
    starts = sorted(start for start, path in files if start < end and (not closed or start + path.stat().st_size < end))
    start = r.draw.choice(starts)
    path = dict(files)[start]
    data = path.read_bytes()
    records = [
        each for each in scan_records(memoryview(data), start, 0, 0)
        if isinstance(each, Scanned) and each.position + each.size <= end and wanted(each)
    ]  # fmt: skip
    record = r.draw.choice(records)
    at = record.position - start
    flip = _Flip(node, path, at, record, data[at : at + record.size])
    byte, bit = r.draw.randrange(record.size), r.draw.randrange(8)
    print(f"bit {bit} of byte {byte} of {record.topic.decode()} at {record.position} of {name}", end=", ", flush=True)
    flip.inject(byte, bit)
    flip.prove()
    return flip


def _flip_in_leader(r: Round, *, wanted: Callable[[Scanned], bool] = lambda _: True) -> _Flip:
    """In a segment that the leader has ended, and may ship or be asked for."""
    node = r.group.brokers[r.leader]

    def committed() -> int:
        return int((r.group.ask(r.leader).get("applied") or (0, 0))[1])

    def has_ended_some() -> bool:
        paths = [path for path in (node.data / "commitlog").iterdir() if path.name.isdecimal()]
        ended = [path for path in paths if int(path.name) + path.stat().st_size < committed()]
        return bool(ended)

    prove_within(_ANY_SECONDS, f"{r.leader} has ended a segment", has_ended_some)
    return _flip(r, r.leader, committed(), closed=True, wanted=wanted)


def _of_dead_follower(r: Round) -> None:
    node = r.group.brokers[r.follower]
    node.kill()
    r.goes_on()
    committed = replica_checkpoint(OsFiles(), str(node.data)).committed or 0
    flip = _flip(r, r.follower, committed, closed=False)
    node.start()
    flip.await_healed()


def _read_from_leader(r: Round) -> None:
    """A client asks for exactly that message, any of the brokers: it gets the message or nothing."""
    flip = _flip_in_leader(r, wanted=lambda record: record.topic == TOPIC.encode())

    def asked() -> bool:
        answers = [answer for name in BROKERS if (answer := _asked(r, name, flip.record))]
        served = [answer for answer in answers if answer[: flip.record.size] != flip.whole]
        assert served == [], f"at {flip.record.position} another record was served than was sent"
        return bool(answers)

    def noticed() -> bool:
        asked()
        return flip.noticed()

    prove_within(_ANY_SECONDS, f"{r.leader} is asked for it and finds the flipped bit", noticed)
    if r.bench.mode.static:  # who leads is said by hand
        if r.bench.mode.promotes:
            r.another_leads()
        else:
            assert flip.node.stop() == 0, flip.node.condition()
            flip.node.start()
    flip.await_healed()
    prove_within(_ANY_SECONDS, "the message is there", lambda: flip.gone or asked())


def _asked(r: Round, name: str, record: Scanned) -> bytes:
    """What a broker answers to a pull of this message and those behind it; empty if it is none."""
    network = r.bench.network
    try:
        made = network.doorway(CLIENTS).connect(network.address(name), BROKER_PORT, seconds=5.0)
    except OSError:
        return b""
    client = BlockingClient(BROKER_PORT, made=made)
    try:
        return bytes(client.page(TOPIC, record.queue_id, record.queue_offset).body)
    except NoAnswerError:
        return b""
    finally:
        client.close()


def _shipped_by_leader(r: Round) -> None:
    """A follower has lost everything, and the leader would ship what has changed."""
    flip = _flip_in_leader(r)
    follower = r.group.brokers[r.follower]
    follower.kill()
    shutil.rmtree(follower.data)
    follower.start()
    flip.await_healed()


ROT_SHAPES: Mapping[str, Shape] = {
    "bit of a follower's log flips while it is down": _of_dead_follower,
    "bit of the leader's log flips, and a client reads it": _read_from_leader,
    "bit of the leader's log flips, and a wiped follower needs it": _shipped_by_leader,
}
