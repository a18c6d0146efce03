"""Shipping: ranges of an append-only, position-addressed log, from one leader to its followers, whoever elects it.

Pure: step(input, now) -> output, where now is a monotonic clock in milliseconds. Knows epochs and positions, but no
socket, file, clock, election or record layout; the log is reached through the ReplicaLog protocol."""
