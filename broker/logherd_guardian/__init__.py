"""The guardian: the small parent of a broker or controller, which outlives it and stands in for it (H14, H15, H16).

    logherd-guardian --listen [NAME=]HOST:PORT ... [--peer [NAME=]HOST:PORT ...] [--controllers HOST:PORT,...]
                     [--state-file F] -- COMMAND...

It binds the sockets, runs COMMAND as its child and lends them to it. When the child dies it proves and reports the
exit, passes new connections on to a live peer, and starts the child again. It knows no broker, wire, asyncio or
package of LogHerd, nothing outside the standard library, and of that no part that costs memory (dataclasses, typing,
argparse, logging, subprocess): the import contracts and a test hold this. It has no threads and never waits for a disk,
a name server or whoever reads its stderr.

What the child is given
    LOGHERD_GUARDIAN_PID    the guardian; what follows is for its own child only, not for the child's subprocesses
    LOGHERD_INCARNATION     32 hex digits, drawn before each `exec`: the secret name of this one process
    LOGHERD_LISTEN_FDS      `NAME=FD,NAME=FD`: listening sockets, not blocking; NAME is `remoting` if none was given
    LOGHERD_PAGE_FD         the page (`page.py`): what the child tells the guardian, without ever waiting for it
The descriptors keep their numbers. The child leads a session of its own, dies by SIGKILL when the guardian dies
(PR_SET_PDEATHSIG), and what it leaves behind (its process group, and whatever of it the kernel hands to the guardian as
subreaper) is killed before its exit is reported. A first life that was forked before its guardian began (`--waiting`)
is given the same by message, under other numbers.

What the child does (`child.py` does it for Python)
 1. `identify`: writes who it is (cluster, group, broker id, store id) into the page before it registers with its
    incarnation, so that a death in between is reported too; `registered` when the controllers have answered.
 2. `ready()` once it accepts on the lent sockets, `ready(accepting=False)` before it stops to, as when it drains.
    Until `ready` the guardian takes new connections, if a peer is there to serve them; else they wait in the backlog.
 3. `lease(epoch, end)` with each lease, counted on CLOCK_BOOTTIME; `release()` when it leads no more. A lease that is
    over and not released within a second, in which the guardian itself ran without a gap, ends the child by SIGKILL.
 4. Locks its store; exits with 3 if it cannot start or 2 if its settings are wrong (asked again after a longer wait),
    with anything else to be started again soon. The guardian never gives up.
 5. Binds its peer ports itself, never a lent socket: `--peer` names such ports of the peers. On each connection to one
    it first sends `GREETING`, which proves that a child lives there and not a guardian; then comes a PROXY v2 header
    with the client's address and the NAME of the socket, so that one port can serve for all; then what the client
    sends. It must not trust that header from anywhere else.

The report of an exit is one remoting frame (`frames.py`), sent to all controllers at once and repeated with bounded
back-off until one that decides has answered. It goes on for five seconds when the next child has registered, since the
controllers still wait for the lease of the process before. No report: the lease runs out as before.

Signals: TERM, INT and QUIT stop the child, by SIGKILL after --stop-seconds, and then the guardian, whose exit code is
the child's (128 + N for signal N): with peers a second later, and up to four if clients that it passes on are waiting
for answers; HUP, USR1 and USR2 are forwarded. 2: a wrong command line, 3: it cannot start.
"""
