"""The code that needs llvmlite. Each module is imported on first use."""
