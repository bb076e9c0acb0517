"""Pairs become decisions: what to keep, and who was first."""
