"""Idempotent writers: a chunk is stored once, by the newest run, in order, whatever dies in between (H19)."""

import shutil
from hashlib import blake2b
from pathlib import Path

import pytest

from logherd.model.topic import TopicConfig
from logherd.service.metadata import ChunkStored, Metadata, MetadataOptions, WriterPut
from logherd.service.producers import WriterOptions
from logherd.store.errors import StoreFull
from logherd.wire.batch import BatchMessage, encode_batch
from logherd.wire.codes import ResponseCode
from logherd.wire.frame import Frame
from unit.service.client_fakes import FakeClock
from unit.service.memory_log import MemoryLog
from unit.service.rig import Rig, short_header

OPEN, CHUNK, COUNT, CLOSE = 27020, 27021, 27022, 27023
FENCED, UNKNOWN, CONFLICT, OUT_OF_ORDER = (
    ResponseCode.WRITER_FENCED, ResponseCode.WRITER_UNKNOWN, ResponseCode.WRITER_CONFLICT,
    ResponseCode.WRITER_OUT_OF_ORDER,
)  # fmt: skip


def batch(*bodies: str) -> bytes:
    return encode_batch(BatchMessage(0, body.encode(), f"KEYS\x01{body}\x02".encode()) for body in bodies)


def opened(rig: Rig, run: str = "run-1", writer: str = "w", *, lasting: bool = True) -> int:
    answer = rig.ask(OPEN, {"writer": writer, "run": run, "lasting": "true" if lasting else "false"})
    assert answer.code == 0, answer.remark
    return int(answer.ext["writerEpoch"])


def chunk(
    rig: Rig, sequence: int, body: bytes, *, epoch: int = 1, part: int = 0, generation: int = 0, queue: int = 0,
    writer: str = "w", topic: str = "orders",
) -> Frame:  # fmt: skip
    fields = {
        "writer": writer, "writerEpoch": epoch, "part": part, "generation": generation, "sequence": sequence,
        "digest": blake2b(body, digest_size=16).hexdigest(), "topic": topic, "queueId": queue,
        "bornTimestamp": 1_700_000_000_000,
    }  # fmt: skip
    return rig.ask(CHUNK, fields, body)


def bodies(rig: Rig, queue: int = 0) -> list[str]:
    return [bytes(record.body).decode() for record in rig.records("orders", queue)]


def started(directory: Path, options: WriterOptions | None = None, metadata: MetadataOptions | None = None) -> Rig:
    rig = Rig(directory, writers=options, metadata=metadata)
    rig.metadata.topics.put(TopicConfig("orders", 4, 4))
    rig.end_pass()
    return rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return started(tmp_path)


def test_a_chunk_is_stored_once_however_often_it_comes(rig: Rig) -> None:
    opened(rig)
    first = chunk(rig, 0, batch("a", "b", "c"))
    again = chunk(rig, 0, batch("a", "b", "c"))
    assert (first.code, first.ext) == (0, {"queueOffsets": "0+3", "repeated": "false"})
    assert (again.code, again.ext) == (0, {"queueOffsets": "0+3", "repeated": "true"})
    assert bodies(rig) == ["a", "b", "c"]
    properties = rig.records("orders")[1].properties.decode()
    assert "UNIQ_KEY\x01" not in properties, "a row's queue and offset tell it apart"
    assert "KEYS\x01b\x02" in properties


def test_every_chunk_of_the_generation_is_recognised_not_only_the_last(rig: Rig) -> None:
    opened(rig)
    for sequence in range(5):
        assert chunk(rig, sequence, batch(f"m{sequence}")).code == 0
    for sequence in range(5):
        assert chunk(rig, sequence, batch(f"m{sequence}")).ext == {
            "queueOffsets": f"{sequence}+1",
            "repeated": "true",
        }
    assert bodies(rig) == [f"m{n}" for n in range(5)]


def test_a_chunk_with_other_content_is_refused_and_named(rig: Rig) -> None:
    opened(rig)
    chunk(rig, 0, batch("a"))
    answer = chunk(rig, 0, batch("b"))
    assert answer.code == CONFLICT
    assert "chunk 0 of generation 0 was stored with other content" in (answer.remark or "")
    assert bodies(rig) == ["a"]


def test_sequences_are_strictly_next_for_each_part_and_queue(rig: Rig) -> None:
    opened(rig)
    assert chunk(rig, 1, batch("x")).code == OUT_OF_ORDER
    assert chunk(rig, 0, batch("a")).code == 0
    assert "2 of generation 0 came, 1 is the next" in (chunk(rig, 2, batch("x")).remark or "")
    assert chunk(rig, 0, batch("b"), queue=1).code == 0
    assert chunk(rig, 0, batch("c"), part=1).code == 0
    assert (bodies(rig, 0), bodies(rig, 1)) == (["a", "c"], ["b"])


def test_a_generation_ends_the_one_before(rig: Rig) -> None:
    opened(rig)
    chunk(rig, 0, batch("a"), generation=4)
    assert chunk(rig, 0, batch("b"), generation=5).code == 0
    answer = chunk(rig, 0, batch("a"), generation=4)
    assert (answer.code, "generation 4 is over, 5 has begun" in (answer.remark or "")) == (OUT_OF_ORDER, True)
    assert rig.metadata.writers.chunk_count == 1


def test_an_older_run_is_fenced_by_name_also_when_it_asks_again(rig: Rig) -> None:
    assert opened(rig, "run-1") == 1
    assert opened(rig, "run-1") == 1
    assert opened(rig, "run-2") == 2
    answer = chunk(rig, 0, batch("a"), epoch=1)
    assert answer.code == FENCED
    assert "writer w was opened by a newer run (epoch 2)" in (answer.remark or "")
    assert rig.ask(OPEN, {"writer": "w", "run": "run-1"}).code == FENCED
    assert chunk(rig, 0, batch("a"), epoch=2).code == 0
    assert chunk(rig, 1, batch("b"), epoch=3).code == ResponseCode.INVALID_PARAMETER
    assert bodies(rig) == ["a"]


def test_a_newer_run_continues_where_the_older_one_was(rig: Rig) -> None:
    opened(rig, "run-1")
    chunk(rig, 0, batch("a"))
    opened(rig, "run-2")
    assert chunk(rig, 0, batch("a"), epoch=2).ext["repeated"] == "true"
    assert chunk(rig, 1, batch("b"), epoch=2).ext["queueOffsets"] == "1+1"


def test_a_writer_that_is_not_known_is_refused(rig: Rig) -> None:
    answer = chunk(rig, 0, batch("a"))
    assert (answer.code, "it was never opened" in (answer.remark or "")) == (UNKNOWN, True)
    assert bodies(rig) == []


def test_an_expired_writer_is_refused_and_not_started_at_zero(tmp_path: Path) -> None:
    rig = started(tmp_path, WriterOptions(expire_ms=1000))
    opened(rig)
    chunk(rig, 0, batch("a"))
    rig.clock.advance(1001)
    late = chunk(rig, 1, batch("b"))
    assert (late.code, "writer w expired" in (late.remark or "")) == (UNKNOWN, True)
    assert rig.ask(OPEN, {"writer": "w", "run": "run-2"}).code == UNKNOWN
    for each in (rig, rig := rig.restart()):
        [(_, writer)] = each.metadata.writers
        assert (writer.streams, each.metadata.writers.chunk_count) == ({}, 0), "only that there was one is remembered"
    assert rig.ask(OPEN, {"writer": "w", "run": "run-3"}).code == UNKNOWN
    assert bodies(rig) == ["a"]


def test_a_run_that_stores_does_not_expire(tmp_path: Path) -> None:
    rig = started(tmp_path, WriterOptions(expire_ms=1000))
    opened(rig)
    for sequence in range(3):
        rig.clock.advance(600)
        assert chunk(rig, sequence, batch("a")).code == 0


def test_a_run_that_asks_again_and_again_does_not_expire_where_it_has_nothing_to_write(tmp_path: Path) -> None:
    """As a stream whose rows all go to another group for some weeks: every commit asks this one, too."""
    rig = started(tmp_path, WriterOptions(expire_ms=1000))
    opened(rig)
    for _ in range(8):
        rig.clock.advance(400)
        assert opened(rig) == 1
    assert chunk(rig, 0, batch("a")).code == 0
    end = rig.store.end_position
    assert opened(rig) == 1
    assert rig.store.end_position == end, "an answer that changes nothing is not written down"
    rig.clock.advance(1001)
    assert rig.ask(OPEN, {"writer": "w", "run": "run-1"}).code == UNKNOWN


def test_a_writer_that_will_not_come_again_is_forgotten_when_it_closes(rig: Rig) -> None:
    opened(rig, lasting=False)
    chunk(rig, 0, batch("a"))
    assert rig.ask(CLOSE, {"writer": "w", "writerEpoch": 1}).code == 0
    assert rig.ask(CLOSE, {"writer": "w", "writerEpoch": 1}).code == 0
    for each in (rig, rig.restart()):
        assert (len(each.metadata.writers), each.metadata.writers.chunk_count) == (0, 0)
        assert chunk(each, 1, batch("b")).code == UNKNOWN


def test_everything_is_known_after_a_restart_from_records_alone(rig: Rig) -> None:
    opened(rig)
    for sequence in range(3):
        chunk(rig, sequence, batch(f"m{sequence}", "x"))
    rig = rig.restart()
    assert chunk(rig, 1, batch("m1", "x")).ext == {"queueOffsets": "2+2", "repeated": "true"}
    assert chunk(rig, 1, batch("other")).code == CONFLICT
    assert chunk(rig, 3, batch("m3")).ext == {"queueOffsets": "6+1", "repeated": "false"}


def test_everything_is_known_after_a_restart_from_a_snapshot(tmp_path: Path) -> None:
    rig = started(tmp_path, metadata=MetadataOptions(change_bytes=1))
    opened(rig)
    for sequence in range(450):
        chunk(rig, sequence, batch(f"m{sequence}"))
    for _ in range(20):
        rig.end_pass()
    assert rig.metadata.pinned_position > 0
    rig = rig.restart()
    for sequence in (0, 199, 200, 449):
        assert chunk(rig, sequence, batch(f"m{sequence}")).ext["queueOffsets"] == f"{sequence}+1"
    assert chunk(rig, 450, batch("new")).ext["repeated"] == "false"
    assert rig.metadata.writers.chunk_count == 451


def promise(rig: Rig) -> bytes:
    """What the store has promised to have on the disk by now."""
    return (rig.directory / "checkpoint").read_bytes()


def crashed_at(rig: Rig, position: int, promised: bytes, target: Path) -> Rig:
    """What a start finds when only the bytes below `position` had reached the disk."""
    shutil.copytree(rig.directory, target)
    (target / "checkpoint").write_bytes(promised)
    [segment] = [path for path in (target / "commitlog").iterdir() if path.name.isdigit()]
    with segment.open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(position)
        file.write(bytes(size - position))
    return Rig(target)


@pytest.mark.parametrize("kept", range(6))
def test_a_chunk_in_which_the_log_was_cut_is_completed_when_it_comes_again(tmp_path: Path, kept: int) -> None:
    rig = started(tmp_path / "before")
    opened(rig)
    chunk(rig, 0, batch("first"))
    whole = batch("a", "b", "c", "d", "e")
    before, promised = rig.store.end_position, promise(rig)
    chunk(rig, 1, whole)
    records = [record.position for record in rig.records("orders")[1:]]
    cut_at = [*records, rig.store.end_position][kept]
    assert before < cut_at
    for path, steps in (("at once", 0), ("after two starts", 2)):
        again = crashed_at(rig, cut_at, promised, tmp_path / path)
        assert bodies(again) == ["first", *"abcde"[:kept]]
        for _ in range(steps):
            again = again.restart()
        assert again.ask(310, short_header("orders"), b"other").code == 0
        answer = chunk(again, 1, whole)
        if kept == 5:
            assert answer.ext == {"queueOffsets": "1+5", "repeated": "true"}
        else:
            head = [f"1+{kept}"] if kept else []
            runs = ",".join([*head, f"{kept + 2}+{5 - kept}"])
            assert answer.ext == {"queueOffsets": runs, "repeated": "false"}
        assert bodies(again) == ["first", *"abcde"[:kept], "other", *"abcde"[kept:]]
        again = again.restart()
        repeated = chunk(again, 1, whole)
        assert (repeated.ext["queueOffsets"], repeated.ext["repeated"]) == (answer.ext["queueOffsets"], "true")


@pytest.mark.parametrize("kept", range(4))
def test_messages_of_a_topic_before_its_deletion_are_not_taken_for_those_of_a_chunk(tmp_path: Path, kept: int) -> None:
    """Deriving queues from the log brings them back, and a chunk may stand in their place since."""
    rig = started(tmp_path / "before")
    for _ in range(5):
        rig.ask(310, short_header("orders"), b"of a former life")
    rig.metadata.topics.delete("orders")
    rig.store.delete_topic("orders")
    rig.metadata.topics.put(TopicConfig("orders", 4, 4))
    opened(rig)
    promised = promise(rig)
    whole = batch("a", "b", "c")
    chunk(rig, 0, whole)
    cut_at = [*(record.position for record in rig.records("orders")), rig.store.end_position][kept]
    (rig.directory / "queues").unlink()
    again = crashed_at(rig, cut_at, promised, tmp_path / "after")
    assert bodies(again) == [*"abc"[:kept]]
    assert chunk(again, 0, whole).ext["repeated"] == ("true" if kept == 3 else "false")
    assert bodies(again) == [*"abc"]


def test_an_announcement_that_the_cut_took_along_leaves_nothing(tmp_path: Path) -> None:
    rig = started(tmp_path / "before")
    opened(rig)
    before, promised = rig.store.end_position, promise(rig)
    chunk(rig, 0, batch("a", "b"))
    again = crashed_at(rig, before, promised, tmp_path / "after")
    assert bodies(again) == []
    assert chunk(again, 0, batch("other")).ext == {"queueOffsets": "0+1", "repeated": "false"}


def test_a_cut_chunk_must_be_completed_before_the_next(tmp_path: Path) -> None:
    rig = started(tmp_path / "before")
    opened(rig)
    promised = promise(rig)
    chunk(rig, 0, batch("a", "b"))
    again = crashed_at(rig, rig.records("orders")[1].position, promised, tmp_path / "after")
    answer = chunk(again, 1, batch("c"))
    assert (answer.code, "0 is the next" in (answer.remark or "")) == (OUT_OF_ORDER, True)


def test_h19_an_epoch_is_granted_and_an_end_is_told_only_when_it_is_durable(rig: Rig) -> None:
    """Else the next leader could grant the same epoch to another run, or remember a writer that has ended."""
    asked = {"writer": "w", "run": "run-1", "lasting": "false", "writerEpoch": 1}
    for codes in ([OPEN, OPEN], [CLOSE]):  # whoever asks again hears of a grant no sooner
        waits = [rig.request(code, asked) for code in codes]
        assert {each.position for each in waits} == {rig.store.end_position}  # type: ignore[union-attr]
        assert rig.store.end_position > rig.store.committed_position
        rig.end_pass()


def test_a_repeat_is_not_answered_before_the_original_is_durable(rig: Rig) -> None:
    opened(rig)
    body = batch("a")
    fields = {
        "writer": "w", "writerEpoch": 1, "part": 0, "generation": 0, "sequence": 0,
        "digest": blake2b(body, digest_size=16).hexdigest(), "topic": "orders", "queueId": 0, "bornTimestamp": 1,
    }  # fmt: skip
    first, again, count = rig.request(CHUNK, fields, body), rig.request(CHUNK, fields, body), rig.request(COUNT, fields)
    assert first.position == again.position == rig.store.end_position > rig.store.committed_position  # type: ignore[union-attr]
    assert count.position == rig.store.end_position, "nor is it counted before"  # type: ignore[union-attr]


def test_what_a_log_had_when_its_leader_began_is_not_told_before_that_ones_epoch_is_durable(rig: Rig) -> None:
    opened(rig)
    body = batch("a")
    chunk(rig, 0, body)
    rig = rig.restart()
    fields = {
        "writer": "w", "writerEpoch": 1, "part": 0, "generation": 0, "sequence": 0,
        "digest": blake2b(body, digest_size=16).hexdigest(), "topic": "orders", "queueId": 0, "bornTimestamp": 1,
    }  # fmt: skip
    for answer in (rig.request(CHUNK, fields, body), rig.request(COUNT, fields)):
        assert answer.position == rig.metadata.writers.floor > 0  # type: ignore[union-attr]


def test_a_full_disk_leaves_no_announcement_without_messages(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(rig)
    with monkeypatch.context() as patch:
        patch.setattr(type(rig.store), "append_all", _full)
        assert chunk(rig, 0, batch("a", "b")).code == ResponseCode.SERVICE_NOT_AVAILABLE
    rig = rig.restart()
    assert bodies(rig) == []
    assert chunk(rig, 0, batch("a", "b")).ext == {"queueOffsets": "0+2", "repeated": "false"}
    assert bodies(rig) == ["a", "b"]


@pytest.mark.parametrize("restarted", [False, True])
def test_an_announcement_that_was_withdrawn_is_never_taken_for_messages_of_another_chunk(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    """Only the last chunk in the log is counted again at a start; of this one the log says that it is not there."""
    opened(rig)
    with monkeypatch.context() as patch:
        patch.setattr(type(rig.store), "append_all", _full)
        assert chunk(rig, 0, batch("a", "b")).code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert chunk(rig, 0, batch("c", "d", "e"), part=1).ext == {"queueOffsets": "0+3", "repeated": "false"}
    if restarted:
        rig = rig.restart()
    assert rig.ask(COUNT, {"writer": "w", "writerEpoch": 1, "generation": 0}).ext == {"chunks": "2", "messages": "3"}
    assert chunk(rig, 1, batch("f")).code == OUT_OF_ORDER
    assert chunk(rig, 0, batch("a", "b")).ext == {"queueOffsets": "3+2", "repeated": "false"}
    assert bodies(rig) == ["c", "d", "e", "a", "b"]


def _full(*_: object, **__: object) -> None:
    raise StoreFull("no space")


def test_a_deleted_topic_takes_its_sequences_along(rig: Rig) -> None:
    opened(rig)
    chunk(rig, 0, batch("a"))
    rig.metadata.topics.delete("orders")
    rig.store.delete_topic("orders")
    rig.metadata.topics.put(TopicConfig("orders", 4, 4))
    rig.end_pass()
    for each in (rig, rig.restart()):
        assert chunk(each, 1, batch("b")).code == OUT_OF_ORDER
        assert each.metadata.writers.chunk_count == 0
        [(_, writer)] = each.metadata.writers
        assert writer.streams == {}, "a start looks for no messages of it either"


def test_the_count_tells_what_earlier_runs_stored_in_a_generation(rig: Rig) -> None:
    opened(rig)
    chunk(rig, 0, batch("a", "b"))
    chunk(rig, 0, batch("c"), part=1, queue=2)
    chunk(rig, 0, batch("d"), part=2, generation=1)
    answer = rig.ask(COUNT, {"writer": "w", "writerEpoch": 1, "generation": 0})
    assert answer.ext == {"chunks": "2", "messages": "3"}


def test_a_body_that_is_not_what_its_digest_says_is_refused(rig: Rig) -> None:
    opened(rig)
    fields = {
        "writer": "w", "writerEpoch": 1, "part": 0, "generation": 0, "sequence": 0, "digest": "00",
        "topic": "orders", "queueId": 0, "bornTimestamp": 1,
    }  # fmt: skip
    assert rig.ask(CHUNK, fields, batch("a")).code == ResponseCode.MESSAGE_ILLEGAL
    assert bodies(rig) == []


def test_a_chunk_may_be_as_large_as_a_message(tmp_path: Path) -> None:
    body = batch("a", "b")
    for bytes_max, code in ((len(body), 0), (len(body) - 1, ResponseCode.MESSAGE_ILLEGAL)):
        rig = Rig(tmp_path / str(bytes_max), sends={"body_bytes_max": bytes_max})
        rig.metadata.topics.put(TopicConfig("orders", 4, 4))
        opened(rig)
        assert chunk(rig, 0, body).code == code


def test_what_is_remembered_is_bounded(tmp_path: Path) -> None:
    rig = started(tmp_path, WriterOptions(chunks_max=2, writers_max=2, expire_ms=1000))
    opened(rig, writer="w")
    assert [chunk(rig, n, batch(f"m{n}")).code for n in range(3)] == [0, 0, ResponseCode.SYSTEM_BUSY]
    opened(rig, writer="v")
    assert rig.ask(OPEN, {"writer": "u", "run": "r"}).code == ResponseCode.SYSTEM_BUSY
    rig.clock.advance(100_000)
    assert rig.ask(OPEN, {"writer": "u", "run": "r"}).code == 0
    assert len(rig.metadata.writers) == 2


@pytest.mark.parametrize(
    ("topic", "queue", "code"), [("nothing", 0, 17), ("orders", 9, 29), ("orders", -1, 29), ("%RETRY%g", 0, 17)]
)
def test_chunks_make_no_topics_and_go_to_queues_that_exist(rig: Rig, topic: str, queue: int, code: int) -> None:
    opened(rig)
    assert chunk(rig, 0, batch("a"), topic=topic, queue=queue).code == code


@pytest.mark.parametrize("present", range(4))
def test_a_replica_that_is_elected_counts_what_it_has_of_the_last_chunk(present: int) -> None:
    log, clock = MemoryLog(), FakeClock()
    leader = Metadata.open(log, clock)
    leader.writers.put(WriterPut("w", 1, "run", [], lasting=True, expired=False, used_ms=0))
    leader.writers.announce(ChunkStored("w", 0, "orders", 0, 0, 0, "digest", 0, 10, 3, 0))
    follower = Metadata.follow(log, clock, committed=0)
    log.ends["orders", 0] = 10 + present
    end = follower.promote(2)
    log.commit()
    log.ends["orders", 0] = 100
    for metadata in (follower, Metadata.follow(log, clock, committed=end), Metadata.open(log, clock)):
        writer = metadata.writers.get("w")
        assert writer is not None
        [chunk_there] = writer.streams[0, "orders", 0].chunks
        assert (chunk_there.total, chunk_there.present) == (3, present)
    assert follower.writers.floor == end


def test_a_leader_that_steps_down_forgets_chunks_and_writers_that_were_not_committed() -> None:
    log, clock = MemoryLog(), FakeClock()
    leader = Metadata.open(log, clock)
    leader.writers.put(WriterPut("w", 1, "run", [], lasting=True, expired=False, used_ms=0))
    log.commit()
    change = ChunkStored("w", 0, "orders", 0, 0, 0, "digest", 0, 0, 3, 0)
    leader.writers.announce(change)
    leader.writers.stored(change, log.end_position)
    leader.writers.put(WriterPut("v", 1, "run", [], lasting=True, expired=False, used_ms=0))
    leader.demote()
    writer = leader.writers.get("w")
    assert writer is not None
    assert (writer.streams, leader.writers.chunk_count, leader.writers.get("v")) == ({}, 0, None)


def test_what_a_cut_left_of_a_chunk_waits_for_no_position_of_the_log_before() -> None:
    """The announcement was committed, of the messages one, and the same replica leads again."""
    log, clock = MemoryLog(), FakeClock()
    leader = Metadata.open(log, clock)
    leader.writers.put(WriterPut("w", 1, "run", [], lasting=True, expired=False, used_ms=0))
    change = ChunkStored("w", 0, "orders", 0, 0, 0, "digest", 0, 0, 3, 0)
    leader.writers.announce(change)
    log.commit()
    leader.writers.stored(change, log.end_position + 10_000)
    leader.cut(log.end_position)
    log.ends["orders", 0] = 1
    end = leader.promote(2)
    writer = leader.writers.get("w")
    assert writer is not None
    [chunk_there] = writer.streams[0, "orders", 0].chunks
    assert chunk_there.present == 1
    assert max(chunk_there.end, leader.writers.floor) == end
