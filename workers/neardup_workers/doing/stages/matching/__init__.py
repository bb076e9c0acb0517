"""Matchers: the shards of a member, their tables, and where each is in ``signed``."""
