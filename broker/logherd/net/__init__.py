"""Asyncio sockets around wire: server, connection, outgoing client connection, limits and back-pressure.

Knows frames and limits; does not know what a request means."""
