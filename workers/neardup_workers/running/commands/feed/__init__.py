"""Feeds as a source of documents."""
