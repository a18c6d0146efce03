"""The decision tables are complete and without contradiction, whatever is found."""

from itertools import product

import pytest

from logherd.kit.errors import InvariantError
from logherd.store.format_file import FormatState
from logherd.store.recovery_rows import (
    DERIVED_ROWS,
    SEGMENT_ROWS,
    STORE_ROWS,
    TAIL_ROWS,
    Length,
    Place,
    Seen,
    SlotState,
    choose,
)

BOTH = (False, True)
TABLES = {
    "store": (STORE_ROWS, {"format": FormatState, "slot": SlotState, "segments": BOTH, "promised": BOTH}),
    "segment": (SEGMENT_ROWS, {"below_start": BOTH, "first_missing": BOTH, "length": Length, "place": Place,
                               "promised": BOTH, "covers": BOTH}),
    "tail": (TAIL_ROWS, {"promised": BOTH, "behind": Seen, "zeros": BOTH}),
    "derived": (DERIVED_ROWS, {"checkpoint": BOTH, "geometry": BOTH, "within_log": BOTH, "files_whole": BOTH}),
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_exactly_one_row_matches_every_combination_of_facts(table):
    rows, values = TABLES[table]
    taken = set()
    for combination in product(*values.values()):
        taken.add(choose(rows, dict(zip(values, combination, strict=True))).label)
    assert taken == {row.label for row in rows}, "a row that nothing reaches says nothing"


@pytest.mark.parametrize("table", TABLES)
def test_every_row_gives_its_reason(table):
    rows, values = TABLES[table]
    assert len({row.label for row in rows}) == len(rows)
    for row in rows:
        assert row.reason
        assert row.when.keys() <= values.keys()


def test_facts_that_no_row_knows_stop_the_process():
    with pytest.raises(InvariantError):
        choose(TAIL_ROWS[:2], {"promised": False, "behind": Seen.NOTHING, "zeros": True})
