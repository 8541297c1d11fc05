"""The code that needs llvmlite. Its modules are imported one by one on first use."""
