"""Where documents come from, one module a kind of source."""
