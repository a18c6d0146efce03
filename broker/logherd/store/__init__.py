"""The log on disk: segments, commit log, consume queues, key index, checkpoint, recovery.

Synchronous, single owner, reaches files only through the Files protocol. Knows no socket, event loop or wire header."""
