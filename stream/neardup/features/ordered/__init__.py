"""Words of a text in their order."""
