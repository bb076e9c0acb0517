"""What a worker exports: counts, metrics, health."""
