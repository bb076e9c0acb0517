"""Benchmarks of ``neardup serve``."""
