"""Recall of every scheme next to its promise, and what decisions make of it."""
