"""Specialization of kernels: compilation for given argument types.

In: the function, one descriptor per parameter, and the target. Out: a `Specialization`. Invariant: compilation
terminates. The kinds of variables only widen from one compilation run to the next, and there are at most `RUNS_LIMIT`
runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np

from weft.codegen import InvalidKernelError as InvalidKernel
from weft.codegen import Kernel, obtain_function, verify_kernel
from weft.dsl.kernel.language.calls import call_value
from weft.dsl.kernel.language.compiler import Compiler, FunctionFrame
from weft.dsl.kernel.language.kernel_errors import (
    KernelError,
    KernelSyntaxError,
    KernelTypeError,
    SourceLocation,
)
from weft.dsl.kernel.language.recursion import result_types, result_values
from weft.dsl.kernel.language.source import source_of
from weft.dsl.kernel.language.ssa_webs import parameters_of
from weft.dsl.kernel.language.statements import global_names, lower_body
from weft.dsl.kernel.language.values import ConstantKind, ScalarValue, describe, runtime_kind
from weft.dsl.kernel.language.variables import Restart
from weft.dsl.kernel.launch.arguments import Descriptor, declare
from weft.dsl.kernel.sanitizer.tracer import Tracer

RUNS_LIMIT = 60
RECURSION_TEXT = "the kernel is nested too deeply, or functions call one another without end"


@dataclass(slots=True)
class Specialization:
    """A kernel compiled for certain argument types.

    `descriptors` define how each argument is passed, and `hidden` lists the parameters that follow the user's
    parameters. `sites` lists the errors that the kernel can report, and `written` contains the numbers of the arguments
    to which the kernel may write. `tracer` is the sanitizer's instrumentation. `doubled` is the first source location
    at which Numba's types promote a float32 to float64.
    """

    kernel: Kernel
    hidden: list[tuple[Any, ...]]
    sites: list[Any]
    written: frozenset[int]
    returns: Any = None
    descriptors: tuple[Descriptor, ...] = ()
    tracer: Tracer | None = None
    doubled: SourceLocation | None = None
    code: Any = None  # the code object of the Python function, for messages
    _functions: dict[Any, Any] = field(default_factory=dict)  # by device

    def function_on(self, device: Any) -> Any:
        """Return the kernel's function on a device, which is compiled and loaded on first use."""
        function = self._functions.get(device)
        if function is None:
            function = self._functions[device] = obtain_function(device, self.kernel)
            if hasattr(function, "origin"):
                function.origin = self.code, 0
        return function

    @property
    def cooperative(self) -> bool:
        """Whether the kernel has a grid barrier, which requires all blocks to run concurrently."""
        return any(o.opcode == "grid_barrier" for o in self.kernel.walk())

    def max_cooperative_grid_blocks(self, blockdim: Any, dynsmemsize: int = 0) -> int:
        """Return the maximum number of blocks in a cooperative launch on the current device."""
        from weft.dsl.cuda.devices import current_context

        context = current_context()
        threads = math.prod(blockdim) if isinstance(blockdim, tuple) else int(blockdim)
        blocks = context.get_active_blocks_per_multiprocessor(self, threads, dynsmemsize)
        return blocks * context.device.MULTIPROCESSOR_COUNT


_DIVISIONS = frozenset(("divide", "floor_divide", "remainder"))


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a kernel's decorator that affect the generated code."""

    debug: bool = False
    fastmath: bool = False
    lineinfo: bool = False
    max_registers: int = 0
    launch_bounds: tuple[int, ...] = ()
    numba: bool = False  # whether scalars have Numba's types
    links: tuple[str, ...] = ()  # digests of linked code

    def attributes(self) -> dict[str, Any]:
        """Return the options as attributes of kernel IR."""
        found = {
            "explicit": True,
            "fast": self.fastmath,
            "line_info": self.lineinfo,
            "max_registers": self.max_registers,
            "launch_bounds": self.launch_bounds,
            "links": self.links,
        }
        return {name: value for name, value in found.items() if value}


def specialize(
    function: FunctionType,
    descriptors: tuple[Descriptor, ...],
    target: Any,
    index_dtype: np.dtype,
    options: Options,
    *,
    reporting: bool = True,
    checked: bool = False,
    block: tuple[int, int, int] | None = None,
    device: Any = None,
    tracer: Tracer | None = None,
) -> Specialization:
    """Compile a kernel to kernel IR.

    Parameters
    ----------
    tracer : None, or Tracer
        The sanitizer's instrumentation, which records every access.
    device : None, or (result dtype or None, abi)
        If given, compile a function that other code calls, instead of a kernel. The op table uses the abi "row".

    Raises
    ------
    KernelError
        If the kernel cannot be compiled. The message shows the user's file and line with a caret.
    NeedsLaunch
        If a shape depends on the block size of the launch.
    """
    c = Compiler(call_value, target, (checked or options.debug) and tracer is None, index_dtype)
    c.reporting = reporting or options.debug
    if options.debug:
        c.checked_divisions = _DIVISIONS - ({"divide"} if options.fastmath else set())
    c.numba_asked = options.numba
    c.use_types_for(function)
    c.block = block
    c.function = function
    c.lines = options.lineinfo or checked or options.debug or tracer is not None
    c.tracer = tracer
    source = source_of(function)
    for _ in range(RUNS_LIMIT):
        try:
            made = _run(c, function, source, descriptors, options, device)
        except Restart:
            continue
        except KernelError:
            if not c.widened:
                raise
            continue
        except RecursionError:
            raise KernelSyntaxError(RECURSION_TEXT, source.location(source.tree)) from None
        if not c.pending:
            made.descriptors, made.code = descriptors, function.__code__
            return made
    raise KernelTypeError("the types of variables do not settle", source.location(source.tree))


def _run(
    c: Compiler, function: FunctionType, source: Any, descriptors: tuple[Descriptor, ...], options: Options, device: Any
) -> Specialization:
    name = identifier(function.__name__)
    c.begin(name)
    frame = FunctionFrame(c, source, (), global_names(c, function))
    c.stack.append(function)
    if device is not None:
        return _device_function(c, frame, name, descriptors, device, options)
    for k, (parameter, descriptor) in enumerate(zip(parameters_of(source.tree), descriptors, strict=True)):
        frame.assign(parameter, parameter.arg, declare(c, parameter.arg, descriptor, k))
    with c.builder.scope("kernel"):
        lower_body(frame, source.body)
    return _finished(c, source, options)


def _finished(c: Compiler, source: Any, options: Options, returns: Any = None, **attributes: str) -> Specialization:
    kernel = c.builder.finish()
    kernel.attributes.update(options.attributes())
    if c.lines:
        kernel.attributes["file"] = source.file
    kernel.attributes.update(attributes)
    if c.tracer is not None:
        kernel.attributes["trace"] = c.tracer.width
    if any(o.opcode == "atomic" for o in kernel.walk()):
        kernel.attributes["arrays"] = tuple(c.arrays)
    try:
        if not c.pending:
            verify_kernel(kernel)
    except InvalidKernel as error:
        raise KernelTypeError(f"this cannot be compiled: {error}", source.location(source.tree)) from error
    return Specialization(
        kernel,
        c.hidden,
        c.sites,
        frozenset(k for k in c.written if k >= 0),  # without shared and local arrays
        returns,
        tracer=c.tracer,
        doubled=c.doubles[0] if c.doubles else None,
    )


def identifier(name: str) -> str:
    """Convert a function's name, such as ``<lambda>``, to an ASCII identifier."""
    cleaned = "".join(ch if ch.isascii() and (ch.isalnum() or ch == "_") else "_" for ch in name)
    return cleaned if cleaned and not cleaned[0].isdigit() else f"kernel_{cleaned}"


def _device_function(
    c: Compiler, frame: FunctionFrame, name: str, descriptors: tuple[Descriptor, ...], device: Any, options: Options
) -> Specialization:
    """Compile a function for callers outside the kernel language, such as CUDA C++."""
    wanted, abi = device
    source, b = frame.source, c.builder
    frame.function = source
    frame.result = c.variable(("device result",), f"the result of {name}")
    frame.label = c.exit = "kernel"
    kind = frame.result.kind
    if isinstance(kind, ConstantKind) and kind.value is not None:  # the caller receives constants at run time, too
        frame.result.kind = kind = runtime_kind(kind)
        if kind is None:
            frame.fail(source.tree, "a function that is called from other code returns numbers, or nothing")
    known = kind is not None
    result = np.dtype(wanted) if wanted is not None else getattr(kind, "dtype", None)
    results = [result] if result is not None else result_types(frame.result)
    c.reporting = False
    with b.function(f"{name}_inside", (), results):  # the kernel's own name is visible to callers
        parameters = parameters_of(source.tree)
        values = [_declare(c, p.arg, descriptor, abi) for p, descriptor in zip(parameters, descriptors, strict=True)]
        b.kernel.functions[-1].parameters = tuple(p.value for p in b.kernel.parameters)
        b.kernel.parameters.clear()
        with b.scope("kernel"):
            for parameter, value in zip(parameters, values, strict=True):
                frame.assign(parameter, parameter.arg, value)
            if lower_body(frame, source.body) and known and result is not None:
                frame.fail(source.tree, f"{name} ends without a return in one place, and with one in another")
        if known:
            values_out = result_values(c, frame.result)
            if len(values_out) != len(results):
                frame.fail(
                    source.tree, f"{source.name} returns {describe(c.load(frame.result))}, where a number is needed"
                )
            b.yield_(*(b.cast(v, t) for v, t in zip(values_out, results, strict=True)))
    if not known and frame.result.kind is not None:
        raise Restart
    return _finished(c, source, options, result, device=f"{name}_inside", abi=abi)


def _declare(c: Compiler, name: str, descriptor: Descriptor, abi: str) -> Any:
    """Declare the parameters for one argument of a device function, and return the argument's value.

    A complex number has two parameters, for its parts. With the abi "row", which the op table uses, it has one.
    """
    if abi != "row":
        return declare(c, name, descriptor)
    _, dtype, weak = descriptor
    return ScalarValue(c.builder.scalar(name, dtype), weak, dtype.kind == "u")
