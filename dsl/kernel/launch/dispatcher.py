"""Kernels as Python objects, which are launched by ``kernel[grid, block](...)``.

In: a Python function, grid and block, and arguments. Out: a launch on the device of the arguments. Invariant: errors
in the grid, the block or the types of the arguments are raised before the kernel runs. A kernel writes only to memory
that earlier expressions no longer need, so they see the old values.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from operator import index
from types import FunctionType
from typing import Any

import numpy as np

from weft.codegen import Kernel
from weft.dsl import kernel as face  # for names that are loaded on first use
from weft.dsl.cuda.streams import as_queue
from weft.dsl.kernel.language.device_function import DeviceFunction, KernelFunction, reduce_function
from weft.dsl.kernel.language.kernel_errors import KernelError, KernelTypeError, LaunchError
from weft.dsl.kernel.language.source import source_of
from weft.dsl.kernel.language.specialize import Options, Specialization, specialize
from weft.dsl.kernel.language.types import Signature, Type, as_signatures, one_signature
from weft.dsl.kernel.launch import arguments as args
from weft.dsl.kernel.launch.inspection import Inspection, SpecializationKey, types_of
from weft.dsl.kernel.launch.kernel_launch import DispatchedLaunch, run_in_python
from weft.dsl.kernel.launch.prepared_launch import PreparedLaunch, signature_of
from weft.dsl.kernel.library.intrinsics import NeedsLaunch
from weft.dsl.kernel.sanitizer.tracer import Tracer
from weft.runtime import PerformanceWarning, counted, default_device, setting, warn_user

MAX_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
LAUNCHERS_LIMIT = 64  # number of configurations that a kernel caches
MAX_SHARED = 227 * 1024  # per block, on recent GPUs
Triple = tuple[int, int, int]


def triple(what: str, size: Any) -> Triple:
    """Return a grid or block size as three integers. Raises LaunchError or KernelTypeError if it is invalid."""
    items = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if not 1 <= len(items) <= 3:
        raise LaunchError(f"{what}dim must be a sequence of 1, 2 or 3 integers, got {list(items)}")
    numbers = []
    for item in items:
        if isinstance(item, (bool, np.bool_, np.ndarray)) or not hasattr(item, "__index__"):
            given = f"{what}dim must be a sequence of integers, got {list(items)}"
            raise KernelTypeError(f"{given}: write // instead of /, or int(...)")
        numbers.append(int(item.__index__()))
    limits = MAX_BLOCK if what == "block" else MAX_GRID
    for axis, number, limit in zip("xyz", numbers, limits, strict=False):
        given = f"the {what} has {number} {'threads' if what == 'block' else 'blocks'} along {axis}"
        if number < 1:
            raise LaunchError(f"{given}: it needs at least 1")
        if number > limit:
            raise LaunchError(f"{given}; the limit is {limit}")
    whole_size = (*numbers, 1, 1)[:3]
    if what == "block" and prod(whole_size) > MAX_THREADS:
        raise LaunchError(f"a block of {prod(whole_size)} threads {tuple(numbers)} is over the limit of {MAX_THREADS}")
    return whole_size  # type: ignore[return-value]


@dataclass(eq=False, repr=False, slots=True)
class ConfiguredKernel:
    """A kernel with a launch configuration: grid, block, stream and dynamic shared memory.

    A call with the kernel's arguments launches the kernel.
    """

    kernel: KernelDispatcher
    grid: Triple
    block: Triple
    stream: Any
    shared_bytes: int
    prepared: dict[Any, PreparedLaunch] = field(default_factory=dict)  # launches by the signature of their arguments
    # called with the kernel and this configuration
    pre_launch_callbacks: list[Callable[[Any, ConfiguredKernel], Any]] = field(default_factory=list)

    def __call__(self, *arguments: Any, **keywords: Any) -> None:
        try:
            for callback in self.pre_launch_callbacks:
                callback(self.kernel, self)
            self.kernel.launch(self, arguments, keywords)
        except KernelError as error:
            # The message contains the location in the kernel, so the traceback omits the compiler's frames.
            raise error.with_traceback(None) from None

    def __repr__(self) -> str:
        return f"<{self.kernel!r} with grid {self.grid}, block {self.block}>"


class KernelDispatcher(KernelFunction, Inspection):
    """A kernel: a function that runs on every thread of a grid. `weft.kernel` creates kernels.

    ``k[grid, block](...)`` and ``k[grid, block, stream, shared_bytes](...)`` launch the kernel. ``k.forall(n)(...)``
    launches a grid with at least `n` threads.
    """

    def __init__(
        self,
        function: Any,
        signatures: Sequence[Signature] = (),
        options: Options | None = None,
        extensions: Sequence[Any] = (),
    ) -> None:
        if isinstance(function, (KernelDispatcher, DeviceFunction)):
            function = function.py_func
        function = face.from_numba(function)
        if not isinstance(function, FunctionType):
            raise TypeError(f"a kernel is made of a Python function, not of {type(function).__name__}")
        self.py_func: Any = function
        self.options = options or Options()
        self.extensions = list(extensions)  # objects whose `prepare_args` converts arguments, as in Numba
        self._hinted = False
        self._found: dict[SpecializationKey, Specialization] = {}
        self._by_block: set[SpecializationKey] = set()
        self.specializations: dict[Any, KernelDispatcher] = {}
        self.generation = 0  # counts recompilations
        self._launchers: dict[Any, ConfiguredKernel] = {}
        self._compiling = True
        functools.update_wrapper(self, function)
        self.source = source_of(function)
        self._signatures = tuple(signatures)
        self._signature = _signature_of(self, function)
        self._plain = all(
            p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and p.default is inspect.Parameter.empty
            for p in self._signature.parameters.values()
        )
        self._count = len(self._signature.parameters)
        for signature in signatures:
            self.compile(signature)
        self._compiling = not signatures

    def __repr__(self) -> str:
        return f"<weft kernel {self.__name__}>"

    def __reduce__(self) -> Any:
        return reduce_function(self, self.py_func, self._signatures, self.options, self.extensions)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise LaunchError(
            f"launch configuration was not specified: {self.__name__} is a kernel, so write "
            f"{self.__name__}[blocks, threads](...) or {self.__name__}.forall(n)(...)"
        )

    def __getitem__(self, configuration: Any) -> ConfiguredKernel:
        if type(configuration) is tuple and tuple(map(type, configuration)) == (int, int):
            found = self._launchers.get(configuration)
            if found is None:
                if len(self._launchers) >= LAUNCHERS_LIMIT:
                    self._launchers.clear()
                found = self._launchers[configuration] = self.configure(*configuration)
            return found
        if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 4:
            raise LaunchError(
                "a kernel takes [grid, block], [grid, block, stream] or [grid, block, stream, shared_bytes] in its brackets, "
                + (f"not {configuration!r}" if isinstance(configuration, tuple) else "not only a grid")
            )
        return self.configure(*configuration)

    def configure(self, griddim: Any, blockdim: Any, stream: object = 0, sharedmem: int = 0) -> ConfiguredKernel:
        """Return the kernel with a launch configuration.

        `sharedmem` is the size of each block's dynamic shared memory in bytes. Raises LaunchError or KernelTypeError if
        the configuration is invalid.
        """
        if isinstance(sharedmem, bool) or not isinstance(sharedmem, (int, np.integer)):
            raise LaunchError(f"bytes of shared memory are an integer, not {sharedmem!r}")
        shared = int(sharedmem)
        if not 0 <= shared <= MAX_SHARED:
            raise LaunchError(f"{shared} bytes of shared memory for a block: it has 0 to {MAX_SHARED}")
        threads = triple("block", blockdim)
        if self.options.launch_bounds and prod(threads) > self.options.launch_bounds[0]:
            raise LaunchError(
                f"a block of {prod(threads)} threads; {self.__name__} was compiled for at most {self.options.launch_bounds[0]} "
                "(launch_bounds): CUDA_ERROR_INVALID_VALUE"
            )
        try:
            queue = as_queue(0 if stream is None else stream)
        except TypeError as error:
            raise LaunchError(str(error)) from None
        return ConfiguredKernel(self, triple("grid", griddim), threads, queue, shared)

    def forall(self, ntasks: int, tpb: int = 0, stream: object = 0, sharedmem: int = 0) -> ConfiguredKernel:
        """Return the kernel with a 1-D grid of at least `ntasks` threads, in blocks of `tpb` threads.

        If `tpb` is 0, blocks have 256 threads.
        """
        if not hasattr(ntasks, "__index__"):
            raise LaunchError(
                f"forall takes the number of tasks, an integer, not {ntasks!r}; k[grid, block] has other shapes"
            )
        count = index(ntasks)
        if count < 0:
            raise LaunchError(f"Can't create ForAll with negative task count: {ntasks}")
        threads = prod(triple("block", tpb or 256))
        return self.configure(max(-(-count // threads), 1), threads, stream, sharedmem)

    # -- compiling ----------------------------------------------------------------------------

    def compile(self, signature: Any) -> Specialization:
        """Compile the kernel ahead of time for a signature, such as ``"void(float32[:], int32)"``."""
        found = one_signature(signature)
        if found.result not in (None,) and type(found.result).__name__ != "NoneType":
            raise KernelTypeError(f"a kernel returns nothing, but the signature says {found.result}")
        if len(found.arguments) != self._count:
            raise KernelTypeError(
                f"{self.__name__} takes {counted(self._count, 'argument')}, but the signature has {len(found.arguments)}"
            )
        descriptors = tuple(args.from_type(kind) for kind in found.arguments)
        device = default_device()
        return self.specialization(descriptors, device.target, np.dtype(np.int32), None)

    def specialization(
        self, descriptors: tuple[Any, ...], target: Any, index: np.dtype, block: Triple | None, sanitized: bool = False
    ) -> Specialization:
        """Return the specialization for the given type descriptors, after compiling it if necessary.

        If `sanitized` is true, the kernel is instrumented for the sanitizer.

        Raises KernelTypeError if the kernel was compiled ahead of time for other types.
        """
        if not self._compiling:
            descriptors = self._find_compiled(descriptors)
        mode = "sanitized" if sanitized else setting("checked")
        key = SpecializationKey(descriptors, index, target.kind, mode)
        if key in self._by_block:
            key = key._replace(block=block)
        found = self._found.get(key)
        if found is None:
            try:
                found = self._specialize(descriptors, target, index, key.block, sanitized)
            except NeedsLaunch as needed:
                if block is None:
                    raise KernelTypeError(
                        "this shape depends on the launch: it is known once the kernel is launched with a block",
                        needed.args[0],
                    ) from None
                self._by_block.add(key)
                return self.specialization(descriptors, target, index, block, sanitized)
            self._found[key] = found
        return found

    def _find_compiled(self, descriptors: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the type descriptors of a compiled signature that accepts the given arguments.

        Raises KernelTypeError if there is no such signature.
        """
        known = list(dict.fromkeys(key.descriptors for key in self._found))
        if descriptors in known:
            return descriptors
        for fits in (args.is_lossless, args.can_pass):
            for signature in known:
                if all(fits(given, wanted) for given, wanted in zip(descriptors, signature, strict=True)):
                    return signature
        shown = ", ".join(map(str, types_of(descriptors)))
        have = "; ".join(f"({', '.join(map(str, types_of(k)))})" for k in known)
        raise KernelTypeError(f"No matching definition: {self.__name__} was compiled for {have}, not for ({shown})")

    def specialize(self, *arguments: Any) -> KernelDispatcher:
        """Return a kernel that is compiled only for arguments of the given types.

        `arguments` contains types, or values of these types.

        Raises RuntimeError if the kernel is already specialized.
        """
        if not self._compiling:
            raise RuntimeError(f"Dispatcher already specialized: {self.__name__} was compiled for its types only")
        if arguments and all(isinstance(kind, Type) for kind in arguments):
            device, values = default_device(), tuple(map(args.from_type, arguments))
        else:
            device, values = self.described(arguments)
        if len(values) != self._count:
            raise KernelTypeError(f"{self.__name__} takes {counted(self._count, 'argument')}, not {len(values)}")
        found = self.specializations.get((values, device.target))
        if found is None:
            found = KernelDispatcher(self.py_func, options=self.options, extensions=self.extensions)
            self.specializations[values, device.target] = found
            found.specialization(values, device.target, np.dtype(np.int32), None)
            found._compiling = False
        return found

    def described(self, arguments: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Return the device on which a launch would run, and the type descriptors of the arguments."""
        launch = DispatchedLaunch(self, ConfiguredKernel(self, (1, 1, 1), (1, 1, 1), None, 0), arguments)
        return launch.device, launch.describe()

    def recompile(self) -> None:
        """Recompile the kernel's specializations with the current global variables.

        They are compiled for the default device. Specializations for the sanitizer are only discarded.
        """
        self.generation += 1
        keys = [key for key in self._found if key.mode != "sanitized"]
        self._found.clear()
        compiling, self._compiling = self._compiling, True
        try:
            for key in keys:
                self.specialization(key.descriptors, default_device().target, key.index_dtype, key.block)
        finally:
            self._compiling = compiling

    def _specialize(
        self, descriptors: tuple[Any, ...], target: Any, index: np.dtype, block: Triple | None, sanitized: bool
    ) -> Specialization:
        tracer = Tracer() if sanitized else None
        made = specialize(
            self.py_func,
            descriptors,
            target,
            index,
            self.options,
            checked=setting("checked"),
            block=block,
            tracer=tracer,
        )
        if made.doubled is not None and target.machine.is_gpu and not self._hinted and _is_single(made.kernel):
            self._hinted = True
            warn_user(
                f"{self.__name__} computes in float64 over float32 arrays, as Numba does, which is slow on most GPUs: write "
                f"np.float32(...), or cuda.jit(weak_scalars=True)\n{made.doubled.show()}",
                PerformanceWarning,
            )
        return made

    # -- launching ----------------------------------------------------------------------------

    def launch(self, launcher: ConfiguredKernel, given: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Launch the kernel with positional and keyword arguments."""
        if not (self._plain and not keywords and len(given) == self._count):
            given = self._bound(given, keywords)
        if self.extensions:
            retrieve: list[Callable[[], Any]] = []
            converted = tuple(args.extended(value, self.extensions, launcher.stream or 0, retrieve) for value in given)
            self._launch(launcher, converted)
            for write_back in retrieve:
                write_back()
        else:
            self._launch(launcher, given)

    def _launch(self, launcher: ConfiguredKernel, given: tuple[Any, ...]) -> None:
        if setting("kernel_python"):
            run_in_python(self.py_func, launcher, given)
        elif setting("sanitize"):
            face.SanitizedLaunch(self, launcher, given).run()
        else:
            signature = signature_of(launcher, given)
            prepared = launcher.prepared.get(signature) if signature is not None else None
            if prepared is not None:
                prepared.launch(launcher, given)
            else:
                DispatchedLaunch(self, launcher, given).run(signature)

    def _bound(self, given: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        try:
            bound = self._signature.bind(*given, **keywords)
        except TypeError as error:
            raise KernelTypeError(f"{self.__name__}{self._signature}: {error}") from None
        bound.apply_defaults()
        return tuple(bound.arguments.values())


def _is_single(kernel: Kernel) -> bool:
    """Return whether a kernel's parameters include float32, but neither float64 nor complex128."""
    kinds = {getattr(p.value.type, "dtype", p.value.type) for p in kernel.parameters}
    return np.dtype(np.float32) in kinds and kinds.isdisjoint((np.dtype(np.float64), np.dtype(np.complex128)))


def _signature_of(kernel: KernelDispatcher, function: FunctionType) -> inspect.Signature:
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise KernelTypeError(
                f"a kernel has a fixed number of parameters: {parameter} cannot be one; pass a tuple",
                kernel.source.location(kernel.source.tree),
            )
    return signature


def kernel(function: Any = None, *signatures: Any, **options: Any) -> Any:
    """Convert a Python function to a kernel (``@weft.kernel``).

    Parameters
    ----------
    function : function, or signature(s)
        The function. Alternatively, a signature (text or type object) or a list of signatures for which the kernel is
        compiled when it is defined.
    debug : bool
        Check every index and every divisor. If a check fails, raise IndexError or ZeroDivisionError with a message that
        names the block and the thread.
    fastmath : bool
        Allow fused multiply-add, and approximate division and square roots.
    max_registers : int
        Maximum number of registers per thread.
    launch_bounds : int or tuple of int
        Maximum number of threads per block and, optionally, minimum number of blocks per multiprocessor and maximum
        number of blocks per cluster.
    lineinfo : bool
        Emit line numbers in the GPU code, for profilers.
    link : list
        Files, or objects such as `cuda.CUSource`, that define the functions declared with `cuda.declare_device`.
    extensions : list
        Objects that convert the arguments of each launch with a method ``prepare_args(type, value, stream, retr)``. The
        method returns a type and a value. ``type`` is None if kernels do not support the value. After the launch, weft
        calls the functions that the method has appended to ``retr``.
    weak_scalars : bool
        Whether Python numbers take the dtype of the other operand, as in NumPy 2, which is the default. If false, Python
        numbers have Numba's types, as in `cuda.jit`.

    Returns
    -------
    Kernel, or a decorator that creates a kernel

    Examples
    --------
    >>> @wf.kernel
    ... def double(x):
    ...     i = wf.cuda.grid(1)
    ...     if i < x.size:
    ...         x[i] *= 2
    >>> x = wf.arange(4)
    >>> double[1, 32](x)
    >>> x
    array([0, 2, 4, 6])
    """
    if isinstance(function, (FunctionType, KernelDispatcher, DeviceFunction)):
        return KernelDispatcher(function, (), make_options(options), options.get("extensions") or ())
    found = () if function is None else as_signatures(function if not signatures else [function, *signatures])
    return lambda inner: KernelDispatcher(inner, found, make_options(options), options.get("extensions") or ())


_KNOWN = (
    "debug",
    "boundscheck",
    "fastmath",
    "lineinfo",
    "link",
    "max_registers",
    "launch_bounds",
    "weak_scalars",
    "extensions",
)
# Numba's options that have no effect: functions are always inlined, optimized, cached and linked.
_IGNORED = ("opt", "inline", "forceinline", "cache", "lto", "shared_memory_carveout", "nopython")


def make_options(given: dict[str, Any]) -> Options:
    """Convert the options of a decorator to `Options`.

    Raises KernelTypeError for unknown options and for numbers that are not positive integers, and LaunchError for more
    than three launch bounds.
    """
    unknown = [name for name in given if name not in _KNOWN and name not in _IGNORED]
    if unknown:
        raise KernelTypeError(f"kernels have no option {unknown[0]!r}; they have {', '.join(_KNOWN)}")
    bounds = given.get("launch_bounds") or ()
    bounds = tuple(bounds) if isinstance(bounds, (tuple, list)) else (bounds,)
    if len(bounds) > 3:
        raise LaunchError(
            f"launch_bounds are threads per block, blocks per multiprocessor and blocks per cluster. Got {len(bounds)} "
            f"launch bounds: {bounds}"
        )
    registers = given.get("max_registers") or 0
    if any(not hasattr(number, "__index__") or number < 1 for number in (*bounds, registers or 1)):
        raise KernelTypeError(f"launch_bounds and max_registers are positive integers, not {bounds} and {registers!r}")
    return Options(
        debug=bool(given.get("debug") or given.get("boundscheck")),
        fastmath=bool(given.get("fastmath")),
        lineinfo=bool(given.get("lineinfo")),
        max_registers=int(registers),
        launch_bounds=bounds,
        numba=not given.get("weak_scalars", True),
        links=face.link_digests(given["link"]) if given.get("link") else (),
    )
