"""The BrokerGroup as local processes: up, down, status.

Starts and stops processes and keeps their state file; speaks to brokers only by command line, files and signals."""
