"""The controller process: the quorum's member, the desk for brokers and tools, name service and admin port."""
