"""One replica's part in a broker group whose leader the controllers choose: `GroupCore.step(input, now) -> Output`.

Pure: knows leases, epochs, in-sync sets and positions, but no socket, file, clock or record layout. Bytes are moved by
`replication`; who leads is decided in `controller`; here is what a replica may do, and when.

What must be durable before what may be sent:

1. The highest epoch seen, before any answer given in it: whoever has answered a leader refuses all earlier ones, also
   after a crash (R4). A leader need not wait, because its own flush counts: its barrier is durable after its epoch.
2. A follower's records, before the acknowledgement that names them; a cut, before any record after it (R14).
3. A record on every member of the in-sync set that is in force, and of every set that was proposed and may yet come
   into force, the leader included, before `commit` passes it (R6); and only while enough are in sync.
4. The barrier of the epoch committed, before anything is served (R8, R13).

Releasing an answer needs two things at that moment: `commit` passes its position, and `GroupCore.serving(now)` (R1).
"""
