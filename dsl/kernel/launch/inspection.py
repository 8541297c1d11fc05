"""Inspection of kernels: their code at each compilation stage, resource usage and signatures.

Invariant: no GPU is needed. GPU code is compiled for the device's architecture or a given one. Queries of resources
that only the assembler knows (registers, memory) need nvJitLink.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from weft.codegen import resolve_target
from weft.dsl.kernel.language import types
from weft.dsl.kernel.language.kernel_errors import KernelTypeError
from weft.dsl.kernel.language.types import Signature, as_signature
from weft.dsl.kernel.launch.arguments import Descriptor, from_type
from weft.dsl.plans import CompiledKernel
from weft.runtime import default_device, setting

DEFAULT_ARCHITECTURE = "sm_75"


def architecture(cc: Any = None) -> str:
    """Return the GPU architecture for a compute capability, such as "sm_80" for ``(8, 0)``.

    ``(8, 0)`` gives sm_80. None gives the architecture of the current GPU. If there is no GPU, None
    gives the architecture in the ``NUMBA_CUDA_DEFAULT_PTX_CC`` environment variable, or sm_75.
    """
    if cc is None:
        target = default_device().target
        if target.kind == "cuda":
            return target.name
        cc = setting("default_ptx_cc")
        return architecture(cc) if cc else DEFAULT_ARCHITECTURE
    if isinstance(cc, str):
        return cc if cc.startswith("sm_") else f"sm_{cc.replace('.', '')}"
    major, minor = cc[:2]
    return f"sm_{major}{minor}"


def type_of(descriptor: Descriptor) -> types.Type:
    """Return the type that a type descriptor describes."""
    match descriptor:
        case ("scalar", dtype, _):
            return types.from_dtype(dtype)
        case ("array", dtype, ndim, packed, _):
            return types.ArrayType(types.from_dtype(dtype), ndim, "C" if packed else "A")
        case ("record" | "date", dtype):
            return types.from_dtype(dtype)
        case ("pointer", dtype):
            return types.CPointer(types.from_dtype(dtype))
        case ("tuple", maker, _, parts) if maker is None:
            return types.Tuple(tuple(type_of(part) for part in parts))
        case ("tuple", maker, _, parts):
            return types.NamedTuple(tuple(type_of(part) for part in parts), maker)
    return types.none


class Inspection:
    """Mixin with the inspection methods of kernels."""

    __name__: str
    _found: dict[Any, Any]
    _compiling: bool

    def specialization(self, descriptors: Any, target: Any, index: Any, block: Any) -> Any:
        """Return the kernel that is compiled for arguments with the given type descriptors.

        Subclasses implement this method.
        """
        raise NotImplementedError

    # -- signatures ---------------------------------------------------------------------------

    @property
    def overloads(self) -> dict[tuple[types.Type, ...], Any]:
        """The compiled specializations, by argument types."""
        return {tuple(type_of(d) for d in key[0]): found for key, found in self._found.items()}

    @property
    def signatures(self) -> list[tuple[types.Type, ...]]:
        """The argument types for which the kernel was compiled."""
        return list(self.overloads)

    @property
    def specialized(self) -> bool:
        """Whether the kernel accepts only the signatures for which it was compiled."""
        return not self._compiling

    def disable_compile(self, flag: bool = True) -> None:
        """Forbid launches with new argument types, or allow them if `flag` is false."""
        self._compiling = not flag

    # -- code -----------------------------------------------------------------------------------

    def compiled(self, signature: Any = None, cc: Any = None) -> dict[tuple[types.Type, ...], CompiledKernel]:
        """Return the compiled kernels by argument types, for all signatures or for one.

        Parameters
        ----------
        signature : Signature, str or tuple of types, optional
        cc : tuple of int or str, optional
            A compute capability such as ``(9, 0)``, an architecture such as ``"sm_90"``, or ``"host"`` for the CPU of
            this machine.
        """
        target = resolve_target("host") if cc == "host" else resolve_target(architecture(cc))
        keys = list(self._found)
        if signature is not None:
            wanted: Signature = as_signature(signature)
            descriptors = tuple(from_type(kind) for kind in wanted.arguments)
            named = [key for key in keys if tuple(type_of(d) for d in key[0]) == tuple(wanted.arguments)]
            keys = named or [(descriptors, np.dtype(np.int32), target.kind, False)]
        if not keys:
            raise KernelTypeError(
                f"{self.__name__} was not compiled for any arguments yet: launch it, or give a signature"
            )
        made = {}
        for key in keys:
            block = key[4] if len(key) > 4 else None
            found = self.specialization(key[0], target, key[1], block)
            made[tuple(type_of(d) for d in key[0])] = CompiledKernel(found.kernel, target)
        return made

    def _asked(self, signature: Any, cc: Any, what: Any) -> Any:
        found = {key: what(kernel) for key, kernel in self.compiled(signature, cc).items()}
        return found if signature is None else next(iter(found.values()))

    def stage(self, name: str, signature: Any = None, cc: Any = None) -> str:
        """Return the code of a kernel after a compilation stage, such as ``llvm`` or ``asm``."""
        return next(iter(self.compiled(signature, cc).values())).stage(name)

    def inspect_llvm(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the LLVM IR of the kernel for one signature, or a dict for all signatures."""
        return self._asked(signature, cc, lambda kernel: kernel.llvm_ir)

    def inspect_asm(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the PTX of the kernel for one signature, or a dict for all signatures."""
        return self._asked(signature, cc, lambda kernel: kernel.asm)

    inspect_ptx = inspect_asm

    def inspect_sass(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the machine code of the kernel for one signature, or a dict for all signatures.

        This method requires nvJitLink, and nvdisasm or cuobjdump.
        """
        return self._asked(signature, cc, lambda kernel: kernel.sass)

    def inspect_sass_cfg(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the same machine code as `inspect_sass`, without a control-flow graph."""
        return self.inspect_sass(signature, cc)

    def inspect_types(self, file: Any = None) -> None:
        """Print the kernel IR of every specialization, which shows the types of all values."""
        for kernel in self.compiled(cc="host").values():
            print(kernel.kernel_ir, file=file or sys.stdout)

    # -- resources --------------------------------------------------------------------------------

    def _resource(self, signature: Any, cc: Any, what: object) -> Any:
        """Return the resource usage of the kernel for one signature, or a dict for all signatures."""
        found = self._asked(signature, cc, what)
        alone = signature is None and self.specialized and len(found) == 1
        return next(iter(found.values())) if alone else found

    def get_regs_per_thread(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the number of registers per thread of the kernel."""
        return self._resource(signature, cc, lambda kernel: kernel.resources["registers"])

    def get_shared_mem_per_block(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the number of bytes of static shared memory per block of the kernel."""
        return self._resource(signature, cc, lambda kernel: kernel.resources["shared"])

    def get_local_mem_per_thread(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the number of bytes of local memory per thread of the kernel."""
        return self._resource(signature, cc, lambda kernel: kernel.resources["stack"])

    def get_const_mem_size(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the number of bytes of constant memory of the kernel."""
        return self._resource(signature, cc, _constant_bytes)

    def get_max_threads_per_block(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the maximum number of threads per block of the kernel.

        Register usage may reduce it below 1024.
        """

        def most(kernel: CompiledKernel) -> int:
            registers = max(kernel.resources["registers"], 1)
            return min(1024, 65536 // (-(-registers // 8) * 8) // 32 * 32)

        return self._resource(signature, cc, most)


def _constant_bytes(kernel: CompiledKernel) -> int:
    return sum(o.attributes["values"].nbytes for o in kernel.kernel.walk() if o.opcode == "table")
