"""From a BrokerGroup object to running brokers; imports nothing of logherd."""
