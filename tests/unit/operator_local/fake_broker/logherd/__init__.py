"""Stands in for the broker package in tests of `logherd up`: PYTHONPATH puts it first."""
