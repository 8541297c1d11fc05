"""Classical programs in plain NumPy, written without regard to weft.

`benchmarks.classics` measures the programs. Each program has a function `main(size)`.
"""
