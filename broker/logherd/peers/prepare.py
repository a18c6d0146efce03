"""Carries out a founding step on the disk, so that a crash between any two writes leads to the same end."""

from dataclasses import replace

from logherd.kit.errors import ensure
from logherd.peers.founding import Found, Join
from logherd.peers.identity import Identity, keep_identity
from logherd.raft.core import found_group
from logherd.raft.store import HardState
from logherd.raftlog.log import RaftLog
from logherd.replication.messages import ClusterId
from logherd.store.files import Files

__all__ = ["prepare_log"]


def prepare_log(files: Files, directory: str, identity: Identity, log: RaftLog, step: Found | Join) -> Identity:
    """Make this replica a member as `step` says, durably; afterwards a core may be started on `log`. Blocks.

    The intent is kept first: an empty log beside it is prepared again with the same founders, never with others. The
    mark that it was done is kept last: an empty log beside that one has lost its promises.

    Raises: StoreFull, and it may be tried again in a new process; StoreStopped, OSError.
    """
    cluster = step.cluster if isinstance(step, Join) else ClusterId(identity.cluster)
    ensure(cluster.name == identity.cluster, "a replica joins its own cluster", identity, step)
    intent = replace(identity, founders=step.founders, reset=cluster.reset, founded=False)
    if identity != intent:
        keep_identity(files, directory, intent)
    if log.hard_state() is None:
        hard = HardState(cluster, identity.replica)
        if isinstance(step, Found):
            found_group(log, hard, step.founders)
        else:
            log.keep_hard_state(hard)
        log.take_batch(0).write_and_flush()
    return keep_identity(files, directory, replace(intent, founded=True))
