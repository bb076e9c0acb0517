"""Vectors -> features: read and check vectors, project them on random lines, compare them row by row."""
