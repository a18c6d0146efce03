"""A member of the quorum: what it must have on disk before it speaks, and what it leaves when it ceases to."""

import asyncio
import errno
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from logherd.aiokit.tasks import TaskGuard
from logherd.app.binding import bind
from logherd.app.controllers.board import Board
from logherd.app.controllers.decisions import Decisions
from logherd.app.controllers.member import Member, PromisesLost
from logherd.app.controllers.reports import Reports
from logherd.app.data_dir import NoDataDir
from logherd.app.quorum.node import NodeFailed
from logherd.app.quorum.outcomes import Applied, Rejected
from logherd.controller.commands import Claim, encode_command
from logherd.controller.leases import LeaseTerms
from logherd.controller.settings import OfficeOptions, epochs_above
from logherd.controller.values import BrokerId
from logherd.model.names import Epoch
from logherd.peers.hello import Hello
from logherd.raft.inputs import RecoverQuorum
from logherd.raft.output import Refusal, Role
from logherd.raft.voting import hears_leader
from logherd.raftlog import RaftLog, RaftLogOptions
from logherd.raftlog.writer import LogFiles
from logherd.replication.messages import ClusterId, ReplicaId
from logherd.service.controllers.quorum_orders import resettle
from logherd.service.controllers.steps import Resettle
from logherd.settings.load import load_controller_options
from logherd.settings.options import ControllerOptions, Endpoint
from logherd.store.errors import ReplicaDamaged
from logherd.store.files_os import OsFiles
from unit.controller.desk import KEY

NAMES = ("c-0", "c-1", "c-2")
WORD = "silent-since.json"


class Life:
    """One process of a member, which need not run."""

    def __init__(self, options: ControllerOptions) -> None:
        self.failures = 0
        self.decisions = Decisions()
        self.board = Board(lambda: self.decisions.machine, LeaseTerms(), OfficeOptions())
        self.member = Member(options, self.decisions, self.board, on_failure=self._failed)
        self.guard = TaskGuard()

    def _failed(self) -> None:
        self.failures += 1

    @property
    def role(self) -> Role | None:
        return None if self.member.node is None else self.member.node.core.role

    @property
    def leads(self) -> bool:
        return self.board.office is not None

    async def stop(self) -> None:
        await self.guard.stop(5)
        await self.member.stop(5)


@dataclass
class Quorum:
    """The places of its members, and those that run."""

    directory: Path
    names: tuple[str, ...] = NAMES
    ports: dict[str, int] = field(default_factory=dict)
    lives: dict[str, Life] = field(default_factory=dict)

    def data(self, name: str) -> Path:
        return self.directory / name

    def options(self, name: str) -> ControllerOptions:
        for each in self.names:
            if each not in self.ports:
                with bind(Endpoint("127.0.0.1", 0), "peerListen") as taken:
                    self.ports[each] = taken.getsockname()[1]
        members = [
            {"name": each, "peer": f"127.0.0.1:{self.ports[each]}", "address": f"127.0.0.1:{number + 1}"}
            for number, each in enumerate(self.names)
        ]
        path = self.directory / f"{name}.json"
        path.write_text(json.dumps({
            "nodeName": name, "controllers": members, "dataDir": str(self.data(name)),
            "election": {"timeoutMs": 300, "spreadMs": 300, "heartbeatMs": 50},
        }))  # fmt: skip
        return load_controller_options(path)

    async def start(self, name: str) -> Life:
        life = Life(self.options(name))
        self.lives[name] = life
        listening = bind(Endpoint("127.0.0.1", self.ports[name]), "peerListen")
        await life.member.start(listening, life.guard)
        return life

    async def stop(self, name: str) -> None:
        await self.lives.pop(name).stop()

    async def leader(self) -> Life:
        await eventually(lambda: any(life.leads for life in self.lives.values()))
        assert [life.member.failure for life in self.lives.values()] == [None] * len(self.lives)
        return next(life for life in self.lives.values() if life.leads)


@asynccontextmanager
async def quorum_of(directory: Path, *names: str, start: bool = True) -> AsyncIterator[Quorum]:
    quorum = Quorum(directory, names)
    try:
        for name in names if start else ():
            await quorum.start(name)
        yield quorum
    finally:
        for name in tuple(quorum.lives):
            await quorum.stop(name)


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0)


async def outcome_of(ask: Callable[[Callable[[Any], None]], None]) -> Any:
    told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    ask(told.set_result)
    return await asyncio.wait_for(told, 10)


COMMAND = encode_command(Claim(group=KEY, broker_id=BrokerId(1), check_code="code"))


async def test_members_found_a_quorum_when_all_are_there_and_decide_together(tmp_path: Path) -> None:
    async with quorum_of(tmp_path, *NAMES, start=False) as quorum:
        first = await quorum.start("c-0")
        assert first.member.waiting_for == ("c-1", "c-2")
        await quorum.start("c-1")
        await eventually(lambda: first.member.waiting_for == ("c-2",))
        assert first.member.node is None
        await quorum.start("c-2")
        leader = await quorum.leader()
        assert [life.member.waiting_for for life in quorum.lives.values()] == [()] * 3
        assert isinstance(await outcome_of(lambda then: leader.member.propose(COMMAND, then)), Applied)
        for life in quorum.lives.values():
            await eventually(lambda life=life: life.decisions.machine.group(KEY) is not None)  # type: ignore[misc]
            await outcome_of(life.member.read)


async def test_before_the_founding_everything_is_refused_at_once(tmp_path: Path) -> None:
    async with quorum_of(tmp_path, *NAMES, start=False) as quorum:
        member = (await quorum.start("c-0")).member
        told: list[Any] = []
        member.propose(COMMAND, told.append)
        member.read(told.append)
        member.hand_over_to("c-1.1", told.append)
        member.resettle(("c-0.1",), (), told.append)
        member.rebuild(RecoverQuorum(0, 1, Epoch(2), ()), told.append)
        assert told == [Rejected(Refusal.NOT_READY, None)] * 5
        member.give_way(0)
        await member.hand_over(0)


async def test_an_orderly_stop_leaves_word_that_the_next_life_takes_before_it_runs(tmp_path: Path) -> None:
    async with quorum_of(tmp_path, "c-0") as quorum:
        word = quorum.data("c-0") / WORD
        former = await quorum.leader()
        assert not word.exists()
        await quorum.stop("c-0")
        assert word.exists()
        assert former.member.node is not None
        assert not former.member.node.healthy
        await quorum.start("c-0")
        assert not word.exists()
        await former.member.stop(5)
        assert not word.exists(), "it would speak for the life that runs"


async def test_a_member_that_has_failed_leaves_no_word(tmp_path: Path) -> None:
    async with quorum_of(tmp_path, "c-0") as quorum:
        life = await quorum.leader()
        life.member.check()
        assert life.member.failure is None
        life.member.fail(OSError("first"))
        life.member.fail(OSError("second"))
        assert (life.failures, life.member.failure) == (1, "OSError: first")
        with pytest.raises(NodeFailed, match="first"):
            life.member.check()
        await quorum.stop("c-0")
        assert not (quorum.data("c-0") / WORD).exists()


async def test_a_disk_that_fails_while_a_member_stops_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with quorum_of(tmp_path, "c-0") as quorum:
        life = await quorum.leader()
        with monkeypatch.context() as patch:
            patch.setattr(LogFiles, "_note_mark", Mock(side_effect=OSError(errno.EIO, "the disk is gone")))
            await quorum.stop("c-0")
        with pytest.raises(NodeFailed, match="the disk is gone"):
            life.member.check()
        assert life.failures == 1
        await quorum.start("c-0")
        await quorum.leader()


async def test_a_member_whose_links_never_were_up_leaves_the_log_to_others(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path)
    life = Life(quorum.options("c-0"))
    await life.stop()
    await life.stop()
    assert not (quorum.data("c-0") / WORD).exists()
    await Life(quorum.options("c-0")).stop()


async def test_a_data_directory_that_cannot_be_is_told_by_its_setting(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path)
    quorum.data("c-0").write_text("no folder")
    with pytest.raises(NoDataDir):
        Life(quorum.options("c-0"))


async def test_before_a_planned_stop_another_member_leads(tmp_path: Path) -> None:
    async with quorum_of(tmp_path, *NAMES) as quorum:
        leader = await quorum.leader()
        for life in quorum.lives.values():
            if life is not leader:
                await life.member.hand_over(0)
        assert leader.leads
        await leader.member.hand_over(10)
        assert leader.role is not Role.LEADER
        await eventually(lambda: not leader.leads)
        assert await quorum.leader() is not leader


async def test_before_a_planned_stop_another_member_leads_although_members_are_being_changed(tmp_path: Path) -> None:
    async with quorum_of(tmp_path, *NAMES) as quorum:
        leader, told = await quorum.leader(), list[Any]()
        present = [life.member.identity for life in quorum.lives.values()]
        leader.member.resettle((*present, f"c-3.{'0' * 16}"), (), told.append)
        await leader.member.hand_over(10)
        assert told == [Rejected(Refusal.BEHIND, leader.member.identity)]
        assert leader.role is not Role.LEADER
        assert await quorum.leader() is not leader


@pytest.mark.parametrize("reason", [Refusal.RUNNING, Refusal.INVALID])
async def test_a_stop_says_why_nothing_was_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, reason: Refusal
) -> None:
    async with quorum_of(tmp_path, *NAMES) as quorum:
        leader = await quorum.leader()
        refusal = Rejected(reason, leader.member.identity)
        monkeypatch.setattr(leader.member.node, "transfer", lambda _target, then: then(refusal))
        await leader.member.hand_over(0.01)
        (said,) = [each for each in caplog.records if each.message == "leadership was not handed over before the stop"]
        assert reason.value in str(vars(said))


async def test_a_stop_waits_for_a_hand_over_as_long_as_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with quorum_of(tmp_path, *NAMES) as quorum:
        leader = await quorum.leader()
        told: list[Callable[[Any], None]] = []
        monkeypatch.setattr(leader.member.node, "transfer", lambda _target, then: told.append(then))
        await leader.member.hand_over(0.01)
        assert "leadership was not handed over before the stop" in caplog.messages
        told[0](Rejected(Refusal.TIMED_OUT, None))


async def test_who_is_alone_hands_over_to_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with quorum_of(tmp_path, "c-0") as quorum:
        life = await quorum.leader()
        await life.member.hand_over(10)
        assert life.leads
        assert "leadership was not handed over before the stop" not in caplog.text


async def test_leadership_goes_to_the_member_that_is_named_or_to_any_other(tmp_path: Path) -> None:
    async with quorum_of(tmp_path, *NAMES) as quorum:
        leader = await quorum.leader()
        target = next(life for life in reversed(quorum.lives.values()) if life is not leader)
        await outcome_of(lambda then: leader.member.hand_over_to(target.member.identity, then))
        await eventually(lambda: target.leads)
        assert isinstance(await outcome_of(lambda then: target.member.hand_over_to(None, then)), Applied)
        await eventually(lambda: not target.leads)


async def test_who_gives_way_has_the_next_one_lead_and_the_one_after_it_at_another_turn(tmp_path: Path) -> None:
    async with quorum_of(tmp_path, *NAMES) as quorum:
        for turn in (0, 1):
            leader = await quorum.leader()
            place = next(name for name, life in quorum.lives.items() if life is leader)
            target = quorum.lives[NAMES[(NAMES.index(place) + 1 + turn) % len(NAMES)]]

            def leads(leader: Life = leader, target: Life = target, turn: int = turn) -> bool:
                if leader.leads:  # a slow disk lets an order go by, and the board asks again
                    leader.member.give_way(turn)
                return target.leads

            await eventually(leads)
            await eventually(lambda leader=leader: not leader.leads)  # type: ignore[misc]


async def test_who_may_have_forgotten_a_promise_says_so_and_leads_alone_if_nobody_else_is_heard(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with quorum_of(tmp_path, "c-0") as quorum:
        await quorum.leader()
        await quorum.stop("c-0")
        log = RaftLog.open(OsFiles(), f"{quorum.data('c-0')}/raft", RaftLogOptions())
        hard = log.hard_state()
        assert hard is not None
        log.keep_hard_state(replace(hard, doubtful=True))
        log.take_batch(1).write_and_flush()
        log.close()
        await quorum.start("c-0")
        assert any(message.startswith("what this controller promised last may be lost") for message in caplog.messages)
        await quorum.leader()


async def test_what_a_torn_log_had_to_give_up_is_said_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with quorum_of(tmp_path, "c-0") as quorum:
        await quorum.leader()
        await quorum.stop("c-0")
        log = RaftLog.open(OsFiles(), f"{quorum.data('c-0')}/raft", RaftLogOptions())
        end = log.end
        log.close()
        with Path(quorum.data("c-0"), "raft", "log", "00000000000000000000").open("r+b") as file:
            file.seek(end)
            file.write(b"torn")
        caplog.clear()
        await quorum.start("c-0")
        told = [record.__dict__["fields"] for record in caplog.records if record.getMessage() == "log recovered"]
        assert [(fields["rows"].split("; ")[-1], fields["cut_bytes"]) for fields in told] == [("torn", 4)]


async def test_who_is_alone_gives_way_to_nobody(tmp_path: Path) -> None:
    async with quorum_of(tmp_path, "c-0") as quorum:
        life = await quorum.leader()
        life.member.give_way(0)
        assert life.leads


async def test_an_order_to_give_up_lost_voters_is_judged_by_the_quorum_that_runs(tmp_path: Path) -> None:
    async with quorum_of(tmp_path, "c-0") as quorum:
        life = await quorum.leader()
        order = RecoverQuorum(0, 1, Epoch(0), ())
        assert await outcome_of(lambda then: life.member.rebuild(order, then)) == Rejected(
            Refusal.RUNNING,
            life.member.identity,  # it leads itself
        )


async def test_a_quorum_that_was_recovered_leaps_over_the_epochs_of_those_it_gave_up(tmp_path: Path) -> None:
    async with quorum_of(tmp_path, *NAMES) as quorum:
        leader = await quorum.leader()
        assert leader.board.office is not None
        assert leader.board.office.options.epochs_above == 0
        for name in ("c-1", "c-2"):
            await quorum.stop(name)
        life = quorum.lives["c-0"]
        node = life.member.node
        assert node is not None
        await eventually(lambda: node.core.role is not Role.LEADER and not hears_leader(node.core.ground))
        survivors = ((node.identity, node.core.ground.last),)
        order = RecoverQuorum(0, 2, Epoch(node.core.ground.term + 1), survivors)
        assert isinstance(await outcome_of(lambda then: life.member.rebuild(order, then)), Applied)
        await eventually(lambda: life.leads)
        assert life.board.office is not None
        assert life.board.office.options.epochs_above == epochs_above(2)


async def test_a_quorum_that_counts_on_lost_promises_ends_the_member(tmp_path: Path) -> None:
    async with quorum_of(tmp_path, *NAMES, start=False) as quorum:
        life = await quorum.start("c-0")
        founders = (life.member.identity, ReplicaId("c-1.0000000000000001"), ReplicaId("c-2.0000000000000001"))
        hello = Hello(
            cluster=ClusterId("DefaultCluster"), sender=founders[1], instance=1, segment_bytes=8 << 20,
            founded=founders, nodes=NAMES,
        )  # fmt: skip
        life.member._heard(hello)
        assert life.failures == 1
        assert life.member.node is None
        assert PromisesLost.__name__ in str(life.member.failure)


async def test_a_wiped_member_has_no_vote_until_it_is_named_again_and_may_be_restarted_until_then(
    tmp_path: Path,
) -> None:
    async with quorum_of(tmp_path, *NAMES) as quorum:
        await quorum.leader()
        former = quorum.lives["c-2"].member.identity
        await quorum.stop("c-2")
        quorum.data("c-2").rename(tmp_path / "lost")
        life = await quorum.start("c-2")
        await eventually(lambda: life.member.node is not None)
        assert life.member.identity != former
        await quorum.stop("c-2")
        life = await quorum.start("c-2")
        leader = await quorum.leader()
        kept = [each.member.identity for name, each in quorum.lives.items() if name != "c-2"]
        voters = (*kept, life.member.identity)
        done = await outcome_of(lambda then: leader.member.resettle(voters, (), then))
        assert isinstance(done, Applied)
        node = leader.member.node
        assert node is not None
        assert set(node.core.ground.members.current.voters) == set(voters)


async def test_members_that_are_not_in_force_yet_are_not_taken_for_what_is_wanted(tmp_path: Path) -> None:
    async with quorum_of(tmp_path, *NAMES) as quorum:
        leader = await quorum.leader()
        gone = next(life.member.identity for life in quorum.lives.values() if life is not leader)
        present = [life.member.identity for life in quorum.lives.values()]
        wanted = [each for each in present if each != gone]
        name = next(name for name, life in quorum.lives.items() if life is leader)
        place = Reports(quorum.options(name), leader.member, leader.board).place(lambda _seat: None)

        def changes(voters: list[ReplicaId]) -> bool:
            return isinstance(resettle(place, {"requestId": "1", "voters": voters}), Resettle)

        assert [changes(present), changes(wanted)] == [False, True]
        done = asyncio.create_task(outcome_of(lambda then: leader.member.resettle(tuple(wanted), (), then)))
        await asyncio.sleep(0)
        assert [changes(present), changes(wanted)] == [True, True], "both halves count, and nothing is committed"
        assert isinstance(await done, Applied)
        assert [changes(present), changes(wanted)] == [True, False]


async def test_a_founder_without_the_image_that_names_the_voters_is_damaged_and_lets_go_of_its_log(
    tmp_path: Path,
) -> None:
    quorum = Quorum(tmp_path, ("c-0",))
    life = await quorum.start("c-0")
    await life.stop()
    images = quorum.data("c-0") / "raft" / "images"
    kept = list(images.iterdir()) if images.is_dir() else []
    assert kept
    for image in kept:
        image.rename(tmp_path / image.name)
    for _ in range(2):
        with pytest.raises(ReplicaDamaged):
            Life(quorum.options("c-0"))
