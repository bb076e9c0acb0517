"""The state of the service on disk: the log of its window in SQLite, and the deduplicator that writes it."""
