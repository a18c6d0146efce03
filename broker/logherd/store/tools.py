"""What can be done with a store while no broker has it open: verify, repair, hand over to RocketMQ.

Functions with typed results; the command line prints them. None of them knows what metadata means: the content of
RocketMQ's config files is made elsewhere and passed in.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from logherd.kit.clock import Clock
from logherd.store.checkpoint import CHECKPOINT_SIZE, decode_checkpoint
from logherd.store.errors import StoreError
from logherd.store.export import ExportReport, export_files
from logherd.store.files import Files
from logherd.store.files_os import OsFiles, ReadOnlyFiles
from logherd.store.format_file import FORMAT_BYTES_MAX, FormatFile, decode_format, format_path
from logherd.store.options import DerivedOptions, LogOptions, StoreOptions
from logherd.store.readable import read_or_empty
from logherd.store.repair import RepairPlan, RepairStep, repair_files
from logherd.store.segment import segment_start
from logherd.store.store import MessageStore
from logherd.store.verify import FileReport, VerifyReport, verify_files

__all__ = [
    "ExportReport", "FileReport", "RepairPlan", "RepairStep", "VerifyReport", "ensure_own", "export_rocketmq",
    "options_of", "repair", "segment_sizes", "verify",
]  # fmt: skip

_OWN_FILES = ("checkpoint", "store.json")


def verify(
    directory: Path, files: Files | None = None, *, seen: Callable[[int, int], None] = lambda _done, _of: None
) -> VerifyReport:  # fmt: skip
    """Read a closed store in full: every record's checksums, every unit of every queue, the index's chains.

    `seen` is told at each record how many bytes of the log are read, and of how many.
    Changes nothing. Blocks for as long as reading takes, about 1 s per 200 MB.
    Raises: StoreInUse, StoreError if there is no log, OSError.
    """
    files, root = files or ReadOnlyFiles(), str(directory)
    if not files.list(f"{root}/commitlog"):
        raise StoreError(f"{root} holds no commit log")
    options = options_of(directory, files).derived
    page = read_or_empty(files, f"{root}/checkpoint", CHECKPOINT_SIZE)
    checkpoint = decode_checkpoint(page) if page is not None else None
    return verify_files(
        files, root, checkpoint=checkpoint, units_per_file=options.queue_file_units, index_slots=options.index_slots,
        seen=seen,
    )  # fmt: skip


def repair(
    directory: Path, *, apply: bool, files: Files | None = None, before: Callable[[RepairPlan], None] = lambda _: None
) -> RepairPlan:
    """Say what must be dropped so that the store opens again, and with `apply` do it, keeping copies in `dropped/`.

    `before` is told what will be done to the log before anything is changed, and may raise.
    No steps: there is nothing to repair (a torn tail is cut when the store is opened).
    Raises: StoreInUse, StoreVersionError, StoreError if there is no store, OSError.
    """
    files, root = files or (OsFiles() if apply else ReadOnlyFiles()), str(directory)
    if not files.list(f"{root}/commitlog") and all(files.size(f"{root}/{name}") is None for name in _OWN_FILES):
        raise StoreError(f"{root} holds no store")
    plan = repair_files(files, root, apply=False)
    derive = not plan.steps and any(
        row.problems for row in verify(directory, files).rows if row.kind in ("queue", "queue list", "index")
    )
    if apply:
        before(plan)
    return repair_files(files, root, apply=apply, derive=derive) if apply or derive else plan


def ensure_own(directory: Path, files: Files | None = None) -> None:
    """Is there a store of ours? Opening it would make one of anything, and what RocketMQ keeps beside its log is in no
    record of it: so an export would write files of nothing over those.

    Raises: StoreError if it is none.
    """
    files = files or OsFiles()
    if files.size(format_path(str(directory))) is not None:
        return
    if files.list(f"{directory}/commitlog"):
        raise StoreError(f"{directory} holds a store of RocketMQ's, which no broker of LogHerd has taken over")
    raise StoreError(f"{directory} holds no store")


def export_rocketmq(directory: Path, out: Path | None, config: Mapping[str, bytes], *, clock: Clock) -> ExportReport:
    """Make a closed store one that RocketMQ 5.3 opens: in place (`out` None), or as a copy in an empty directory.

    `config` maps file names ("topics.json") to their content. In place the store is RocketMQ's afterwards; opening it
    with LogHerd again adopts it, which reads the whole log.
    Raises: StoreError if it is no store of ours, or its files have lengths that RocketMQ does not open; what
    MessageStore.open raises; OSError.
    """
    ensure_own(directory)
    options = options_of(directory)
    MessageStore.open(directory, options, OsFiles(), clock=clock).close()  # brings all derived files up to the log
    derived = options.derived
    return export_files(
        directory, out, config, queue_units=derived.queue_file_units,
        index_geometry=(derived.index_slots, derived.index_entries),
    )  # fmt: skip


def options_of(directory: Path, files: Files | None = None) -> StoreOptions:
    """Options under which opening the store changes none of its lengths, and leaves a replica's what it is. Where
    `store.json` is missing the log's files tell theirs; else defaults."""
    files = files or OsFiles()
    _, found = decode_format(read_or_empty(files, format_path(str(directory)), FORMAT_BYTES_MAX))
    known = found or FormatFile(product="", format=0)
    checkpoint = decode_checkpoint(read_or_empty(files, f"{directory}/checkpoint", CHECKPOINT_SIZE) or b"")
    log, derived = LogOptions(), DerivedOptions()
    return StoreOptions(
        log=LogOptions(
            segment_bytes=max(known.segment_bytes or segment_sizes(directory, files), default=log.segment_bytes),
            reserve_bytes=0,
        ),
        derived=DerivedOptions(
            queue_file_units=known.queue_file_units or derived.queue_file_units,
            index_slots=known.index_slots or derived.index_slots,
            index_entries=known.index_entries or derived.index_entries,
        ),
        replicated=checkpoint is not None and checkpoint.committed is not None,
    )


def segment_sizes(directory: Path, files: Files | None = None) -> tuple[int, ...]:
    """Every length that a file of this store's log has, in bytes."""
    files = files or OsFiles()
    log = f"{directory}/commitlog"
    sizes = (files.size(f"{log}/{name}") for name in files.list(log) if segment_start(name) is not None)
    return tuple(sorted({size for size in sizes if size}))
