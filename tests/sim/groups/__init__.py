"""Whole broker groups in one process, over simulated disks: `GroupCore`s led by real controllers (sim.leases), and
without controllers (`free_*`) the machines of static and raft mode."""
