"""The same cores over message stores: what replicates is the brokers' own log, segment ends included."""

from dataclasses import replace

from logherd.group.inputs import Input
from logherd.group.output import Output
from logherd.model.names import Epoch, Position
from logherd.replica import ReplicaStore
from logherd.store import MessageStore
from sim.disk import SimDisk
from unit.group.stage import Node, Stage
from unit.store.helpers import HOST, ROOT, SimClock, small_options

SEGMENT = 8192
OPTIONS = replace(small_options(derived={"interval_ms": 0}), replicated=True)


class StoreNode(Node):
    """A replica on a message store. Flushes take no time."""

    log: ReplicaStore  # type: ignore[assignment]

    def write(self, epoch: Epoch, body: bytes) -> Position:
        if epoch > self.log.epochs.last_epoch:
            self.log.begin_epoch(epoch)
        queue = self.log.store.queue("T", 0)
        self.log.store.append(queue, body, b"", born_timestamp=1, born_host=HOST, store_timestamp=1)
        return self.log.end

    def feed(self, event: Input) -> Output:
        output = super().feed(event)
        if output.commit is not None:
            self.log.advance(output.commit)
        return output

    def flush(self) -> None:
        while (batch := self.log.take_batch()) is not None:
            batch.write_and_flush()
            self.log.flushed(batch)
        super().flush()


def stage_of_stores() -> Stage:
    stage = Stage()
    for each in stage.nodes:
        store = MessageStore.open(ROOT, OPTIONS, SimDisk(), clock=SimClock())
        stage.nodes[each] = StoreNode(stage, each, ReplicaStore(store, []))  # type: ignore[arg-type]
    return stage


def test_stores_hold_the_same_bytes_after_a_change_of_leader() -> None:
    stage = stage_of_stores()
    first = stage.run_until_served()
    for number in range(40):
        first.append(b"%d" % number * 300)
        stage.run(1)
    stage.run(300)
    assert first.log.end > SEGMENT
    stage.isolate(first)
    first.append(b"never committed" * 20)
    while stage.leader in (None, first):
        stage.run(1)
    second = stage.run_until_served()
    end = second.append(b"after")
    stage.heal()
    stage.run(3_000)
    stores = [node.log for node in stage.nodes.values()]
    assert {log.end for log in stores} == {end}
    assert {node.committed for node in stage.nodes.values()} == {end}
    assert len({log.epochs for log in stores}) == 1
    assert len(stage.desk.group.sync.members) == 3
    offsets = {log.store.queue("T", 0).max_offset for log in stores}  # type: ignore[attr-defined]
    assert offsets == {40 + 1 + 2}
