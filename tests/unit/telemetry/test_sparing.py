"""Warnings that anybody can cause are bounded, and what was left out is said."""

from logherd.telemetry.log import FieldValue, Log
from logherd.telemetry.sparing import SparingLog


class _Written(Log):
    """Keeps its warnings, and lines of other severities."""

    def __init__(self) -> None:
        super().__init__("logherd.test")
        self.lines: list[tuple[str, dict[str, FieldValue]]] = []
        self.errors: list[tuple[str, dict[str, FieldValue]]] = []
        self.told: list[tuple[str, dict[str, FieldValue]]] = []

    def error(self, message: str, *, cause: BaseException | None = None, **fields: FieldValue) -> None:
        self.errors.append((message, fields))

    def info(self, message: str, **fields: FieldValue) -> None:
        self.told.append((message, fields))

    def warning(self, message: str, **fields: FieldValue) -> None:
        self.lines.append((message, fields))


class _Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_ten_lines_of_a_kind_are_written_and_the_rest_of_the_minute_is_counted() -> None:
    written, clock = _Written(), _Clock()
    log = SparingLog(written, clock)
    for number in range(25):
        log.warning("closed", reason="garbage", remote=f"h:{number}")
    assert written.lines == [("closed", {"reason": "garbage", "remote": f"h:{number}"}) for number in range(10)]
    clock.now += 59.9
    log.tell()
    assert len(written.lines) == 10
    clock.now += 0.1
    log.tell()
    assert written.lines[10:] == [("closed", {"reason": "garbage", "left_out": 15, "seconds": 60})]
    log.tell(ending=True)
    assert len(written.lines) == 11


def test_other_severities_are_bounded_in_the_same_way_and_kept_apart() -> None:
    written, clock = _Written(), _Clock()
    log = SparingLog(written, clock)
    for number in range(12):
        log.info("closed", reason="idle", remote=f"h:{number}")
        log.error("closed", reason="idle", remote=f"h:{number}")
        log.warning("closed", reason="idle", remote=f"h:{number}")
    clock.now += 60
    log.tell()
    for lines in (written.errors, written.told, written.lines):
        assert lines[:10] == [("closed", {"reason": "idle", "remote": f"h:{number}"}) for number in range(10)]
        assert lines[10:] == [("closed", {"reason": "idle", "left_out": 2, "seconds": 60})]


def test_after_a_minute_lines_are_written_again_after_what_was_left_out() -> None:
    written, clock = _Written(), _Clock()
    log = SparingLog(written, clock)
    for _ in range(11):
        log.warning("closed", remote="h:1")
    clock.now += 75
    log.warning("closed", remote="h:2")
    assert written.lines[10:] == [("closed", {"left_out": 1, "seconds": 75}), ("closed", {"remote": "h:2"})]


def test_nothing_is_said_of_a_minute_in_which_nothing_was_left_out() -> None:
    written, clock = _Written(), _Clock()
    log = SparingLog(written, clock)
    for _ in range(10):
        log.warning("closed")
    clock.now += 60
    log.tell()
    assert len(written.lines) == 10


def test_kinds_do_not_hide_each_other() -> None:
    written, clock = _Written(), _Clock()
    log = SparingLog(written, clock)
    for _ in range(1000):
        log.warning("closed", reason="garbage")
    log.warning("closed", reason="too many")
    log.warning("refused", reason="garbage")
    assert written.lines[10:] == [("closed", {"reason": "too many"}), ("refused", {"reason": "garbage"})]


def test_where_reasons_are_many_another_field_keeps_kinds_apart() -> None:
    written, clock = _Written(), _Clock()
    sparing = SparingLog(written, clock)
    for number in range(100):
        sparing.warning("no link", "peer", peer="a", reason=f"{number} bytes")
    sparing.warning("no link", "peer", peer="b", reason="1 byte")
    assert len(written.lines) == 11
    clock.now += 60
    sparing.tell()
    assert written.lines[11:] == [("no link", {"peer": "a", "left_out": 90, "seconds": 60})]


def test_the_end_tells_what_was_left_out_of_a_minute_that_is_not_over() -> None:
    written, clock = _Written(), _Clock()
    log = SparingLog(written, clock)
    for _ in range(12):
        log.warning("closed", reason="garbage")
    clock.now += 5
    log.tell(ending=True)
    assert written.lines[10:] == [("closed", {"reason": "garbage", "left_out": 2, "seconds": 5})]


def test_kinds_without_end_are_counted_together_within_a_minute() -> None:
    written, clock = _Written(), _Clock()
    log = SparingLog(written, clock)
    for number in range(10_000):
        log.warning("closed", reason=f"reason {number}")
    assert len(written.lines) == 64 + 10
    clock.now += 60
    log.tell()
    assert written.lines[74:] == [("too many kinds of warnings", {"left_out": 10_000 - 74, "seconds": 60})]
    log.warning("closed", reason="reason 1")
    assert written.lines[75:] == [("closed", {"reason": "reason 1"})]
