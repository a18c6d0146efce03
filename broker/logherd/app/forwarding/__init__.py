"""Forwarding in a process: links to the leader, the broker port's gate, and the leader's reception for other brokers.

The shell around `service.forwarding`. Belongs to the event loop's thread; decides nothing about requests itself and
does not know how a leader is made."""
