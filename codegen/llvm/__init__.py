"""LLVM: all code that needs llvmlite. Its files are imported individually on first use."""
