"""The view of a deployment on Kafka over HTTP: topics into the store, documents into the topics, requests."""
