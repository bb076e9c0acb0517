"""Compiled functions that every module may use."""
