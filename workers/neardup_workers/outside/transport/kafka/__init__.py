"""The transport on Kafka."""
