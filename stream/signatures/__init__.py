"""Signatures of sets: one algorithm a file, siblings that never import each other."""
