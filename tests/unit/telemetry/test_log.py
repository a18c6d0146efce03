"""Log lines: fixed message, fields, no bodies, no forged lines."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from logherd.telemetry.log import VALUE_LENGTH_MAX, Log, configure


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger("logherd")
    before = root.handlers[:], root.level, root.propagate
    yield
    root.handlers[:], root.level, root.propagate = before[0], before[1], before[2]


def written(style: str, write: object, level: int = logging.INFO) -> str:
    stream = io.StringIO()
    configure(stream, style=style, level=level)  # type: ignore[arg-type]
    write(Log("logherd.test", role="leader"))  # type: ignore[operator]
    return stream.getvalue()


def test_a_text_line_is_message_then_fields() -> None:
    line = written("text", lambda log: log.info("role changed", old="follower", epoch=7, cause="vote won"))
    assert line.endswith('Z INFO logherd.test: role changed role=leader old=follower epoch=7 cause="vote won"\n')


def test_a_json_line_is_an_object() -> None:
    entry = json.loads(written("json", lambda log: log.warning("refused", epoch=7, ok=False, time="noon")))
    assert (entry["message"], entry["level"], entry["source"]) == ("refused", "WARNING", "logherd.test")
    assert entry["time"] != "noon"
    assert (entry["role"], entry["epoch"], entry["ok"]) == ("leader", 7, False)


@pytest.mark.parametrize("style", ["text", "json"])
def test_bytes_are_never_written(style: str) -> None:
    line = written(style, lambda log: log.info("got", body=b"secret", view=memoryview(b"secret")))
    assert "secret" not in line
    assert line.count("<6 bytes>") == 2


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_peer_cannot_forge_a_line(style: str) -> None:
    line = written(style, lambda log: log.info("got", name="a\nINFO broker: all is well\x1b[2J"))
    assert line.count("\n") == 1
    assert "\x1b" not in line


def test_long_values_are_cut() -> None:
    line = written("text", lambda log: log.info("got", name="x" * 10_000))
    assert len(line) < VALUE_LENGTH_MAX + 200


def test_an_error_carries_its_traceback() -> None:
    def write(log: Log) -> None:
        log.error("failed", cause=ValueError("why"))

    assert "ValueError: why" in written("text", write)
    assert "ValueError: why" in json.loads(written("json", write))["traceback"]


def test_levels_below_the_configured_one_are_silent() -> None:
    assert written("text", lambda log: log.debug("detail")) == ""
    assert "detail" in written("text", lambda log: log.debug("detail"), logging.DEBUG)


def test_bound_fields_are_on_every_line() -> None:
    assert "peer=a" in written("text", lambda log: log.bind(peer="a").info("got"))
