"""Texts -> features: normalised code points, cut into shingles or words, each a 64-bit hash."""
