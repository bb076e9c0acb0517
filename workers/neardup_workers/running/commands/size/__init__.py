"""``neardup size``: what a deployment on Kafka needs, before it exists."""
