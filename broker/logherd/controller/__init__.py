"""What the controllers decide together: who is a broker of a group, who leads it in which epoch, who is in sync.

Pure: `machine` turns the controllers' log into state, `office` is the leader's own part (leases, what to propose), and
`holder` is the broker's side of a lease. Knows no clock, socket, file, log line or wire layout, and not Raft's inside:
its commands are the bodies of Raft's records."""
