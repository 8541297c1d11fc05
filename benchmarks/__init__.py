"""Benchmarks, one file per question. ``python -m benchmarks`` runs them."""
