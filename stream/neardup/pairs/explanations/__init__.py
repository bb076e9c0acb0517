"""Why two documents are a pair, or why not."""
