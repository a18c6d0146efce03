"""When which group is looked at."""

from hypothesis import given
from hypothesis import strategies as st

from logherd.controller.agenda import Agenda
from logherd.controller.values import GroupKey


def key(number: int) -> GroupKey:
    return GroupKey("c", str(number))


@given(st.lists(st.tuples(st.sampled_from(["put", "hasten", "take"]), st.integers(0, 3), st.integers(0, 20))))
def test_an_agenda_is_a_time_for_each_group(steps: list[tuple[str, int, int]]) -> None:
    """Against the simplest one that could be: a dictionary."""
    agenda, plain = Agenda(), dict[GroupKey, int]()
    for word, number, when in steps:
        if word == "take":
            due = sorted(each for each, at in plain.items() if at <= when)
            assert sorted(agenda.take_due(when)) == due
            for each in due:
                del plain[each]
        elif word == "put":
            agenda.put(key(number), when)
            plain[key(number)] = when
        else:
            agenda.hasten(key(number), when)
            plain[key(number)] = min(when, plain.get(key(number), when))


def test_an_agenda_does_not_grow_with_how_often_times_change() -> None:
    agenda = Agenda()
    for when in range(10_000, 0, -1):
        agenda.put(key(when % 5), when)
    assert len(agenda._heap) < 100
