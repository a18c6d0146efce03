"""The log of a group's member on files: what `raft` asks of a log store, made of what `store` knows of disks.

Two sides. `RaftLog` is the owner's: every change is seen at once, nothing blocks. `LogFiles` is the writer thread's:
it makes batches of changes durable in their order, and blocks. The whole retained log is also in memory; images and
compaction keep it small.

Decides nothing of consensus and never awaits; knows no socket, clock or thread. The broker's message log is not kept
here: it has RocketMQ's layout and lives in `store`.
"""

from logherd.raftlog.log import Batch, RaftLog
from logherd.raftlog.options import RaftLogOptions
from logherd.raftlog.recovery import Recovered

__all__ = ["Batch", "RaftLog", "RaftLogOptions", "Recovered"]
