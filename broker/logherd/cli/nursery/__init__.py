"""`python -m logherd.cli.nursery ROOM`: imports once what brokers and controllers are made of, then forks as many of
them as are ordered. Importing is most of a process' start, and a group of three begins six processes at once.

    first it says   ready
    a line in       {"kind": "broker" or "controller", "config": FILE, "ready_file": FILE, "output": FILE}
    a line out      pid of the guardian, or nothing if it could not be forked

What comes of an order is the same as `logherd KIND --guarded --config FILE --ready-file FILE` with its output at the
end of a file, in a session of its own: a guardian, which is a new program, and the process as its child, which is a
fork of this one. Only that first life is; the guardian starts the next ones as ever. Ends with its input; the
guardians are then its parent's, if that adopts orphans.

There is one thread, and this process opens nothing and draws nothing at random before it forks: forks share only code.
`ps` shows a fork's own command in the place of ours, which is as long as ROOM makes it.
"""
