"""Benchmarks: speed, memory and recall together, each next to its target. ``python -m benchmarks`` runs them."""
