"""Judges of recorded histories: what was acknowledged, what was read, and whether both fit one log."""
