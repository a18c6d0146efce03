"""What a process is under a guardian: sockets it was lent, what it tells of itself, the port for others' clients."""
