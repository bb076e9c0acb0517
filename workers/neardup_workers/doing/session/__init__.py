"""One reading of documents, as most commands have it, and what they share on the way."""
