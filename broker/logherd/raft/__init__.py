"""Raft over a position-addressed log: who leads, what is committed, who belongs. Ships with `replication`.

Pure: step(input, now) -> output; the output says what must be flushed before what may leave. Knows no clock, random
source, file, socket, log line or wire layout; the log is reached through the LogStore protocol. In this room a Raft
term is the epoch of the records that its leader appends, and a record is known by (epoch, end position)."""
