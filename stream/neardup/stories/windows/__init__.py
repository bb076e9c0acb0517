"""Windows: what a stream holds, as messages, and which contents it has for certain."""
