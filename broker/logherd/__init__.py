"""LogHerd: a replicated message log that stock Apache RocketMQ clients use unchanged."""

__version__ = "0.1.0"
