"""How replicas of one group talk over TCP: envelopes as bytes, who may talk to whom, and how a group comes to be.

`codec`, `frames`, `hello`, `founding` and `outbox` are pure; `identity` keeps one small file; the links are asyncio.
A message may be lost here, never changed, and those of a kind are never reordered on one connection.

Knows neither Raft's rules nor the logs: what arrives in order is handed on, and whoever decides is told of connections.
Does not authenticate: a hello is believed unless it contradicts what is known. Never raises for what a peer sent.
"""
