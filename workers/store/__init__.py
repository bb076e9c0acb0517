"""What the service keeps on disk: the log of its window in SQLite, and the deduplicator that writes it."""
