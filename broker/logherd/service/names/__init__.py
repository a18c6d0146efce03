"""The name service: which broker leads which group, and which topics it has.

Works for brokers of this process by plain calls and for others by their requests. Knows no store and no metadata."""
