"""The functions of the schemes: one file a kind."""
