"""The parts of the benchmarks that need no processes do what they time, and their tables say what was measured."""

from pathlib import Path

import uvloop
from bench.broker_fleet import FleetSize
from bench.core_cost import Trio, run
from bench.desk_cost import Desk
from bench.heartbeats import report
from bench.log_node import Values
from bench.node_protocol import CAS, FAILED, MISSING, OK, OPERATION, PUT
from bench.raft_log import LOADS, ratios, table
from bench.record_cost import RecordCost
from bench.replicated import aims, beside_the_loads

from logherd.model.names import Epoch, Position
from logherd.raft.record import Kind, encode_record


def test_every_proposal_of_the_core_benchmark_is_decided(tmp_path: Path) -> None:
    trio = Trio(tmp_path)
    parts = run(trio, 3, 64, 30)
    ends = {member.log.end for member in trio.members.values()}
    trio.close()
    assert trio.decided == 30
    assert len(ends) == 1
    assert parts["leader propose"] > 0


def test_both_stores_of_the_record_benchmark_end_with_the_same_log(tmp_path: Path) -> None:
    cost = RecordCost(tmp_path)
    for length in (1, 8):
        cost.run(length, 100)
    leader, follower = cost.leader, cost.follower
    assert leader.end_position == follower.end_position > 9 * 100
    ends = [{each.queue_id: each.next_offset for each in store.queues()} for store in (leader, follower)]
    assert ends[0] == ends[1]
    cost.close()
    assert [len(times) for times in cost.spent.values()] == [2, 2]


def test_every_heartbeat_of_the_desk_benchmark_is_answered() -> None:
    async def heartbeats() -> int:
        desk = Desk(2)
        await desk.settle()
        before = desk.wire.written
        await desk.run(desk.frames, batch=5)
        return desk.wire.written - before

    assert uvloop.run(heartbeats()) > 20 * 100


def seen(rate: float, p99: float) -> dict[str, float]:
    times = {"p50us": p99 / 2, "p99us": p99, "p999us": p99, "maxus": p99}
    return {"rate": rate, **times, "cpuCores": 1.0, "residentMiB": 100.0, "failures": 0}


def test_ratios_judge_rate_and_tail_together() -> None:
    name = LOADS[0].name
    figures = {
        "etcd": {f"{name}, 64 B": seen(100, 1000), f"{name}, 1024 B": seen(100, 1000)},
        "node": {f"{name}, 64 B": seen(200, 1000), f"{name}, 1024 B": seen(200, 1001)},
    }
    _, small, large = ratios(figures)
    assert ("2.00" in small, "reached" in small, "MISSED" in large) == (True, True, True)
    assert [line.split()[0] for line in table(figures)[1:]] == ["etcd", "etcd", "LogHerd", "LogHerd"]
    figures["sofajraft"] = figures.pop("etcd")
    assert ratios(figures)[0].startswith("LogHerd / SOFAJRaft ")
    assert [line.split()[0] for line in table(figures)[1:]] == ["SOFAJRaft", "SOFAJRaft", "LogHerd", "LogHerd"]


def test_a_heartbeat_report_misses_its_aim_when_a_group_was_left_without_a_master() -> None:
    figures = dict.fromkeys(
        ("registerSeconds", "foundSeconds", "heartbeatsPerSecond", "leasesPerSecond", "refused", "leaderCores",
         "followerCores", "loadCores", "leaderResidentMiB", "answerP50Ms", "answerP99Ms", "leaderCoresMeanwhile",
         "electedP50S", "electedP99S", "electedMaxS"), 0.4
    )  # fmt: skip
    lines = report(figures | {"mastersLost": 3, "mastersFollowed": 2}, FleetSize(groups=3))
    assert "reached" in next(line for line in lines if line.startswith("leader's cores"))
    assert "MISSED" in lines[-1]


def body(operation: int, key: bytes, value: bytes) -> bytes:
    return OPERATION.pack(operation, len(key)) + key + value


def test_the_measured_state_machine_keeps_what_it_is_told() -> None:
    values, at = Values(), Position(0)

    def apply(data: bytes) -> tuple[int, bytes]:
        nonlocal at
        record = encode_record(Kind.DATA, Epoch(1), at, data, seal=0)
        at = record.end
        return values.apply(record)

    def swap(expected: bytes, new: bytes) -> tuple[int, bytes]:
        return apply(body(CAS, b"k", len(expected).to_bytes(4, "big") + expected + new))

    assert values.get(b"k") == (MISSING, b"")
    assert apply(body(PUT, b"k", b"one")) == (OK, b"")
    assert swap(b"other", b"two") == (FAILED, b"one")
    assert swap(b"one", b"two") == (OK, b"")
    copy = Values()
    copy.load(values.save())
    assert copy.get(b"k") == values.get(b"k") == (OK, b"two")


def test_what_is_measured_beside_the_loads_is_told_in_lines() -> None:
    latency = {"p50": 21.11, "p99": 39.46, "p999": 48.92, "maximum": 54.4}
    figures = {
        "disk": {
            "flush": {"p50_ms": 0.383, "p99_ms": 2.31, "bytes_per_second": 2.8e6},
            "stream": {"p50_ms": 1.4, "p99_ms": 3.9, "bytes_per_second": 600 * (1 << 20)},
        },
        "at rest": {"logherd": 82.0},
        "native": {
            "logherd": {
                "100 batched": {"rate": 23424.8, "latency": latency, "refused": {"FLUSH_DISK_TIMEOUT": 2}, "lost": 1}
            }
        },
        "leader killed": {"logherd": {"gaps": [0.087, 0.1], "failed": 1, "faults": {"call timeout": 1}}},
    }
    assert beside_the_loads(figures) == [
        "disk, three writers: a record's flush p50 0.38, p99 2.31 ms; 600 MiB/s each in pieces of 1 MiB",
        "at rest, logherd: 82 ms of processor time a second",
        "native, logherd, 100 B batched: 23425 msg/s, p50 21.1, p99 39.5, p999 48.9 ms, 2 refused, 1 lost",
        "leader killed, logherd: gaps 0.087, 0.100 s, 1 failed sends",
        "  1 times call timeout",
    ]
    assert beside_the_loads({}) == []


def test_each_mode_is_judged_beside_all_of_theirs_and_beside_the_one_of_its_class() -> None:
    def loads(rate: float, p50: int, p99: int) -> dict[str, dict[str, float]]:
        return {"64 sync senders": {"rate": rate}, "1 sync sender": {"p50us": p50, "p99us": p99}}

    figures = {
        "rocketmq dledger": loads(1000, 1400, 4000), "rocketmq controller": loads(500, 4000, 16000),
        "logherd": loads(3500, 1100, 3000), "logherd raft": loads(4500, 900, 1000),
    }  # fmt: skip
    seen = {name: (round(value, 3), reached) for name, value, _, reached in aims(figures)}
    assert seen == {
        "64 senders: rate / the better of RocketMQ's modes": (3.5, False),
        "1 sender: p99 / the better of RocketMQ's modes": (0.75, False),
        "logherd: 64 senders' rate / rocketmq controller": (7.0, True),
        "logherd: a lone sender's p99 / rocketmq controller": (0.188, True),
        "logherd raft: 64 senders' rate / rocketmq dledger": (4.5, True),
        "logherd raft: a lone sender's p99 / rocketmq dledger": (0.25, True),
    }
