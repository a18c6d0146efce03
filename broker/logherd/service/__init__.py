"""One module per request family: send, pull, offsets, clients, admin, names. Outbound calls are injected.

Decides answers from requests, the store and the metadata. Never sees a socket or a thread."""
