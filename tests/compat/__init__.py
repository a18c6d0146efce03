"""Proof that stock RocketMQ clients use LogHerd unchanged: real clients, real `mqadmin`, a real broker beside it."""
