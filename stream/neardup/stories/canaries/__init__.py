"""Edited copies of documents that are looked up as if they came, and change nothing: what a live window finds."""
