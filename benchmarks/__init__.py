"""Benchmarks, with one file for each question, run by ``python -m benchmarks``."""
