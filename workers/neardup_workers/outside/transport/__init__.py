"""Access to topics: the protocol, and Kafka."""
