"""Pydantic models of the BrokerGroup object: what a user may write, and what is wrong with it.

Pure: no files, no processes, no Kubernetes."""
