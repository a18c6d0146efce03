"""Identifiers and numbers of the field. One word for one thing; see ARCHITECTURE.md for the glossary."""

from typing import NewType

__all__ = ["BrokerId", "Epoch", "Position", "QueueId", "QueueOffset"]

Position = NewType("Position", int)
"""A byte in the log, counted from its first byte ever. Opaque and not dense: never compute "the next one"."""

QueueOffset = NewType("QueueOffset", int)
"""The number of a message in its queue: 0, 1, 2, ..."""

QueueId = NewType("QueueId", int)
BrokerId = NewType("BrokerId", int)
Epoch = NewType("Epoch", int)
