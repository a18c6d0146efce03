"""What a person may set: pydantic groups, checked once, turned into plain option structs for the rooms.

Reads the configuration file and knows every default and bound, and RocketMQ's names for them. Starts nothing."""
