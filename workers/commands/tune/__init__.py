"""``neardup tune``: bands, rows and cut for a threshold and a recall."""
