"""Benchmarks: speed, memory and recall together, each beside its target. ``python -m benchmarks`` runs them."""
