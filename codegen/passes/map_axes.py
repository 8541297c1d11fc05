"""To be written."""

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.target import Target


def map_axes(kernel: Kernel, target: Target) -> Kernel:
    raise NotImplementedError
