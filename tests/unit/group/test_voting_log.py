"""What the Raft core sees of a broker's log, and what the group's shell must hear of."""

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from logherd.controller.values import BrokerId
from logherd.group.output import Cut, Installed, Promise
from logherd.group.seat import voter_of
from logherd.group.voting_log import VotingLog
from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch, Position
from logherd.raft.members import Configuration
from logherd.raft.record import Kind
from logherd.raft.store import HardState
from logherd.replication.epochs import Point
from logherd.replication.log import Image
from logherd.replication.messages import ClusterId

FOUNDERS = tuple(voter_of(BrokerId(number), "s") for number in (1, 2, 3))
LATE = Image("the log from 64 on", Point(Epoch(3), Position(64)), 0, 0, 0, b"")


def log_of(**answers: object) -> tuple[VotingLog, Any]:
    """With the broker's log below it."""
    below = Mock(**{f"{name}.return_value": answer for name, answer in answers.items()})
    return VotingLog(below, HardState(ClusterId("c"), FOUNDERS[0], Epoch(3)), FOUNDERS), below


def test_before_the_first_record_the_members_are_the_founders() -> None:
    log, _ = log_of(image=None)
    image = log.image()
    assert image is not None
    assert Configuration.decode(image.note) == Configuration(FOUNDERS)


def test_a_log_that_begins_late_says_nothing_of_members_before_a_note_does() -> None:
    """The founders may be other ones by then: who believed them could elect a leader with those that are gone."""
    log, below = log_of(image=LATE, image_chunk=b"")
    image = log.image()
    assert image == replace(LATE, note=Configuration().encode())
    assert log.image_chunk(image, 0, 100) == b""
    below.image_chunk.assert_called_once_with(LATE, 0, 100)


def test_the_shell_hears_of_each_cut_and_of_an_image_that_was_installed() -> None:
    log, below = log_of()
    image = replace(LATE, note=Configuration().encode())
    log.truncate(Position(96))
    log.install(image)
    assert log.news == [Cut(Position(96)), Installed(image)]
    below.truncate.assert_called_once_with(96)
    below.install.assert_called_once_with(LATE)


def test_a_promise_is_handed_on_whole_and_is_the_newest_one() -> None:
    log, _ = log_of()
    hard = HardState(ClusterId("c", 2), FOUNDERS[0], Epoch(7), FOUNDERS[1], doubtful=True)
    log.keep_hard_state(hard)
    assert log.keep == Promise(Epoch(7), FOUNDERS[1], doubtful=True, reset=2)
    assert log.hard_state() == hard


def test_what_is_no_note_of_rafts_own_is_not_appended() -> None:
    log, below = log_of()
    with pytest.raises(InvariantError, match="only members and no-ops"):
        log.append(Kind.DATA, Epoch(3), b"")
    below.append_note.assert_not_called()
