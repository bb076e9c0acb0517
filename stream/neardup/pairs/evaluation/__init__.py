"""Pairs and clusters compared with the truth."""
