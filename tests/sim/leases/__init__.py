"""Controllers and brokers under one clock: three Raft cores with the controllers' machine, and brokers with leases.

What it must survive is in `world`; what it checks is in `observer`. No real clock, socket, disk or chance."""
