"""Classical programs in plain NumPy, as people write them; `benchmarks.classics` measures them. Each has `main(size)`."""
