"""Windows: what a stream holds, as messages."""
