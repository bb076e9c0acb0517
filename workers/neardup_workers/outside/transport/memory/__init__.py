"""The transport in memory, with the semantics of Kafka."""
