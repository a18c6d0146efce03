"""Connected clients: heartbeats, group membership and its notifications, and what is asked of a client.

Memory only. Knows no store and no log; topics and groups that a heartbeat brings into being go through the metadata."""
