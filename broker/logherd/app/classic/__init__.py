"""The shells of the classic HA protocol: the port for RocketMQ slaves, and a process that follows a RocketMQ master."""
