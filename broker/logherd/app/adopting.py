"""Taking over a store that RocketMQ wrote: its topics, groups and offsets are in files beside the log, `config/*.json`.

The log may have been ours before: then they replace what it says itself, which is as old as the export. Opening a store
makes it ours, so `config/adopting` is written before; it goes once what was taken is durable, before clients come.
"""

from pathlib import Path

from logherd.kit.clock import Clock
from logherd.service.metadata import CHANGES, Metadata, MetadataDamagedError
from logherd.service.metadata.reserved import is_system_group, is_system_topic
from logherd.service.metadata.rocketmq import (
    CONFIG_FILES,
    Adopted,
    AdoptionError,
    adopt_config,
    check_config,
    configured_names,
)
from logherd.service.metadata.store_log import StoreLog
from logherd.store import MessageStore
from logherd.store.files import Files
from logherd.store.recovery import look
from logherd.store.recovery_rows import StoreAction
from logherd.store.whole_file import replace_file
from logherd.telemetry.log import Log

__all__ = ["adopt_files", "adopting_ends", "expect_adoption", "is_adopting", "open_metadata", "replace_metadata"]

_log = Log("logherd.store")

_MARK = "adopting"
_BATCH_QUEUES = "batchconsumequeue"
_SHOWN_TOPICS = 10


def expect_adoption(files: Files, data_dir: str) -> None:
    """Before the store is opened: note it if RocketMQ wrote it. Blocks; durable. Raises: StoreError, OSError;
    AdoptionError if topics of it keep a batch as one record, and nothing was changed."""
    if look(files, data_dir).row.action is StoreAction.ADOPT:
        _refuse_batch_queues(files, f"{data_dir}/{_BATCH_QUEUES}")
        files.make_directory(f"{data_dir}/config")
        files.sync_dir(data_dir)
        replace_file(files, f"{data_dir}/config", _MARK, (b"topics, groups and offsets are to be taken over\n",))


def _refuse_batch_queues(files: Files, directory: str) -> None:
    """Such a record takes as many numbers of its queue as it has messages: it would be taken for damage."""
    topics = [
        topic for topic in files.list(directory)
        if any(files.list(f"{directory}/{topic}/{queue}") for queue in files.list(f"{directory}/{topic}"))
    ]  # fmt: skip
    if topics:
        shown = ", ".join(topics[:_SHOWN_TOPICS]) + (", ..." if len(topics) > _SHOWN_TOPICS else "")
        raise AdoptionError(
            f"{directory}: {len(topics)} topics of this store are of RocketMQ's type BatchCQ ({shown}), whose batches "
            "are not read here; nothing was changed. Have them consumed and deleted at RocketMQ, and take the store "
            "over when it has deleted the log files that hold them"
        )


def open_metadata(store: MessageStore, clock: Clock, *, host: bytes) -> Metadata:
    """`Metadata.open` of a store that RocketMQ may have had meanwhile.

    Raises: as that; AdoptionError if RocketMQ had it and deleted a part of what LogHerd wrote before.
    """
    log = StoreLog(store, clock, host=host)
    try:
        return Metadata.open(log, clock)
    except MetadataDamagedError as error:
        first, end = log.bounds(CHANGES)
        if not store.recovery.bare_end or not first or first == end:
            raise
        last = [entry.end for entry in log.read(CHANGES, end - 1, log.end_position)]
        raise AdoptionError(
            f"RocketMQ has deleted a part of what LogHerd had written into this log ({error}); the store can be taken "
            f"when RocketMQ has deleted everything below position {last[0]} (its fileReservedTime says when)"
        ) from error


def adopt_files(files: Files, data_dir: str, store: MessageStore, metadata: Metadata) -> None:
    """Take over RocketMQ's files of topics, groups and offsets, if they are there and that is still to be done.

    Durable: no; see `adopting_ends`. Raises: AdoptionError, MetadataRefusedError, OSError.
    """
    directory = Path(data_dir) / "config"
    expected = is_adopting(files, data_dir)
    if not metadata.is_new and not expected:
        return
    found = {name: content for name in CONFIG_FILES if (content := _kept(directory, name)) is not None}
    if expected and (lacking := [name for name in CONFIG_FILES if name not in found]):
        _log.warning(
            "files that RocketMQ keeps are not there, so nothing of them is taken over", files=", ".join(lacking)
        )
    if found and (metadata.is_new or CONFIG_FILES[0] in found):
        adopted = replace_metadata(store, metadata, found)
        _log.info("RocketMQ store adopted", topics=adopted.topics, groups=adopted.groups, offsets=adopted.offsets)


def is_adopting(files: Files, data_dir: str) -> bool:
    """Whether what is to be taken over is not known to be durable."""
    return files.size(f"{data_dir}/config/{_MARK}") is not None


def _kept(directory: Path, name: str) -> bytes | None:
    """What RocketMQ would start with: a file, or the copy of its former content, where it was killed as it wrote that.

    Source: apache/rocketmq: common/src/main/java/org/apache/rocketmq/common/ConfigManager.java (load, loadBak)
    """
    found = {path.name: path.read_bytes() for path in (directory / name, directory / f"{name}.bak") if path.is_file()}
    content = next((each for each in found.values() if _is_whole(name, each)), None)
    if content is None:
        return next(filter(None, found.values()), None)  # for who says what is wrong with it
    if content is not found.get(name):
        _log.warning("a file of RocketMQ's is missing or damaged; its backup was taken", file=name)
    return content


def _is_whole(name: str, content: bytes) -> bool:
    try:
        check_config({name: content})
    except AdoptionError:
        return False
    return bool(content)


def adopting_ends(files: Files, data_dir: str) -> None:
    """What was taken over is durable. Blocks. Raises: OSError."""
    directory = f"{data_dir}/config"
    if is_adopting(files, data_dir):
        files.unlink(f"{directory}/{_MARK}")
        files.sync_dir(directory)


def replace_metadata(store: MessageStore, metadata: Metadata, files: dict[str, bytes]) -> Adopted:
    """Put RocketMQ's topics, groups and offsets into the log, in place of what an earlier broker of ours left there."""
    topics, groups = configured_names(files)
    for topic in [each.name for each in metadata.topics]:
        if topic not in topics and not is_system_topic(topic):
            metadata.topics.delete(topic)
            store.delete_topic(topic)
    for group in [each.name for each in metadata.groups]:
        if group not in groups and not is_system_group(group):
            metadata.groups.delete(group, clean_offsets=True)

    def end_of(topic: str, queue_id: int) -> int:
        queue = store.find_queue(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    return adopt_config(metadata, files, end_of=end_of)
