"""Texts and tokens become numbers."""
