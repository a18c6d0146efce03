"""A member of a Raft group in a process: core, log, writer thread and state machine, driven together."""
