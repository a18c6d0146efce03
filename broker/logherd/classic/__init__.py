"""RocketMQ's classic HA protocol, both sides: `SlaveFeed` serves a Java slave, `MasterFeed` follows a Java master.

Pure: step(input, now) -> output over a log that is reached through a protocol; no socket, file or clock. The protocol
has no epochs, no handshake and no comparison, so what it lacks is added on our side, where that can be done (H8):

1. Only committed bytes are given to a slave, and from the log's beginning, not from its last file on.
2. What a slave acknowledges is in its memory, not on its disk: it opens the window for more, and counts for nothing.
3. A follower compares what it has with what the master has, over a stretch, before it appends the first byte.
4. A follower reports what is on its disk.
"""
