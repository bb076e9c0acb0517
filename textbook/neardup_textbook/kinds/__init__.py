"""The functions of the schemes, one file a kind; their rows are in ``neardup.schemes.rows``."""
