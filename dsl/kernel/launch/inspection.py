"""Inspection of a kernel's code, resource usage and signatures.

Invariant: no GPU is needed. GPU code is compiled for the device's architecture or a given one. Queries of resources
that only the assembler knows (registers, memory) need nvJitLink.
"""

from __future__ import annotations

import sys
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from weft.codegen import resolve_target
from weft.dsl.kernel.language import types
from weft.dsl.kernel.language.kernel_errors import KernelTypeError
from weft.dsl.kernel.language.types import Signature, as_signature
from weft.dsl.kernel.launch.arguments import Descriptor, from_type
from weft.dsl.plans import CompiledKernel
from weft.runtime import default_device, setting


def architecture(cc: Any = None) -> str:
    """Return the GPU architecture for a compute capability, such as "sm_80" for ``(8, 0)``.

    None gives the architecture of the default device if it is a GPU, otherwise the architecture in the
    ``NUMBA_CUDA_DEFAULT_PTX_CC`` environment variable, or sm_75 if the variable is not set.
    """
    if cc is None:
        target = default_device().target
        if target.kind == "cuda":
            return target.name
        cc = setting("default_ptx_cc")
        return architecture(cc) if cc else "sm_75"
    if isinstance(cc, str):
        return cc if cc.startswith("sm_") else f"sm_{cc.replace('.', '')}"
    if not isinstance(cc, (tuple, list)) or len(cc) < 2:
        raise KernelTypeError(f"a compute capability is a tuple such as (9, 0), or text, not {cc!r}")
    major, minor = cc[:2]
    return f"sm_{major}{minor}"


class SpecializationKey(NamedTuple):
    """The argument types and settings that determine a specialization.

    `kind` is the kind of the target, and `mode` is "sanitized" or the setting `checked`. `block` is None unless the
    kernel's code depends on the block size.
    """

    descriptors: tuple[Descriptor, ...]
    index_dtype: np.dtype
    kind: str
    mode: object
    block: Any = None


def type_of(descriptor: Descriptor) -> types.Type:
    """Return the type that a type descriptor describes."""
    match descriptor:
        case ("scalar", dtype, _) | ("record" | "date", dtype):
            return types.from_dtype(dtype)
        case ("array", dtype, ndim, packed, writable):
            return types.ArrayType(types.from_dtype(dtype), ndim, "C" if packed else "A", not writable)
        case ("pointer", dtype):
            return types.CPointer(types.from_dtype(dtype))
        case ("tuple", maker, _, parts) if maker is None:
            return types.Tuple(tuple(type_of(part) for part in parts))
        case ("tuple", maker, _, parts):
            return types.NamedTuple(tuple(type_of(part) for part in parts), maker)
        case ("constant", same) if same.value is not None:
            return same
    return types.none


def types_of(descriptors: tuple[Descriptor, ...]) -> tuple[types.Type, ...]:
    """Return the types that type descriptors describe."""
    return tuple(map(type_of, descriptors))


class Inspection:
    """Mixin with the inspection methods of kernels."""

    __name__: str
    _found: dict[SpecializationKey, Any]
    _compiling: bool
    specialization: Any
    options: Any

    # -- signatures ---------------------------------------------------------------------------

    @property
    def overloads(self) -> dict[tuple[types.Type, ...], Any]:
        """The compiled specializations, by argument types."""
        return {types_of(found.descriptors): found for found in self._found.values()}

    @property
    def signatures(self) -> list[tuple[types.Type, ...]]:
        """The argument types for which the kernel was compiled."""
        return list(self.overloads)

    @property
    def specialized(self) -> bool:
        """Whether the kernel is no longer compiled for new argument types."""
        return not self._compiling

    @property
    def targetoptions(self) -> dict[str, Any]:
        """Options of the decorator, under the names that Numba uses."""
        names = ("debug", "fastmath", "lineinfo", "max_registers", "launch_bounds")
        return {"device": False} | {name: getattr(self.options, name) for name in names}

    def disable_compile(self, flag: bool = True) -> None:
        """Disable compilation for new argument types, or enable it if `flag` is false."""
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
            named = [key for key in keys if types_of(key.descriptors) == tuple(wanted.arguments)]
            descriptors = tuple(from_type(kind) for kind in wanted.arguments)
            keys = named or [SpecializationKey(descriptors, np.dtype(np.int32), target.kind, False)]
        if not keys:
            raise KernelTypeError(
                f"{self.__name__} was not compiled for any arguments yet: launch it, or give a signature"
            )
        made = {}
        for key in keys:
            found = self.specialization(key.descriptors, target, key.index_dtype, key.block)
            made[types_of(found.descriptors)] = CompiledKernel(found.kernel, target)
        return made

    def _asked(self, signature: Any, cc: Any, what: Any) -> Any:
        found = {key: what(kernel) for key, kernel in self.compiled(signature, cc).items()}
        return found if signature is None else next(iter(found.values()))

    def stage(self, name: str, signature: Any = None, cc: Any = None) -> str:
        """Return the code after the compilation stage `name`, such as ``llvm`` or ``asm``.

        Without a signature, the first specialization is used.
        """
        return next(iter(self.compiled(signature, cc).values())).stage(name)

    def inspect_llvm(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the LLVM IR of the kernel for one signature, or a dict for all signatures."""
        return self._asked(signature, cc, attrgetter("llvm_ir"))

    def inspect_asm(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the PTX of the kernel for one signature, or a dict for all signatures.

        With ``cc="host"``, return the assembly text for the CPU instead."""
        return self._asked(signature, cc, attrgetter("asm"))

    inspect_ptx = inspect_asm

    def inspect_sass(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the machine code of the kernel for one signature, or a dict for all signatures.

        This method requires nvJitLink, and nvdisasm or cuobjdump.
        """
        return self._asked(signature, cc, attrgetter("sass"))

    def inspect_sass_cfg(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the result of `inspect_sass`. Unlike Numba's method of this name, it adds no control-flow graph."""
        return self.inspect_sass(signature, cc)

    def inspect_types(self, file: Any = None) -> None:
        """Print the kernel IR of every specialization, which shows the types of all values."""
        for kernel in self.compiled(cc="host").values():
            print(kernel.kernel_ir, file=file or sys.stdout)

    # -- resources --------------------------------------------------------------------------------

    def _resource(self, signature: Any, cc: Any, what: object) -> Any:
        """Return the resource usage of the kernel for one signature, or a dict for all signatures.

        For a specialized kernel with one signature, `signature` may be omitted.
        """
        found = self._asked(signature, cc, what)
        alone = signature is None and self.specialized and len(found) == 1
        return next(iter(found.values())) if alone else found

    def get_regs_per_thread(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the number of registers per thread for one signature, or a dict for all signatures."""
        return self._resource(signature, cc, lambda kernel: kernel.resources["registers"])

    def get_shared_mem_per_block(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the bytes of static shared memory per block for one signature, or a dict for all."""
        return self._resource(signature, cc, lambda kernel: kernel.resources["shared"])

    def get_local_mem_per_thread(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the bytes of local memory per thread for one signature, or a dict for all."""
        return self._resource(signature, cc, lambda kernel: kernel.resources["stack"])

    def get_const_mem_size(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the bytes of constant memory for one signature, or a dict for all."""
        return self._resource(signature, cc, _constant_bytes)

    def get_max_threads_per_block(self, signature: Any = None, cc: Any = None) -> Any:
        """Return the maximum number of threads per block for one signature, or a dict for all.

        Launch bounds and register usage may reduce this number below 1024.
        """
        return self._resource(signature, cc, _most_threads)


def _constant_bytes(kernel: CompiledKernel) -> int:
    return sum(o.attributes["values"].nbytes for o in kernel.kernel.walk() if o.opcode == "table")


def _most_threads(kernel: CompiledKernel) -> int:
    """Return the maximum number of threads per block of a kernel.

    A multiprocessor has four partitions with 16384 registers each. Each warp gets a multiple of 256 registers of one
    partition.
    """
    per_warp = -(-max(kernel.resources["registers"], 1) // 8) * 256
    bound = (kernel.kernel.attributes.get("launch_bounds") or (1024,))[0]
    return min(1024, bound, 4 * (16384 // per_warp) * 32)
