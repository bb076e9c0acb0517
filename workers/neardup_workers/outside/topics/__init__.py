"""The topics: their names, their messages, the rules for their settings."""
