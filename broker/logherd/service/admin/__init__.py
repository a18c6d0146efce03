"""Questions and orders of operators: topics, groups, progress, configuration, runtime figures, statistics.

Every change goes through the metadata. Knows the store only by what it tells about queues and records."""
