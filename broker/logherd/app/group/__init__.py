"""A broker's place in its group: the log and its replica machine, driven by peers, controllers, disk and clock."""
