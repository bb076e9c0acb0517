"""``neardup audit``: what a run missed, by a sample of contents with their exact neighbours."""
