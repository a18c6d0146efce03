"""Seeded simulation of the pure cores: one number gives the group, the faults, the network, the disks and the clients.

Faults that must be survived: processes that crash, pause, are wiped and replaced; power loss that keeps any prefix of
what was not flushed, of the log and of the hard state separately; over files, writes torn at any byte of the promises;
disks that stall, fail a flush, fill up, or lose what was flushed and say that they may have; a network that drops,
delays, reorders, duplicates, partitions (also one way) and delivers stragglers of closed connections; clocks that
drift; members that are added, removed, swapped; leadership handed over in the middle of all of it."""
