"""How topics are reached: the protocol, Kafka, and its twin in memory."""
