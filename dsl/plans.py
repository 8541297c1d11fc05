"""Functions that explain and compile recorded operations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import weft.codegen as codegen
import weft.fusion as fusion
import weft.runtime as runtime
from weft.dsl.arrays.array import Array, storages_of

if TYPE_CHECKING:
    from weft.codegen import Kernel
    from weft.fusion import Explanation
    from weft.runtime import ObjectCode


STAGES = ("kernel", "threaded", "llvm", "asm", "sass")  # ("threaded" is only a stage for GPUs)


def explain(*arrays: Any, stage: str = "", target: str = "") -> Explanation:
    """Describe the kernels that would evaluate the given arrays, and their memory traffic.

    The arrays remain pending.

    Parameters
    ----------
    *arrays : Array or list of arrays

    stage : str, optional
        Also show the text of each kernel at this stage: ``kernel``, ``llvm``, ``asm`` or, for a GPU, ``threaded`` or
        ``sass``.
    target : str, optional
        The target for which the stage is shown, as in `compile`. By default, the target is that of the arrays' device,
        or "sm_90" if this device has no such stage.

    Returns
    -------
    Explanation
        The explanation. It is printed as text, and shown in a notebook as a table and a picture.

    Examples
    --------
    >>> x = wf.asarray(np.ones(100_000))
    >>> print(wf.explain(x * 2 + 1).summary)
    1 kernel, 800.0 kB read, 800.0 kB written (1.00 times the least possible)
    """
    if stage not in ("", *STAGES):
        raise ValueError(f"no stage {stage!r}; there are {', '.join(STAGES)}")
    storages = storages_of(arrays)
    found = fusion.explain_storages(storages)
    if not stage:
        return found
    own = storages[0].device.target.scheduled_for if storages else codegen.resolve_target("host")
    if target or (own.kind != "cuda" and stage in ("threaded", "sass")):
        own = codegen.resolve_target(target or "sm_90")
    kernels = [CompiledKernel(kernel, own) for kernel in fusion.kernels_of(storages, own)]
    texts = [(f"{k.kernel.name} for {own.name}: {stage}", k.stage(stage)) for k in kernels]
    return replace(found, stages=tuple(texts))


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel and a target, with the kernel's code for the target at each stage of compilation.

    The kernel is compiled when the code of a stage is first used.

    Attributes
    ----------
    kernel : Kernel
        Kernel IR.
    target : Target
    """

    kernel: Kernel
    target: Any

    def stage(self, name: str) -> str:
        """Return the text of the kernel at a compilation stage, such as ``llvm`` or ``asm``."""
        if name == "sass":
            return self.sass
        if name not in self._stages:
            raise ValueError(f"no stage {name!r}; there are {', '.join([*self._stages, 'sass'])}")
        return self._stages[name]

    @cached_property
    def _stages(self) -> dict[str, str]:
        return codegen.lower_stages(self.kernel, self.target)

    @cached_property
    def _assembled(self) -> ObjectCode:
        return runtime.assemble(self.ptx.encode(), self.target.name)

    @property
    def kernel_ir(self) -> str:
        """The kernel IR as text."""
        return self.stage("kernel")

    @property
    def llvm_ir(self) -> str:
        """The optimized LLVM IR."""
        return self.stage("llvm")

    @property
    def asm(self) -> str:
        """The assembly text, which is PTX for a GPU."""
        return self.stage("asm")

    @property
    def ptx(self) -> str:
        """The PTX text. Raises ValueError for a CPU target."""
        if self.target.kind != "cuda":
            raise ValueError(f"target {self.target.name} has no PTX")
        return self.stage("asm")

    @property
    def cubin(self) -> bytes:
        """The machine code of the kernel (cubin), generated with nvJitLink; no GPU is needed.

        Raises ValueError for a CPU target.
        """
        return self._assembled.code

    @property
    def resources(self) -> dict[str, int]:
        """The registers, spilled bytes, stack and shared memory of the assembled kernel."""
        return self._assembled.launch

    @cached_property
    def sass(self) -> str:
        """The machine instructions (SASS), disassembled with nvdisasm or cuobjdump."""
        return runtime.disassemble(self.cubin)


def compile(what: object, *arguments: Any, target: str = "host") -> tuple[CompiledKernel, ...]:
    """Compile a pending array or a function to kernels for any target, without a GPU.

    Parameters
    ----------
    what : Array, list of Array, or callable
        A callable is called with `arguments`. Its recorded operations do not run.
    target : str
        "host", or a GPU architecture: "sm_70" to "sm_121".

    Returns
    -------
    tuple of CompiledKernel
        The kernels. The code of a kernel is in its attributes ``kernel_ir``, ``llvm_ir``, ``asm`` and, for a GPU if
        CUDA's disassembler is installed, ``sass``.

    Raises
    ------
    ValueError
        If no operation is pending because the arrays have already been evaluated. Small arrays are evaluated at once.

    Examples
    --------
    >>> (compiled,) = wf.compile(wf.ones(100_000) + 1, target='sm_90')
    >>> '.target sm_90' in compiled.ptx
    True
    """
    results = what(*arguments) if callable(what) and not isinstance(what, Array) else what
    storages = storages_of([results])
    given = isinstance(results, Array) or bool(results)
    if given and all(storage.buffer is not None or storage.host is not None for storage in storages):
        raise ValueError(
            "nothing is pending: these arrays are evaluated. Compile a function that computes large arrays"
        )
    chosen = codegen.resolve_target(target)
    return tuple(CompiledKernel(kernel, chosen) for kernel in fusion.kernels_of(storages, chosen))
