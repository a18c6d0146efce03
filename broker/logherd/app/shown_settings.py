"""The configuration under RocketMQ's names, as `mqadmin getBrokerConfig` prints it: what has a counterpart there."""

from logherd.service.identity import BrokerIdentity
from logherd.settings.options import BrokerOptions

__all__ = ["shown_settings"]

_FLUSH = {"sync": "SYNC_FLUSH", "async": "ASYNC_FLUSH"}
_HOUR_MS = 3_600_000


def shown_settings(options: BrokerOptions, identity: BrokerIdentity) -> dict[str, object]:
    """Settings that are fixed while the broker runs."""
    host, _, port = identity.address.rpartition(":")
    storage, names = options.store, options.name_service
    # A port that the system chose is not in the configuration; the admin port's status tells it.
    addresses = names.addresses if names.mode == "external" else (names.listen,) if names.listen.port else ()
    return {
        "brokerIP1": host,
        "listenPort": port,
        "namesrvAddr": ";".join(map(str, addresses)),
        "brokerRole": "ASYNC_MASTER",
        "storePathRootDir": options.data_dir,
        "flushDiskType": _FLUSH[options.flush],
        "flushIntervalCommitLog": storage.async_flush_interval_ms,
        "mappedFileSizeCommitLog": storage.segment_bytes,
        "mappedFileSizeConsumeQueue": storage.queue_file_entries * 20,
        "maxHashSlotNum": storage.index_slots,
        "maxIndexNum": storage.index_entries,
        "maxMessageSize": storage.message_bytes_max,
        "fileReservedTime": storage.retention.age_ms // _HOUR_MS,
        "deleteWhen": f"{storage.retention.delete_hour:02d}",
        "defaultTopicQueueNums": options.topics.default_queues,
        "autoCreateSubscriptionGroup": options.topics.auto_create_groups,
    }
