"""Builds and connects everything: start and stop order, the writer thread, the event loop.

The only place that knows all rooms; holds no protocol logic of its own."""
