"""Metadata of a broker group: topics, groups, consumer offsets and epochs, kept as records of the log itself.

Decides what is appended and what it means; never sees a client, a request or a file."""

from logherd.service.metadata.changes import QueueName, Version
from logherd.service.metadata.defaults import DefaultsOptions, ensure_defaults
from logherd.service.metadata.errors import MetadataDamagedError, MetadataError, MetadataRefusedError, NotLeading
from logherd.service.metadata.journal import CHANGES, METADATA_TOPIC, SNAPSHOTS, Entry, MetadataLog
from logherd.service.metadata.offsets import Offsets
from logherd.service.metadata.owners import Owners
from logherd.service.metadata.rebuild import barriers
from logherd.service.metadata.reserved import is_reserved, is_system_group, is_system_topic
from logherd.service.metadata.state import Metadata, MetadataOptions
from logherd.service.metadata.store_log import StoreLog
from logherd.service.metadata.tables import Groups, TopicChange, Topics
from logherd.service.metadata.writer_changes import ChunkStored, WriterPut
from logherd.service.metadata.writers import Chunk, Stream, Writer, Writers

__all__ = [
    "CHANGES", "METADATA_TOPIC", "SNAPSHOTS", "Chunk", "ChunkStored", "DefaultsOptions", "Entry", "Groups",
    "Metadata", "MetadataDamagedError", "MetadataError", "MetadataLog", "MetadataOptions", "MetadataRefusedError",
    "NotLeading", "Offsets", "Owners", "QueueName", "StoreLog", "Stream", "TopicChange", "Topics", "Version",
    "Writer", "WriterPut", "Writers", "barriers", "ensure_defaults", "is_reserved", "is_system_group",
    "is_system_topic",
]  # fmt: skip
