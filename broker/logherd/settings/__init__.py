"""Settings as pydantic models, and their translation into the option values of the rooms.

The only room besides cli that reads the environment or a configuration file."""
