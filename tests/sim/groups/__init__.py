"""Whole broker groups in one process: real `GroupCore`s over simulated disks, led by real controllers (sim.leases)."""
