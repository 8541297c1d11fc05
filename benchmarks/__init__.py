"""Benchmarks: one file a question; ``python -m benchmarks`` runs them."""
