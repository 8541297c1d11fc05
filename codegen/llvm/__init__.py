"""Translation of kernel IR to LLVM IR. Only this package needs llvmlite.

Each module is imported on first use.
"""
