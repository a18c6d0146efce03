"""Pulls: checks, filters by tag, the read itself, and long polling.

Decides what a consumer gets and when; messages stay slices of the log's files and are never looked into."""

from logherd.service.pull.handler import PullHandler
from logherd.service.pull.hold import Hold
from logherd.service.pull.options import PullOptions

__all__ = ["Hold", "PullHandler", "PullOptions"]
