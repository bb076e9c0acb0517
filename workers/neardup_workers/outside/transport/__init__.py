"""Access to topics: the protocol, Kafka, and its twin in memory."""
