"""Benchmark suites, which ``python -m benchmarks`` runs."""
