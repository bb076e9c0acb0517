"""The filter: the documents to keep, by their verdicts."""
