"""Translation of kernel IR to LLVM IR, and then to object code or PTX.

Within the code generator, only this package needs llvmlite.

Each module is imported on first use.
"""
