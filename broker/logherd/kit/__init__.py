"""Standard-library helpers without I/O: ensure(), checksums, hashes, clock protocols.

Knows nothing of messages, brokers or files; every other room may import it."""
