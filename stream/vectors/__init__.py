"""Vectors -> features: read and checked, projected on what is drawn from a seed, compared row by row."""
