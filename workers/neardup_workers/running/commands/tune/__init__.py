"""``neardup tune``: bands, rows and ``score_min`` for a threshold and a recall."""
