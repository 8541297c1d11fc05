"""NumPy's namespace on weft, for libraries and for scripts under `weft run`."""
