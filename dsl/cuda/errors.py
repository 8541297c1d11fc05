"""The module `weft.cuda.errors`: Numba's names for the errors and warnings of weft.

Invariant: this file defines no class. Several names may refer to one class.
"""

from __future__ import annotations

from weft.dsl.kernel.language.kernel_errors import (
    KernelAttributeError,
    KernelError,
    KernelNameError,
    KernelSyntaxError,
    KernelTypeError,
    LaunchError,
)
from weft.runtime import (
    CompileError,
    CudaError,
    DeviceLostError,
    DeviceNotFoundError,
    KernelFault,
    PerformanceWarning,
    WeftError,
)

# kernel language: code that cannot be compiled
NumbaError = WeftError
UnsupportedError = UnsupportedBytecodeError = UnsupportedRewriteError = ForbiddenConstruct = KernelSyntaxError
TypingError = NumbaTypeError = NumbaNotImplementedError = RequireLiteralValue = LiteralTypingError = KernelTypeError
NumbaAttributeError = UntypedAttributeError = KernelAttributeError
NotDefinedError = NumbaKeyError = KernelNameError
NumbaValueError = LaunchError
CompilerError = KernelError
# code generation and linking
LoweringError = CudaLoweringError = CompileError
LinkerError = NvvmError = NvrtcError = NvrtcCompilationError = CompileError
NvvmSupportError = NvrtcSupportError = CompileError
# execution
KernelRuntimeError = NumbaRuntimeError = KernelFault
CudaDriverError = CudaAPIError = CudaRuntimeError = CudaError
CudaSupportError = CCSupportError = DeviceNotFoundError
DeadMemoryError = DeviceLostError
# warnings
NumbaWarning = NumbaPerformanceWarning = PerformanceWarning
NumbaInvalidConfigWarning = NumbaDebugInfoWarning = NvvmWarning = PerformanceWarning
NumbaDeprecationWarning = NumbaPendingDeprecationWarning = DeprecationWarning

__all__ = sorted(name for name, value in globals().items() if isinstance(value, type))
