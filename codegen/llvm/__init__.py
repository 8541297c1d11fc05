"""Translation of kernel IR to LLVM IR. Within the code generator, only this package needs llvmlite.

Each module is imported on first use.
"""
