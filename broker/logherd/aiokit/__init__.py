"""Asyncio structure: task guard, orderly stop, bounded queue.

The only room that creates bare tasks. Knows nothing of the protocol or the store."""
