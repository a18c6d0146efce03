"""A member's shell over real files: what is answered when, and what survives."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from logherd.app.quorum.node import RaftNode
from logherd.app.quorum.outcomes import Applied, ReadAt, Rejected, Uncertain
from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch
from logherd.raft.core import RaftCore
from logherd.raft.inputs import Input, RecoverQuorum
from logherd.raft.output import Event, Output, Refusal, RoleChanged
from logherd.raft.record import HEADER_SIZE
from logherd.raft.voting import hears_leader
from logherd.raftlog.log import Batch
from logherd.replication.messages import AppendAck
from logherd.store.errors import StoreFull, StoreStopped
from logherd.store.files_os import OsFiles
from unit.store.helpers import none_left

from .group import Group, Member, propose, read

THREE = ("a", "b", "c")


def run(coroutine: object) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 50))  # type: ignore[arg-type]


def test_what_is_decided_is_applied_everywhere_in_one_order(tmp_path: Path) -> None:
    async def story() -> None:
        group = Group(tmp_path, THREE)
        group.start_all()
        leader = await group.leader()
        outcomes = await asyncio.gather(*(propose(leader, b"%d" % number) for number in range(50)))
        assert [outcome.result for outcome in outcomes if isinstance(outcome, Applied)] == list(range(1, 51))
        for member in group.members.values():
            await group.until(lambda member=member: len(member.machine.lines) == 50)  # type: ignore[misc]
        assert {tuple(member.machine.lines) for member in group.members.values()} == {
            tuple(b"%d" % number for number in range(50))
        }
        await group.stop_all()

    run(story())


def test_a_follower_refuses_proposals_with_a_hint_and_serves_confirmed_reads(tmp_path: Path) -> None:
    async def story() -> None:
        group = Group(tmp_path, THREE)
        group.start_all()
        leader = await group.leader()
        assert isinstance(await propose(leader, b"x"), Applied)
        follower = next(member for member in group.members.values() if member is not leader)
        assert await propose(follower, b"y") == Rejected(Refusal.NOT_LEADER, leader.node.identity)
        outcome = await read(follower)
        assert isinstance(outcome, ReadAt)
        assert follower.machine.lines == [b"x"]
        await group.stop_all()

    run(story())


def test_a_record_that_the_log_cannot_hold_is_refused_and_the_member_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        group = Group(tmp_path, ("a",))
        group.start_all()
        leader = await group.leader()
        longest = (4 << 20) - HEADER_SIZE
        assert await propose(leader, bytes(longest + 1)) == Rejected(Refusal.INVALID, leader.node.identity)
        assert isinstance(await propose(leader, bytes(longest)), Applied)
        assert leader.machine.lines == [bytes(longest)]
        await group.stop_all()

    run(story())


def test_a_new_leader_goes_on_with_everything_that_was_answered(tmp_path: Path) -> None:
    async def story() -> None:
        group = Group(tmp_path, THREE)
        group.start_all()
        first = await group.leader()
        for number in range(10):
            assert isinstance(await propose(first, b"%d" % number), Applied)
        await group.stop(first.node.identity)
        second = await group.leader()
        assert second is not first
        assert isinstance(await propose(second, b"after"), Applied)
        again = group.start(first.node.identity)
        await group.until(lambda: again.machine.lines == [*(b"%d" % number for number in range(10)), b"after"])
        await group.stop_all()

    run(story())


def test_a_leader_that_is_cut_off_answers_with_unknown_and_reads_with_a_refusal(tmp_path: Path) -> None:
    async def story() -> None:
        group = Group(tmp_path, THREE)
        group.start_all()
        leader = await group.leader()
        group.cut.add(leader.node.identity)
        asked = [asyncio.ensure_future(propose(leader, b"lost")), asyncio.ensure_future(read(leader))]
        outcomes = await asyncio.gather(*asked)
        assert outcomes[0] == Uncertain()
        assert isinstance(outcomes[1], Rejected)
        other = await group.leader()
        assert isinstance(await propose(other, b"kept"), Applied)
        group.cut.clear()
        await group.until(lambda: leader.machine.lines == [b"kept"])
        await group.stop_all()

    run(story())


def test_images_keep_the_log_short_and_a_late_member_starts_from_one(tmp_path: Path) -> None:
    async def story() -> None:
        group = Group(tmp_path, THREE, image_records=100)
        late = group.identities[2]
        for identity in group.identities[:2]:
            group.start(identity)
        leader = await group.leader()
        for start in range(0, 1000, 50):
            await asyncio.gather(*(propose(leader, b"%d" % number) for number in range(start, start + 50)))
        log = leader.node.log
        assert log.epochs.base.position > 0
        assert len(log.records(log.epochs.base.position, log.end)) < 300
        member = group.start(late)
        await group.until(lambda: len(member.machine.lines) == 1000)
        assert member.node.log.epochs.base.position > 0
        await group.stop_all()
        alone = Group(tmp_path, THREE, image_records=100)
        restarted = alone.start(leader.node.identity)
        assert len(restarted.machine.lines) >= 900
        await alone.stop_all()

    run(story())


def test_nothing_leaves_that_waits_for_a_flush_which_has_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower whose disk hangs acknowledges nothing; with the other one's help the group goes on."""

    async def story() -> None:
        group = Group(tmp_path, THREE)
        group.start_all()
        leader = await group.leader()
        await propose(leader, b"before")
        slow = next(member for member in group.members.values() if member is not leader)
        await group.until(lambda: slow.machine.lines == [b"before"])  # the other one's help was enough for that, too
        released = threading.Event()
        honest = Batch.write_and_flush

        def hang(batch: Batch) -> None:
            if batch._files is slow.node.log._files:
                released.wait(20)
            honest(batch)

        def acknowledged() -> list[int]:
            sent = [each.body for each in group.watched or () if each.sender == slow.node.identity]
            return [body.durable for body in sent if isinstance(body, AppendAck)]

        group.watched = []
        monkeypatch.setattr(Batch, "write_and_flush", hang)
        outcome = await propose(leader, b"during")
        assert isinstance(outcome, Applied)
        await group.until(lambda: slow.node.log.end == outcome.position)
        assert all(position < outcome.position for position in acknowledged())
        released.set()
        await group.until(lambda: any(position >= outcome.position for position in acknowledged()))
        await group.stop_all()

    run(story())


def test_an_operators_recovery_is_told_when_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        group = Group(tmp_path, THREE)
        group.start_all()
        leader = await group.leader()
        await propose(leader, b"before")
        one = next(member for member in group.members.values() if member is not leader)
        for identity in tuple(group.members):
            if group.members[identity] is not one:
                await group.stop(identity)
        ground = one.node.core.ground
        await group.until(lambda: not hears_leader(ground))
        released, honest = threading.Event(), Batch.write_and_flush
        flushed = list[int]()

        def hang(batch: Batch) -> None:
            released.wait(20)
            honest(batch)
            flushed.append(batch.token)

        monkeypatch.setattr(Batch, "write_and_flush", hang)
        told = list[tuple[object, int]]()
        order = RecoverQuorum(0, 1, Epoch(ground.term + 100), ((one.node.identity, ground.last),))
        one.node.recover_quorum(order, lambda outcome: told.append((outcome, len(flushed))))
        wanted = ground.durable.token
        await asyncio.sleep(0)
        assert told == []
        released.set()
        await group.until(lambda: told)
        ((outcome, before),) = told
        assert isinstance(outcome, Applied)
        assert max(flushed[:before]) >= wanted
        one.node.recover_quorum(order, lambda outcome: told.append((outcome, 0)))
        assert isinstance(told[-1][0], Rejected), "what is refused is told at once"
        await group.stop_all()

    run(story())


def test_a_full_disk_is_waited_out_and_told_to_the_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        group = Group(tmp_path, ("a",))
        group.start_all()
        member = await group.leader()
        honest, attempts = Batch.write_and_flush, []

        def refuse(batch: Batch) -> None:
            attempts.append(1)
            if len(attempts) < 3:
                raise StoreFull("no space left")
            honest(batch)

        monkeypatch.setattr(Batch, "write_and_flush", refuse)
        assert isinstance(await propose(member, b"x"), Applied)
        assert len(attempts) == 3
        await group.stop_all()

    run(story())


def test_a_disk_at_its_reserve_refuses_proposals_and_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        group = Group(tmp_path, ("a",))
        group.start_all()
        member = await group.leader()
        with monkeypatch.context() as patched:
            patched.setattr(OsFiles, "free_bytes", lambda _files, _path: 0)
            while not isinstance(outcome := await propose(member, b"x"), Rejected):
                await asyncio.sleep(0)
            assert outcome.reason is Refusal.DISK_FULL
        while not isinstance(await propose(member, b"y"), Applied):
            await asyncio.sleep(0)
        await group.stop_all()

    caplog.set_level("INFO", "logherd.quorum")
    run(story())
    said = [record.getMessage() for record in caplog.records if "records are taken" in record.getMessage()]
    assert said == ["no records are taken for now", "records are taken again"]


def test_a_member_without_descriptors_refuses_records_and_takes_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        group = Group(tmp_path, ("a",))
        group.start_all()
        member = await group.leader()
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", none_left)
            while not isinstance(outcome := await propose(member, bytes(100_000)), Rejected):
                await asyncio.sleep(0)
            assert outcome.reason is Refusal.DISK_FULL
            assert "Too many open files" in member.node.log.lack
        while not isinstance(await propose(member, b"y"), Applied):
            await asyncio.sleep(0)
        await group.stop_all()

    run(story())


def test_a_failed_flush_ends_the_node_and_nothing_is_said_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        group = Group(tmp_path, THREE)
        group.start_all()
        leader = await group.leader()
        follower = next(member for member in group.members.values() if member is not leader)
        honest = Batch.write_and_flush

        def fail(batch: Batch) -> None:
            if batch._files is follower.node.log._files:
                raise StoreStopped("input/output error")
            honest(batch)

        monkeypatch.setattr(Batch, "write_and_flush", fail)
        assert isinstance(await propose(leader, b"x"), Applied)
        await group.until(lambda: bool(follower.failures))
        group.watched = []
        await propose(leader, b"y")
        assert [each for each in group.watched if each.sender == follower.node.identity] == []
        assert not follower.node.healthy
        follower.failures.clear()
        await group.stop_all()

    run(story())


def test_a_member_with_a_broken_rule_says_nothing_more_not_even_what_waited_for_its_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        group = Group(tmp_path, THREE)
        group.start_all()
        leader = await group.leader()
        await propose(leader, b"before")
        broken = next(member for member in group.members.values() if member is not leader)
        await group.until(lambda: broken.machine.lines == [b"before"])
        released, honest, step = threading.Event(), Batch.write_and_flush, RaftCore.step

        def hang(batch: Batch) -> None:
            if batch._files is broken.node.log._files:
                released.wait(20)
            honest(batch)

        def break_rule(core: RaftCore, event: Input, now: int) -> Output:
            if core is broken.node.core:
                raise InvariantError("a rule is broken")
            return step(core, event, now)

        monkeypatch.setattr(Batch, "write_and_flush", hang)
        group.cut.add(leader.node.identity)
        await group.until(lambda: broken.node._disk._held)  # a vote, once that will be on its disk
        monkeypatch.setattr(RaftCore, "step", break_rule)
        await group.until(lambda: broken.failures)
        group.watched = []
        released.set()
        await group.until(lambda: not broken.node._disk._writer.busy)
        assert [each for each in group.watched if each.sender == broken.node.identity] == []
        assert (len(broken.failures), broken.node.healthy) == (1, False)
        broken.failures.clear()
        await group.stop_all()

    run(story())


def test_leadership_is_handed_over_on_request(tmp_path: Path) -> None:
    async def story() -> None:
        group = Group(tmp_path, THREE)
        group.start_all()
        leader = await group.leader()
        target = next(identity for identity in group.identities if identity != leader.node.identity)
        told: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        leader.node.transfer(target, told.set_result)
        await told
        await group.until(lambda: group.members[target].node.core.leading is not None)
        await group.stop_all()

    run(story())


def test_a_leader_is_told_to_be_ready_when_its_state_holds_all_that_was_decided(tmp_path: Path) -> None:
    """Thousands of records are applied over many passes; whoever takes office must not see half of them."""

    async def story() -> None:
        group = Group(tmp_path, ("a",))
        group.start_all()
        member = await group.leader()
        await asyncio.gather(*(propose(member, b"%d" % number) for number in range(5_000)))
        await group.stop(member.node.identity)
        seen: list[int] = []
        again = group.start(group.identities[0])
        told = again.node._on_event

        def look(event: Event) -> None:
            if isinstance(event, RoleChanged) and event.ready:
                seen.append(len(again.machine.lines))
            told(event)

        again.node._on_event = look
        await group.leader()
        await group.until(lambda: bool(seen))
        assert seen == [5_000]
        await group.stop_all()

    run(story())


def test_reads_of_one_pass_share_one_round(tmp_path: Path) -> None:
    async def story() -> None:
        group = Group(tmp_path, THREE)
        group.start_all()
        leader: Member = await group.leader()
        steps: list[str] = []
        step = RaftNode._step

        def count(node: RaftNode[int], event: object) -> None:
            steps.append(type(event).__name__)
            step(node, event)  # type: ignore[arg-type]

        RaftNode._step = count  # type: ignore[method-assign, assignment]
        try:
            outcomes = await asyncio.gather(*(read(leader) for _ in range(100)))
        finally:
            RaftNode._step = step  # type: ignore[method-assign]
        assert all(isinstance(outcome, ReadAt) for outcome in outcomes)
        assert steps.count("Read") == 1
        await group.stop_all()

    run(story())
