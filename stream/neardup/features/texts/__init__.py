"""Texts -> features: normalised code points, split into shingles or words, each a 64-bit hash."""
