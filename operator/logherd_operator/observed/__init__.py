"""What was seen of a group: its pods or processes, what each broker says, what the controllers know, what
people ordered.

Plain values, the same for Kubernetes and for processes of one machine. Nothing here asks, waits or decides; what could
not be asked is None, which never means "down"."""
