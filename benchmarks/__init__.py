"""Benchmarks, one file for each question. ``python -m benchmarks`` runs them."""
