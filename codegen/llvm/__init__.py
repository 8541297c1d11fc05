"""LLVM: everything that needs llvmlite to make code. Files are imported one by one, on first use."""
