"""Identifiers and numbers of the field. One word for one thing; see ARCHITECTURE.md for the glossary."""

from typing import NewType

__all__ = ["Epoch", "Position"]

Position = NewType("Position", int)
"""A byte in the log, counted from its first byte ever. Opaque and not dense: never compute "the next one"."""

Epoch = NewType("Epoch", int)
"""The number of a leadership; in Raft, its term."""
