"""Names of the CUDA model in kernels: ``cuda.grid``, ``cuda.shared.array``, ``cuda.threadIdx.x`` and others.

This file owns a table from paths to parameters and descriptions, and the objects created from it. The compiler knows
the objects by identity and path. In a kernel that runs as plain Python, they call the simulated thread in `running`.
Invariant: each path has one object with its `path`. Outside kernels the objects raise an error.
"""

from __future__ import annotations

import ast
import operator
import threading
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, Signature
from typing import Any, Protocol

from weft.dsl.kernel.library.library_functions import BF16, FP16

FULL_MASK = 0xFFFFFFFF

# path -> (parameters, description). Parameter names are Numba's if Numba has the function.
TABLE: dict[str, tuple[str, str]] = {
    # thread indices
    "grid": ("ndim", "The thread's position in the grid: an int, or a tuple of 2 or 3 (x first)."),
    "gridsize": ("ndim", "Threads of the grid: an int, or a tuple of 2 or 3 (x first)."),
    # barriers and fences
    "syncthreads": ("", "Wait for every thread of the block."),
    "syncthreads_count": ("predicate", "Wait for the block; how many of its threads have a true `predicate`."),
    "syncthreads_and": ("predicate", "Wait for the block; 1 where `predicate` is true in all its threads."),
    "syncthreads_or": ("predicate", "Wait for the block; 1 where `predicate` is true in any of its threads."),
    "syncwarp": ("mask=0xFFFFFFFF", "Wait for the lanes of the warp that `mask` names."),
    "threadfence": ("", "Order this thread's writes for the whole device."),
    "threadfence_block": ("", "Order this thread's writes for its block."),
    "threadfence_system": ("", "Order this thread's writes for every device and the host."),
    # memory
    "shared.array": (
        "shape, dtype, alignment=None",
        "An array that the block shares. Shape 0 is all of the launch's dynamic shared memory.",
    ),
    "shared.dynamic": (
        "shape, dtype, offset=0",
        "An array in the launch's dynamic shared memory, `offset` bytes behind its start.",
    ),
    "local.array": ("shape, dtype, alignment=None", "An array of the thread's own."),
    "const.array_like": ("ary", "A copy of a host array in constant memory."),
    # lanes of a warp
    "shfl_sync": ("mask, value, src_lane, width=32", "`value` of lane `src_lane`."),
    "shfl_up_sync": ("mask, value, delta, width=32", "`value` of the lane `delta` below; my own where there is none."),
    "shfl_down_sync": (
        "mask, value, delta, width=32",
        "`value` of the lane `delta` above; my own where there is none.",
    ),
    "shfl_xor_sync": ("mask, value, lane_mask, width=32", "`value` of the lane whose number is mine ^ `lane_mask`."),
    "all_sync": ("mask, predicate", "Whether `predicate` is true in every lane of `mask`."),
    "any_sync": ("mask, predicate", "Whether `predicate` is true in some lane of `mask`."),
    "eq_sync": ("mask, predicate", "Whether `predicate` is the same in every lane of `mask`."),
    "ballot_sync": ("mask, predicate", "Bit k is set where `predicate` is true in lane k."),
    "match_any_sync": ("mask, value", "The lanes of `mask` that have my `value`, as bits."),
    "match_all_sync": ("mask, value", "`mask` and True where all its lanes have the same `value`, else 0 and False."),
    "activemask": ("", "The lanes of the warp that run together here, as bits."),
    "lanemask_lt": ("", "The lanes below mine, as bits."),
    "reduce_add_sync": ("mask, value", "The sum of `value` over the lanes of `mask`."),
    "reduce_min_sync": ("mask, value", "The least `value` of the lanes of `mask`."),
    "reduce_max_sync": ("mask, value", "The greatest `value` of the lanes of `mask`."),
    "reduce_and_sync": ("mask, value", "`value` of the lanes of `mask`, reduced with &."),
    "reduce_or_sync": ("mask, value", "`value` of the lanes of `mask`, reduced with |."),
    "reduce_xor_sync": ("mask, value", "`value` of the lanes of `mask`, reduced with ^."),
    # atomics: all return the old element
    "atomic.load": ("ary, idx", "``ary[idx]`` as it is now, which other threads may be writing to by atomics."),
    "atomic.add": ("ary, idx, val", "``ary[idx] += val``."),
    "atomic.sub": ("ary, idx, val", "``ary[idx] -= val``."),
    "atomic.min": ("ary, idx, val", "``ary[idx] = val`` where `val` is less. NaN is never less."),
    "atomic.max": ("ary, idx, val", "``ary[idx] = val`` where `val` is greater. NaN is never greater."),
    "atomic.nanmin": ("ary, idx, val", "The lesser of ``ary[idx]`` and `val`; of a NaN and a number, the number."),
    "atomic.nanmax": ("ary, idx, val", "The greater of ``ary[idx]`` and `val`; of a NaN and a number, the number."),
    "atomic.and_": ("ary, idx, val", "``ary[idx] &= val``."),
    "atomic.or_": ("ary, idx, val", "``ary[idx] |= val``."),
    "atomic.xor": ("ary, idx, val", "``ary[idx] ^= val``."),
    "atomic.exch": ("ary, idx, val", "``ary[idx] = val``."),
    "atomic.inc": ("ary, idx, val", "One more, from `val` (or above) back to 0. Unsigned integers."),
    "atomic.dec": ("ary, idx, val", "One less, from 0 (or above `val`) to `val`. Unsigned integers."),
    "atomic.cas": ("ary, idx, old, val", "``ary[idx] = val`` where ``ary[idx] == old``."),
    "atomic.compare_and_swap": ("ary, old, val", "``ary[0] = val`` where ``ary[0] == old``, `ary` having one element."),
    # bits, numbers, time
    "popc": ("x", "How many bits of an integer are set."),
    "clz": ("x", "Zero bits above the highest set one, of 32 or 64."),
    "ffs": ("x", "The place of the lowest set bit, from 1; 0 where there is none."),
    "brev": ("x", "The bits of an integer in reverse order, of 32 or 64."),
    "fma": ("a, b, c", "``a * b + c``, rounded once."),
    "cbrt": ("a", "The cube root."),
    "rsqrt": ("a", "One over the square root."),
    "selp": ("a, b, c", "`b` where `a` is true, else `c`; both are computed."),
    "nanosleep": ("ns", "Suspend the thread for about so many nanoseconds."),
    "clock": ("", "A counter of cycles, 32 bits."),
    "clock64": ("", "A counter of cycles, 64 bits."),
    # loads and stores with a cache operator
    "ldca": ("array, i", "``array[i]``, cached at all levels."),
    "ldcg": ("array, i", "``array[i]``, cached at the global level."),
    "ldcs": ("array, i", "``array[i]``, likely not to be read again."),
    "ldlu": ("array, i", "``array[i]``, not to be read again."),
    "ldcv": ("array, i", "``array[i]``, fetched again."),
    "stcg": ("array, i, value", "``array[i] = value``, cached at the global level."),
    "stcs": ("array, i, value", "``array[i] = value``, likely not to be read again."),
    "stwb": ("array, i, value", "``array[i] = value``, written back at all levels."),
    "stwt": ("array, i, value", "``array[i] = value``, written through to memory."),
    "inline_ptx": ("template, constraints, *values", "PTX in the program, as LLVM's inline assembly; on a GPU only."),
    # cooperative groups
    "cg.this_grid": ("", "The group of all threads of the grid; its `sync` makes the launch cooperative."),
    "cg.grid_sync": ("", "Wait for every thread of the grid: `this_grid().sync()`."),
    "cg.this_thread_block": ("", "The group of the block's threads."),
    "cg.this_block": ("", "The group of the block's threads."),
    "cg.tiled_partition": ("group, size", "The tile of `size` lanes (1, 2, 4, 8, 16 or 32) that the thread is in."),
    "cg.coalesced_threads": ("", "The group of the lanes that run together here."),
}

# Built-in variables with the components x, y and z.
TRIPLES = {
    "threadIdx": "The thread's place in its block.",
    "blockIdx": "The block's place in the grid.",
    "blockDim": "Threads of a block along each axis.",
    "gridDim": "Blocks of the grid along each axis.",
}


class SimulatedThread(Protocol):
    """Protocol of a thread of a kernel that runs as plain Python."""

    def perform(self, path: str, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Execute the intrinsic with the name `path`, such as ``atomic.add``, and return its result."""
        ...

    def number(self, path: str) -> int:
        """Return the value of the built-in variable with the name `path`, such as ``threadIdx.x`` or ``laneid``."""
        ...

    def launch_later(self, start: Callable[[], None]) -> None:
        """Schedule a kernel launch for the end of this thread's grid."""
        ...


class _Running(threading.local):
    thread: SimulatedThread | None = None


running = _Running()


def current_thread(path: str) -> SimulatedThread:
    """Return the running thread of a kernel that runs as plain Python. Raises TypeError outside of kernels."""
    if running.thread is None:
        raise TypeError(f"cuda.{path} works inside a kernel only: in a function under @weft.kernel or @weft.device")
    return running.thread


def _read_parameter(text: str) -> Parameter:
    name, _, default = (part.strip() for part in text.partition("="))
    if name.startswith("*"):
        return Parameter(name[1:], Parameter.VAR_POSITIONAL)
    value = ast.literal_eval(default) if default else Parameter.empty
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=value)


class Intrinsic:
    """A function that only the threads of a kernel can call.

    Attributes
    ----------
    path : str
        The function's name in `weft.cuda`, such as ``"atomic.add"``.
    """

    def __init__(self, path: str, parameters: str, doc: str) -> None:
        self.path = path
        self.__doc__ = doc
        self._text = parameters
        self._signature: Signature | None = None

    @property
    def __name__(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def __signature__(self) -> Signature:
        if self._signature is None:
            self._signature = Signature([_read_parameter(p) for p in self._text.split(",") if p.strip()])
        return self._signature

    def bind(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by parameter name, including defaults. Raises TypeError for wrong arguments."""
        try:
            bound = self.__signature__.bind(*arguments, **keywords)
        except TypeError as error:
            raise TypeError(f"cuda.{self.path}({self._text}): {error}") from None
        bound.apply_defaults()
        return bound.arguments

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return current_thread(self.path).perform(self.path, arguments, keywords)

    def __repr__(self) -> str:
        return f"<cuda.{self.path}({self._text})>"

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return find_name, (self.path,)


class ThreadNumbers:
    """A built-in variable with three components: ``threadIdx``, ``blockIdx``, ``blockDim`` or ``gridDim``."""

    def __init__(self, path: str, doc: str) -> None:
        self.path = path
        self.__doc__ = doc

    @property
    def x(self) -> int:
        return current_thread(f"{self.path}.x").number(f"{self.path}.x")

    @property
    def y(self) -> int:
        return current_thread(f"{self.path}.y").number(f"{self.path}.y")

    @property
    def z(self) -> int:
        return current_thread(f"{self.path}.z").number(f"{self.path}.z")

    def __iter__(self) -> Iterator[int]:
        return iter((self.x, self.y, self.z))

    def __repr__(self) -> str:
        return f"<cuda.{self.path}>" if running.thread is None else str(tuple(self))

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return find_name, (self.path,)


class ThreadNumber:
    """A built-in variable such as ``laneid``, whose value depends on the running thread. It behaves like an int."""

    def __init__(self, path: str, doc: str) -> None:
        self.path = path
        self.__doc__ = doc

    def __index__(self) -> int:
        return current_thread(self.path).number(self.path)

    __int__ = __index__

    def __float__(self) -> float:
        return float(int(self))

    def __bool__(self) -> bool:
        return int(self) != 0

    def __eq__(self, other: object) -> Any:
        return self is other or (running.thread is not None and int(self) == other)

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"<cuda.{self.path}>" if running.thread is None else str(int(self))

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return find_name, (self.path,)


def _install_operators() -> None:
    """Define the operators of an int for `ThreadNumber`."""

    def plain(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, *others: function(int(self), *(int(o) if o is self else o for o in others))

    def reflected(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, other: function(other, int(self))

    for name in ("neg", "pos", "abs", "invert", "lt", "le", "gt", "ge"):
        setattr(ThreadNumber, f"__{name}__", plain(getattr(operator, name)))
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor"):
        function = getattr(operator, name)
        setattr(ThreadNumber, f"__{name.rstrip('_')}__", plain(function))
        setattr(ThreadNumber, f"__r{name.rstrip('_')}__", reflected(function))
    for name, function in (("divmod", divmod),):
        setattr(ThreadNumber, f"__{name}__", plain(function))
        setattr(ThreadNumber, f"__r{name}__", reflected(function))


_install_operators()


class Namespace:
    """A namespace of `weft.cuda`, such as ``cuda.shared`` and ``cuda.atomic``."""

    __slots__ = ("_members", "path")

    def __init__(self, path: str, members: Mapping[str, Any]) -> None:
        self.path = path
        self._members = members

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self._members:
            raise AttributeError(f"cuda.{self.path} has no {name!r}; it has {', '.join(sorted(self._members))}")
        return self._members[name]

    def __dir__(self) -> list[str]:
        return sorted(self._members)

    def __repr__(self) -> str:
        return f"<cuda.{self.path}>"

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return find_name, (self.path,)


class BrainNamespace(Namespace):
    """The namespace ``cuda.bf16``: bfloat16 functions and, if ml_dtypes is installed, the type and its conversions."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name == "bfloat16":
            from weft.dsl.kernel.language import types

            return types.bfloat16
        if name not in self._members and "bfloat16" in name:
            from weft.dsl.kernel.library.bfloat16_conversions import CONVERSIONS

            if name in CONVERSIONS:
                return CONVERSIONS[name]
        return super().__getattr__(name)


def _make_names() -> dict[str, Any]:
    """Return the intrinsics, built-in variables and namespaces of `weft.cuda`, by path."""
    names: dict[str, Any] = {path: Intrinsic(path, parameters, doc) for path, (parameters, doc) in TABLE.items()}
    for space in ("shared", "local", "const", "atomic", "cg"):
        prefix = f"{space}."
        names[space] = Namespace(space, {p.removeprefix(prefix): o for p, o in names.items() if p.startswith(prefix)})
    names["fp16"] = Namespace("fp16", FP16)
    names["bf16"] = BrainNamespace("bf16", BF16)
    names |= {path: ThreadNumbers(path, doc) for path, doc in TRIPLES.items()}
    names["laneid"] = ThreadNumber("laneid", "The thread's number in its warp.")
    names["warpsize"] = 32
    return names


NAMES: Mapping[str, Any] = _make_names()


def find_name(path: str) -> Any:
    """Return the object with a path such as ``"shared.array"``. Raises KeyError for an unknown path."""
    return NAMES[path]


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"cuda has no {name!r}")
    return NAMES[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *(path for path in NAMES if "." not in path)})
