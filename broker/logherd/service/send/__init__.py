"""Sends: checks in RocketMQ's order, topics made by a send, stamps on properties, the append and its answer.

Decides whether and where a message is stored; never sees how a record is laid out or when it is flushed."""

from logherd.service.send.handler import SendHandler
from logherd.service.send.options import SendOptions
from logherd.service.send.properties import Stamper
from logherd.service.send.reply import ReplyHandler
from logherd.service.send.targets import Target, Targets
from logherd.service.send.unique_keys import UniqueKeys

__all__ = ["ReplyHandler", "SendHandler", "SendOptions", "Stamper", "Target", "Targets", "UniqueKeys"]
