"""The workers on a broker. ``python -m benchmarks.kafka`` runs them."""
