"""`logherd store export --rocketmq`: make a closed store one that RocketMQ opens, in place or as a copy.

RocketMQ wants every queue and index file at its full length, zeros behind what is used, and settings in
`config/*.json`. Files of ours go away: what RocketMQ appends has no checksum of ours, so a store that comes back is
adopted anew. A replica's comes back as none: RocketMQ appends in the epoch of the log's end, so nothing could tell that
from what the group has at the same positions.

Source: apache/rocketmq: store/src/main/java/org/apache/rocketmq/store/ConsumeQueue.java (fillPreBlank, recover)
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from logherd.store.checkpoint import CHECKPOINT_SIZE
from logherd.store.consume_queue import UNIT, UNIT_SIZE
from logherd.store.errors import StoreError
from logherd.store.files_os import OsFiles
from logherd.store.queue_files import queue_directory, queue_file_name
from logherd.store.queue_list import QueueEntry
from logherd.store.segment import segment_start
from logherd.store.verify import listed_queues

__all__ = ["ExportReport", "export_files"]

_JAVA_FIELDS_SIZE = 40
_REPLICAS = (
    "unflushed.json", "unflushed.json.spare", "roles.json", "roles.json.spare", "replica.json", "replica.json.spare",
    "roster.json",
)  # fmt: skip
_OURS = ("queues", "queues.new", "abort", "damage.json", *_REPLICAS)
_BLANK_UNIT = UNIT.pack(0, 0x7FFFFFFF, 0)
_QUEUE_UNITS = 300_000
_INDEX_SLOTS, _INDEX_ENTRIES = 5_000_000, 20_000_000
_INDEX_BYTES = 40 + 4 * _INDEX_SLOTS + 20 * _INDEX_ENTRIES


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was made. `notes` say what RocketMQ will miss or must be told."""

    directory: Path
    segments: int
    segment_bytes: int
    queues: int
    index_files: int
    notes: tuple[str, ...]


def export_files(
    directory: Path, out: Path | None, config: Mapping[str, bytes], *, queue_units: int, index_geometry: tuple[int, int]
) -> ExportReport:
    """Complete a store that was closed in order and whose derived files are up to date. See tools.export_rocketmq."""
    queues = [entry for entry in listed_queues(OsFiles(), str(directory)) if entry.units]  # others may have no folder
    sizes = {path.stat().st_size for path in _segments(directory)}
    if len(sizes) > 1:
        raise StoreError(f"segments of {sorted(sizes)} bytes: RocketMQ opens a store only if all have one length")
    if queue_units != _QUEUE_UNITS:
        raise StoreError(f"queue files of {queue_units} units: RocketMQ's have {_QUEUE_UNITS}")
    target = directory if out is None else out
    if out is not None:
        _copy(directory, out)
    notes = [f"set mappedFileSizeCommitLog={size} in RocketMQ" for size in sizes if size != 1 << 30]
    index_files = _complete_index(target, index_geometry, notes)
    for entry in queues:
        _complete_queue(target, entry)
    _write_config(target, config)
    with (target / "checkpoint").open("r+b") as checkpoint:
        checkpoint.seek(_JAVA_FIELDS_SIZE)
        checkpoint.write(bytes(CHECKPOINT_SIZE - _JAVA_FIELDS_SIZE))
    for name in _OURS:
        (target / name).unlink(missing_ok=True)
    os.sync()
    # Last, because until then it is ours, and what was cut off can be done again.
    (target / "store.json").unlink(missing_ok=True)
    os.sync()
    return ExportReport(
        target, len(list(_segments(target))), min(sizes, default=0), len(queues), index_files, tuple(notes)
    )


def _segments(directory: Path) -> list[Path]:
    return [path for path in sorted((directory / "commitlog").iterdir()) if segment_start(path.name) is not None]


def _copy(directory: Path, out: Path) -> None:
    """Full segments are never written again, so they are linked where possible; all else is copied."""
    if out.exists() and any(out.iterdir()):
        raise StoreError(f"{out} is not empty")
    (out / "commitlog").mkdir(parents=True)
    segments = _segments(directory)
    for path in segments[:-2]:
        try:
            os.link(path, out / "commitlog" / path.name)
        except OSError:  # another file system
            shutil.copyfile(path, out / "commitlog" / path.name)
    for path in segments[-2:]:
        _copy_sparse(path, out / "commitlog" / path.name)
    for name in ("consumequeue", "index"):
        if (directory / name).is_dir():
            shutil.copytree(directory / name, out / name)
    shutil.copyfile(directory / "checkpoint", out / "checkpoint")


def _copy_sparse(source: Path, target: Path) -> None:
    with source.open("rb") as read, target.open("wb") as written:
        while block := read.read(1 << 20):
            if block.count(0) == len(block):
                written.seek(len(block), os.SEEK_CUR)
            else:
                written.write(block)
        written.truncate(source.stat().st_size)


def _complete_queue(target: Path, entry: QueueEntry) -> None:
    """Give the queue's files their full length, and blank units before its first as RocketMQ writes them."""
    directory = Path(queue_directory(str(target), entry.topic, entry.queue_id))
    for path in directory.iterdir():
        os.truncate(path, _QUEUE_UNITS * UNIT_SIZE)
    within = entry.first % _QUEUE_UNITS
    first = directory / queue_file_name(entry.first - within)
    if within and first.exists():
        with first.open("r+b") as file:
            file.write(_BLANK_UNIT * within)


def _complete_index(target: Path, geometry: tuple[int, int], notes: list[str]) -> int:
    directory = target / "index"
    if geometry != (_INDEX_SLOTS, _INDEX_ENTRIES):
        shutil.rmtree(directory, ignore_errors=True)
        notes.append(f"the key index has another geometry {geometry} and was left out: old messages have no keys")
        return 0
    files = sorted(directory.iterdir()) if directory.is_dir() else []
    for path in files:
        os.truncate(path, _INDEX_BYTES)
    return len(files)


def _write_config(target: Path, config: Mapping[str, bytes]) -> None:
    (target / "config").mkdir(exist_ok=True)
    for name, content in config.items():
        (target / "config" / name).write_bytes(content)
