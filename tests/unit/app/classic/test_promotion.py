"""A store that follows a RocketMQ master: who may open it, and what becomes of it by hand."""

import json
from pathlib import Path

import pytest

from logherd.app.classic.promotion import promote
from logherd.app.classic.side_files import FollowerFileError, Marker, Pulled, SideFiles
from logherd.app.clock import SystemClock
from logherd.model.host import encode_host
from logherd.service.metadata import Metadata
from logherd.service.metadata.store_log import StoreLog
from logherd.store import MessageStore, StoreOptions
from logherd.store.files_os import OsFiles
from logherd.store.options import LogOptions
from unit.store.bare import bare_record
from unit.store.helpers import bodies, flush

CLOCK = SystemClock()
OPTIONS = {"log": LogOptions(segment_bytes=1 << 20, reserve_bytes=0, record_bytes_max=1 << 18), "bare": True}


def topic(name: str) -> dict[str, object]:
    return {"topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}


def config(*topics: str, offset: int = 2) -> dict[str, str]:
    """As a master sends it: numbers as bare keys, which is no JSON."""
    table = json.dumps({"topicConfigTable": {name: topic(name) for name in topics}})
    groups = json.dumps({"subscriptionGroupTable": {"g": {"groupName": "g"}}})
    return {
        "topics.json": table, "subscriptionGroup.json": groups,
        "consumerOffset.json": f'{{"offsetTable":{{"T@g":{{0:{offset},1:7}}}}}}',
        "delayOffset.json": '{"offsetTable":{3:5}}',
    }  # fmt: skip


def follower(directory: Path, count: int = 5, *, pulled: dict[str, str] | None = None) -> SideFiles:
    """A closed store with messages of a master, and what was pulled from it."""
    side = SideFiles(OsFiles(), directory)
    directory.mkdir(exist_ok=True)
    side.begin("c/g")
    store = MessageStore.open(directory, StoreOptions(**OPTIONS), OsFiles(), clock=CLOCK)
    for number in range(count):
        store.append_raw(bare_record(store.end_position, queue_offset=number), store.end_position)
    flush(store)
    end = store.end_position
    store.close()
    if pulled is not None:
        side.keep_pulled(Pulled(pulled_ms=CLOCK.now_ms(), master_end=end + 10, files=pulled))
    return side


def read(directory: Path) -> tuple[MessageStore, Metadata]:
    values = StoreOptions(log=OPTIONS["log"])
    store = MessageStore.open(directory, values, OsFiles(), clock=CLOCK)
    return store, Metadata.read(StoreLog(store, CLOCK, host=encode_host("127.0.0.1", 1)), CLOCK)


def test_a_promotion_appends_what_the_master_said_and_tells_what_is_missing(tmp_path: Path) -> None:
    side = follower(tmp_path / "s", pulled=config("T", "U"))
    made = promote(tmp_path / "s", CLOCK)
    assert (made.missing_bytes, made.topics, made.groups, made.offsets) == (10, 2, 1, 2)
    assert side.marker() is None
    side.refuse()
    store, metadata = read(tmp_path / "s")
    assert len(bodies(store)) == 5
    assert {each.name for each in metadata.topics} >= {"T", "U"}
    assert metadata.offsets.get("g", "T", 0) == 2
    assert store.end_position > made.position
    assert json.loads((tmp_path / "s" / "config" / "delayOffset.json").read_text().replace("3:", '"3":'))
    store.close()


def test_an_offset_beyond_what_has_arrived_is_taken_back_to_the_end_of_the_queue(tmp_path: Path) -> None:
    follower(tmp_path / "s", pulled=config("T", offset=9))
    promote(tmp_path / "s", CLOCK)
    store, metadata = read(tmp_path / "s")
    assert metadata.offsets.get("g", "T", 0) == 5
    assert metadata.offsets.get("g", "T", 1) == 0
    store.close()


def test_a_promotion_that_is_repeated_tells_the_same_of_the_masters_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = follower(tmp_path / "s", pulled=config("T"))

    def interrupted(_: SideFiles) -> None:
        raise OSError("no space")

    with monkeypatch.context() as ending:
        ending.setattr(SideFiles, "end", interrupted)
        with pytest.raises(OSError, match="no space"):
            promote(tmp_path / "s", CLOCK)
    pulled = side.pulled()
    assert pulled is not None
    made = promote(tmp_path / "s", CLOCK)
    assert (made.position, made.missing_bytes) == (pulled.master_end - 10, 10)


def test_a_promotion_that_was_interrupted_is_repeated_and_forbids_to_follow(tmp_path: Path) -> None:
    side = follower(tmp_path / "s", pulled=config("OLD"))
    promote(tmp_path / "s", CLOCK)
    side.keep_marker(Marker(group="c/g", state="promoting"))
    side.keep_pulled(Pulled(pulled_ms=1, master_end=0, files=config("T")))
    with pytest.raises(FollowerFileError, match="was to be promoted"):
        side.begin("c/g")
    promote(tmp_path / "s", CLOCK)
    store, metadata = read(tmp_path / "s")
    names = {each.name for each in metadata.topics}
    assert "T" in names
    assert "OLD" not in names
    store.close()


def test_only_a_follower_with_metadata_is_promoted(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(FollowerFileError, match="follows no RocketMQ master"):
        promote(tmp_path / "none", CLOCK)
    follower(tmp_path / "s")
    with pytest.raises(FollowerFileError, match="no topics, groups and offsets"):
        promote(tmp_path / "s", CLOCK)


def test_a_store_is_either_a_followers_or_a_brokers(tmp_path: Path) -> None:
    side = follower(tmp_path / "s", pulled=config("T"))
    with pytest.raises(FollowerFileError, match="logherd store promote"):
        side.refuse()
    with pytest.raises(FollowerFileError, match="follows a master of c/g, not of c/other"):
        side.begin("c/other")
    side.begin("c/g")
    promote(tmp_path / "s", CLOCK)
    with pytest.raises(FollowerFileError, match="holds a LogHerd store that follows nobody"):
        side.begin("c/g")


@pytest.mark.parametrize(
    "text",
    ['{"format":1', '{"format":2,"group":"c/g","state":"following"}',
     '{"format":1,"group":"c/g","state":"following","unheard":1}'],
)  # fmt: skip
def test_a_marker_that_cannot_be_believed_is_refused(tmp_path: Path, text: str) -> None:
    side = follower(tmp_path / "s")
    (tmp_path / "s" / "classic" / "follower.json").write_text(text)
    with pytest.raises(FollowerFileError, match=r"is damaged: |is of format 2|unknown field `unheard`"):
        side.refuse()
