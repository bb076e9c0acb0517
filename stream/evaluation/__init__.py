"""Judging pairs against the truth."""
