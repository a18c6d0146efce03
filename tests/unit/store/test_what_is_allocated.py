"""Which files of a store take their whole length from the start (H3)."""

from pathlib import Path

from logherd.store.files_os import OsFiles
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
