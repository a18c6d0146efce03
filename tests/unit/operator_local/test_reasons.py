"""Why nobody serves is said in the words of whoever knows, once, and whatever it is."""

from dataclasses import replace

import pytest

from logherd_operator.local.reasons import alike, is_refused, place_reason, why_not_served
from logherd_operator.local.telling import Telling
from logherd_operator.observed.observed import Observed
from logherd_operator.plan.outcome import Block, Code
from unit.operator_plan.looks import broker, controllers, group, instance, look

FULL = "the disk of /data/broker-{} has 8.5 MiB free, and messages need 25.0 MiB"


def refusing(observed: Observed, *ids: int, fault: str = "") -> Observed:
    slots = [
        replace(slot, report=replace(slot.report, refuses=FULL.format(slot.broker_id), fault=fault))
        if slot.broker_id in ids and slot.report is not None else slot
        for slot in observed.brokers
    ]  # fmt: skip
    return replace(observed, brokers=tuple(slots))


def test_while_messages_are_taken_there_is_nothing_to_say() -> None:
    assert why_not_served(look()) == ""
    assert why_not_served(refusing(look(), 2)) == "", "a follower's full disk stops no message"
    assert why_not_served(look(brokers=(), controllers=(), group=None)) == "", "nothing runs"


def test_without_a_leader_the_controllers_say_why_and_each_broker_what_it_refuses() -> None:
    headless = look(group=group(leader=None, serving=False, why="Nobody can be elected without loss: full."))
    assert why_not_served(headless) == "Nobody can be elected without loss: full."
    assert why_not_served(refusing(headless, 1, 2, 3)) == (
        "Nobody can be elected without loss: full. Broker 1 takes no messages, nor do 2 and 3: the disk of "
        "/data/broker-1 has 8.5 MiB free, and messages need 25.0 MiB."
    )
    assert why_not_served(refusing(headless, 2, fault="its log is being mended")).endswith(
        "Broker 2 takes no messages: its log is being mended."
    )
    assert is_refused(refusing(headless, 2))
    assert not is_refused(headless)
    assert why_not_served(look(group=None)) == "No controller tells how the group stands."


def test_a_leader_that_refuses_messages_says_why() -> None:
    assert why_not_served(refusing(look(), 1, 2)) == (
        "Broker 1 takes no messages: the disk of /data/broker-1 has 8.5 MiB free, and messages need 25.0 MiB."
    )
    alone = look(group=group(in_sync=(1,), why="Writes wait: broker 1 in sync, of at least 2."))
    assert why_not_served(alone) == "Writes wait: broker 1 in sync, of at least 2."


def test_a_leader_that_died_or_hangs_is_named_while_its_lease_still_runs() -> None:
    slots = look().brokers
    silent = look(brokers=(replace(slots[0], report=None), *slots[1:]))
    assert why_not_served(silent) == "Broker 1 leads, as the controllers know it, and does not answer."
    assert why_not_served(look(brokers=(slots[0], replace(slots[1], report=None), slots[2]))) == "", "a follower"


def test_what_brokers_say_of_their_leader_is_a_sentence_before_what_each_refuses() -> None:
    headless = look(group=group(leader=None, serving=False, why="broker 1 leads by table 1, and does not serve"))
    assert why_not_served(headless) == "Broker 1 leads by table 1, and does not serve."
    assert why_not_served(refusing(headless, 1)).startswith(
        "Broker 1 leads by table 1, and does not serve. Broker 1 takes no messages: the disk"
    )
    assert why_not_served(look(group=group(leader=None, serving=False, why=""))) == "Nobody leads."
    alone = look(group=group(in_sync=(1,), why="broker 1 leads, and writes wait"))
    assert why_not_served(alone) == "Broker 1 leads, and writes wait."


def test_a_place_says_what_keeps_it_from_serving() -> None:
    (slot,) = refusing(look(1), 1).brokers
    assert place_reason(slot) == f"it takes no messages: {FULL.format(1)}"
    assert place_reason(broker(0)) == ""
    assert place_reason(broker(0, stands=instance(0, failing="no such file"))) == "no such file"
    assert place_reason(broker(0, stands=instance(0, leaves_by=1.0))) == "it is about to stop"
    assert place_reason(controllers()[0]) == ""


@pytest.mark.parametrize(("other", "same"), [
    ("wait 12.5 ms", True), ("wait 7 ms", True), ("wait long", False), ("", False),
])  # fmt: skip
def test_sentences_are_alike_but_for_numbers(other: str, same: bool) -> None:
    assert alike("wait 8 ms", other) is same


def test_a_reason_is_told_once_it_lasts_and_again_when_it_is_another_or_over() -> None:
    said: list[str] = []
    telling = Telling(said.append)
    telling.tell_why("", 0, patience=10)
    telling.tell_why("wait 8 ms", 1, patience=10)
    telling.tell_why("", 2, patience=10)
    assert said == [], "an election is no news"
    for second in range(3, 40):
        telling.tell_why(f"wait {second} ms", second, patience=10)
    assert said == ["wait 13 ms"]
    telling.tell_why("full", 41, patience=10)
    telling.tell_why("full", 42, patience=10)
    assert said[1:] == ["full"]
    telling.tell_why("", 43, patience=10)
    telling.tell_why("", 44, patience=10)
    assert said[2:] == ["messages are taken now"]


def test_what_is_held_is_said_once_while_only_a_clock_runs_in_it() -> None:
    said: list[str] = []
    telling = Telling(said.append)

    def look(*held: tuple[int, str]) -> None:
        blocked = [
            Block(code=Code.NO_LEADER, message=f"{who} has {for_} more", unblocks="its lease") for who, for_ in held
        ]
        telling.forget_held(blocked)
        telling.tell_held(blocked)

    for waits in ("3000 ms", "1999 ms", "1.5 s"):
        look((1, waits))
    assert said == ["held: 1 has 3000 ms more; it takes: its lease"]
    look((1, "9 ms"), (2, "9 ms"))
    look((1, "8 ms"), (2, "8 ms"))
    assert said[1:] == ["held: 2 has 9 ms more; it takes: its lease"], "of one kind there may be two"
    look((2, "7 ms"))
    look((1, "6 ms"), (2, "6 ms"))
    assert said[2:] == ["held: 1 has 6 ms more; it takes: its lease"], "it was over in between"


def test_what_is_done_again_is_said_again_but_not_what_every_look_does_until_it_shows() -> None:
    said: list[str] = []
    telling = Telling(said.append)
    restart, push = ("Restart:2", "broker 3 is restarted"), ("PushConfig:2", "broker 3 takes x=1")
    for actions in ([restart], [push], [push], [], [restart, push], [restart]):
        telling.tell_done(actions)
    assert said == [restart[1], push[1], restart[1], push[1]]
    telling.tell_done([(restart[0], "broker 3 is restarted; not done yet: it does not answer")])
    assert said[4:] == ["broker 3 is restarted; not done yet: it does not answer"]
