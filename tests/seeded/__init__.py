"""Deliberate defects, applied as patches, which the simulation must catch: the proof that it can fail."""
