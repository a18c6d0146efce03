"""Which files of a store take their whole length from the start (H3)."""

from pathlib import Path

from logherd.store.files_os import OsFiles
from store.test_adoption import SEGMENT, rocketmq_store
from unit.store.helpers import append, flush, open_store, settle


def test_h3_only_files_of_the_log_take_their_whole_length_and_queues_and_indexes_grow(tmp_path: Path) -> None:
    """A thousand queues of one message each must not take a thousand files of 6 MB."""
    store = open_store(OsFiles(), tmp_path, log={"segment_bytes": 65_536})
    for number in range(3):
        append(store, body=b"%d" % number, properties=b"KEYS\x01k\x02")
    flush(store)
    settle(store)
    store.close()
    sizes = {
        path.relative_to(tmp_path).parts[0]: path.stat().st_size for path in tmp_path.rglob("0*") if path.is_file()
    }
    assert sizes["commitlog"] == 65_536
    assert sizes["consumequeue"] == 3 * 20
    (index,) = [path for path in (tmp_path / "index").iterdir() if path.is_file()]
    assert index.stat().st_size == 40 + 32 * 4 + 4 * 20  # the entry 0 is nobody's


def test_of_a_store_of_rocketmqs_the_files_that_the_log_goes_on_into_get_all_their_blocks(tmp_path: Path) -> None:
    """It makes them of holes. On a full disk the first record in one ends the store, whatever the reserve is for."""
    disk, _, end = rocketmq_store(3)
    for path, inode in disk.names.items():
        target = tmp_path / path.removeprefix("/data/")
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            file.write(inode.content()[:end])
            file.truncate(inode.size)
    files = [tmp_path / "commitlog" / f"{start:020d}" for start in (0, SEGMENT)]
    assert all(path.stat().st_blocks * 512 < SEGMENT for path in files)
    store = open_store(OsFiles(), tmp_path)
    assert store.recovery.store == "RocketMQ's"
    assert all(path.stat().st_blocks * 512 >= SEGMENT for path in files)
    store.close()
