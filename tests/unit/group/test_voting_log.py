"""What the Raft core sees of a broker's log, and what the group's shell must hear of."""

from dataclasses import replace
from typing import Any
from unittest.mock import Mock, call

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


def test_a_copy_is_staged_under_the_name_by_which_the_brokers_log_knows_it() -> None:
    """What was staged before a pause is found again, and no piece of it is taken for another image's."""
    log, below = log_of(staged=40)
    image = replace(LATE, note=Configuration().encode())
    assert log.staged(image) == 40
    log.stage(image, 40, b"piece")
    below.staged.assert_called_once_with(LATE)
    below.stage.assert_called_once_with(LATE, 40, b"piece")


def test_what_is_shown_is_what_the_brokers_log_shows_and_not_its_end() -> None:
    """Readers elsewhere are given leave up to there."""
    log, below = log_of()
    below.shown, below.end = Position(32), Position(64)
    assert (log.shown, log.end) == (32, 64)


def test_of_a_note_the_core_sees_kind_end_and_body_between_the_places_that_it_asks_for() -> None:
    notes = [(Position(96), bytes((Kind.MEMBERS,)) + b"body"), (Position(128), bytes((Kind.RESET,)))]
    log, below = log_of(notes=notes)
    records = [(record.kind, record.end, bytes(record.body)) for record in log.records(Position(64), Position(128))]
    assert records == [(Kind.MEMBERS, 96, b"body"), (Kind.RESET, 128, b"")]
    below.notes.assert_called_once_with(64, 128)


def test_only_the_note_of_a_rebuilt_group_stands_in_the_last_epoch_of_its_log() -> None:
    log, below = log_of()
    below.epochs.last_epoch = Epoch(3)
    for kind in (Kind.NOOP, Kind.RESET):
        log.append(kind, Epoch(7), b"b")
    assert below.append_note.call_args_list == [
        call(Epoch(7), bytes((Kind.NOOP,)) + b"b"), call(Epoch(3), bytes((Kind.RESET,)) + b"b"),
    ]  # fmt: skip


def test_a_brokers_log_is_neither_compacted_nor_given_an_image_from_here() -> None:
    log, below = log_of()
    with pytest.raises(InvariantError, match="makes no images"):
        log.keep_image(LATE, b"")
    with pytest.raises(InvariantError, match="not compacted"):
        log.compact(Position(64))
    assert not below.method_calls


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
