"""One replica of a broker group's log: the message store as what shipping sends from and appends to.

Synchronous, one owner, as the store is. Knows epochs, but not who leads, nor what is committed, nor any socket."""

from logherd.replica.log import LogStartGone, ReplicaStore
from logherd.replica.notes import NOTES_TOPIC, NotedStore

__all__ = ["NOTES_TOPIC", "LogStartGone", "NotedStore", "ReplicaStore"]
