"""Names of the CUDA programming model, such as ``cuda.grid`` and ``cuda.shared.array``.

This file contains a table that maps paths to parameters and descriptions, and the objects created from it. The compiler
recognizes the objects by identity and path. In a kernel that runs as plain Python, the objects call methods of the
simulated thread in `running`. Invariant: each path has exactly one object. Outside kernels, using an object as a
function or number raises an error.
"""

from __future__ import annotations

import ast
import operator
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from weft.dsl.kernel.library.library_functions import BF16, FP16

if TYPE_CHECKING:
    from weft.dsl.kernel.python_mode.simulate_threads import RunningThread

FULL_MASK = 0xFFFFFFFF

# path -> (parameters, description). Parameter names are Numba's if Numba has the function.
TABLE: dict[str, tuple[str, str]] = {
    # thread indices
    "grid": ("ndim", "Return the position of the thread in the grid: an int, or a tuple of 2 or 3 ints (x first)."),
    "gridsize": ("ndim", "Return the number of threads in the grid: an int, or a tuple of 2 or 3 ints (x first)."),
    # barriers and fences
    "syncthreads": ("", "Wait for all threads of the block."),
    "syncthreads_count": (
        "predicate",
        "Wait for all threads of the block, and return the number of threads whose `predicate` is true.",
    ),
    "syncthreads_and": (
        "predicate",
        "Wait for all threads of the block, and return 1 if `predicate` is true in all of them, otherwise 0.",
    ),
    "syncthreads_or": (
        "predicate",
        "Wait for all threads of the block, and return 1 if `predicate` is true in any of them, otherwise 0.",
    ),
    "syncwarp": ("mask=0xFFFFFFFF", "Wait for the lanes of the warp whose bits are set in `mask`."),
    "threadfence": (
        "",
        "Order this thread's earlier writes before its later writes, as seen by all threads of the device.",
    ),
    "threadfence_block": (
        "",
        "Order this thread's earlier writes before its later writes, as seen by all threads of the block.",
    ),
    "threadfence_system": (
        "",
        "Order this thread's earlier writes before its later writes, as seen by all devices and the host.",
    ),
    # memory
    "shared.array": (
        "shape, dtype, alignment=None",
        "Create an array that all threads of the block share. With shape 0, the array contains all of the launch's "
        "dynamic shared memory.",
    ),
    "shared.dynamic": (
        "shape, dtype, offset=0",
        "Create an array in the launch's dynamic shared memory, `offset` bytes after the start of this memory.",
    ),
    "local.array": ("shape, dtype, alignment=None", "Create an array that only this thread can access."),
    "const.array_like": ("ary", "Return a copy of a host array in constant memory."),
    # lanes of a warp
    "shfl_sync": (
        "mask, value, src_lane, width=32",
        "Return the `value` of lane `src_lane`, counted in this lane's group of `width` lanes.",
    ),
    "shfl_up_sync": (
        "mask, value, delta, width=32",
        "Return the `value` of the lane whose number is smaller by `delta`, or this lane's `value` if its group of "
        "`width` lanes has no such lane.",
    ),
    "shfl_down_sync": (
        "mask, value, delta, width=32",
        "Return the `value` of the lane whose number is larger by `delta`, or this lane's `value` if its group of "
        "`width` lanes has no such lane.",
    ),
    "shfl_xor_sync": (
        "mask, value, lane_mask, width=32",
        "Return the `value` of the lane with the number ``laneid ^ lane_mask``.",
    ),
    "all_sync": ("mask, predicate", "Return whether `predicate` is true in all lanes of `mask`."),
    "any_sync": ("mask, predicate", "Return whether `predicate` is true in any lane of `mask`."),
    "eq_sync": ("mask, predicate", "Return whether `predicate` is the same in all lanes of `mask`."),
    "ballot_sync": ("mask, predicate", "Return an integer whose bit k is set if `predicate` is true in lane k."),
    "match_any_sync": (
        "mask, value",
        "Return a bit mask of the lanes of `mask` that have the same `value` as this lane.",
    ),
    "match_all_sync": (
        "mask, value",
        "Return `mask` and True if all lanes of `mask` have the same `value`, otherwise 0 and False.",
    ),
    "activemask": ("", "Return a bit mask of the lanes of the warp that execute this call together."),
    "lanemask_lt": ("", "Return a bit mask of the lanes with smaller numbers than this lane."),
    "reduce_add_sync": ("mask, value", "Return the sum of `value` over the lanes of `mask`."),
    "reduce_min_sync": ("mask, value", "Return the minimum of `value` over the lanes of `mask`."),
    "reduce_max_sync": ("mask, value", "Return the maximum of `value` over the lanes of `mask`."),
    "reduce_and_sync": ("mask, value", "Return the bitwise AND of `value` over the lanes of `mask`."),
    "reduce_or_sync": ("mask, value", "Return the bitwise OR of `value` over the lanes of `mask`."),
    "reduce_xor_sync": ("mask, value", "Return the bitwise exclusive OR of `value` over the lanes of `mask`."),
    # atomics
    "atomic.load": ("ary, idx", "Return ``ary[idx]`` while other threads may be updating the element atomically."),
    "atomic.add": ("ary, idx, val", "Execute ``ary[idx] += val`` atomically, and return the old element."),
    "atomic.sub": ("ary, idx, val", "Execute ``ary[idx] -= val`` atomically, and return the old element."),
    "atomic.min": (
        "ary, idx, val",
        "Assign `val` to ``ary[idx]`` if `val` is smaller than the element, and return the old element. NaN is never smaller.",
    ),
    "atomic.max": (
        "ary, idx, val",
        "Assign `val` to ``ary[idx]`` if `val` is larger than the element, and return the old element. NaN is never larger.",
    ),
    "atomic.nanmin": (
        "ary, idx, val",
        "Assign the smaller of ``ary[idx]`` and `val` to ``ary[idx]``, and return the old element. NaN is ignored.",
    ),
    "atomic.nanmax": (
        "ary, idx, val",
        "Assign the larger of ``ary[idx]`` and `val` to ``ary[idx]``, and return the old element. NaN is ignored.",
    ),
    "atomic.and_": ("ary, idx, val", "Execute ``ary[idx] &= val`` atomically, and return the old element."),
    "atomic.or_": ("ary, idx, val", "Execute ``ary[idx] |= val`` atomically, and return the old element."),
    "atomic.xor": ("ary, idx, val", "Execute ``ary[idx] ^= val`` atomically, and return the old element."),
    "atomic.exch": ("ary, idx, val", "Execute ``ary[idx] = val`` atomically, and return the old element."),
    "atomic.inc": (
        "ary, idx, val",
        "Add 1 to an unsigned integer, or set it to 0 if it is at least `val`, and return the old element.",
    ),
    "atomic.dec": (
        "ary, idx, val",
        "Subtract 1 from an unsigned integer, or set it to `val` if it is 0 or greater than `val`, and return the old "
        "element.",
    ),
    "atomic.cas": (
        "ary, idx, old, val",
        "Assign `val` to ``ary[idx]`` if the element equals `old`, and return the old element.",
    ),
    "atomic.compare_and_swap": (
        "ary, old, val",
        "Assign `val` to the only element of `ary` if the element equals `old`, and return the old element.",
    ),
    # bits, numbers, time
    "popc": ("x", "Return the number of 1 bits in an integer."),
    "clz": (
        "x",
        "Return the number of 0 bits above the highest 1 bit of a 32-bit or 64-bit integer, or its width for 0.",
    ),
    "ffs": ("x", "Return the position of the lowest 1 bit, counted from 1, or 0 if no bit is set."),
    "brev": ("x", "Return the bits of a 32-bit or 64-bit integer in reverse order."),
    "fma": ("a, b, c", "Return ``a * b + c``, rounded once."),
    "cbrt": ("a", "Return the cube root of `a`."),
    "rsqrt": ("a", "Return 1 divided by the square root of `a`."),
    "selp": ("a, b, c", "Return `b` if `a` is true, otherwise `c`. Both `b` and `c` are evaluated."),
    "nanosleep": ("ns", "Suspend the thread for approximately `ns` nanoseconds."),
    "clock": ("", "Return a 32-bit counter of clock cycles."),
    "clock64": ("", "Return a 64-bit counter of clock cycles."),
    # loads and stores with a cache operator
    "ldca": ("array, i", "Load ``array[i]``, and cache it at all levels."),
    "ldcg": ("array, i", "Load ``array[i]``, and cache it only at the global level."),
    "ldcs": ("array, i", "Load ``array[i]``, which is unlikely to be read again."),
    "ldlu": ("array, i", "Load ``array[i]``, which will not be read again."),
    "ldcv": ("array, i", "Load ``array[i]`` from memory, even if it is cached."),
    "stcg": ("array, i, value", "Execute ``array[i] = value``, and cache the element only at the global level."),
    "stcs": ("array, i, value", "Execute ``array[i] = value`` for an element that is unlikely to be read again."),
    "stwb": ("array, i, value", "Execute ``array[i] = value``, and write the element back at all cache levels."),
    "stwt": ("array, i, value", "Execute ``array[i] = value``, and write the element through the caches to memory."),
    "inline_ptx": (
        "template, constraints, *values",
        "Insert PTX code, written in the syntax of LLVM's inline assembly. The kernel can then run only on a GPU.",
    ),
    # cooperative groups
    "cg.this_grid": (
        "",
        "Return the group of all threads of the grid. If a kernel calls the group's `sync` method, the launch is cooperative.",
    ),
    "cg.grid_sync": ("", "Wait for all threads of the grid, as ``this_grid().sync()`` does."),
    "cg.this_thread_block": ("", "Return the group of all threads of the block."),
    "cg.this_block": ("", "Return the group of all threads of the block."),
    "cg.tiled_partition": (
        "group, size",
        "Return the tile of `size` lanes (1, 2, 4, 8, 16 or 32) that contains the thread.",
    ),
    "cg.coalesced_threads": ("", "Return the group of the lanes that execute this call together."),
}

# Built-in variables with the components x, y and z.
TRIPLES = {
    "threadIdx": "The index of the thread in its block.",
    "blockIdx": "The index of the block in the grid.",
    "blockDim": "The number of threads in a block along each axis.",
    "gridDim": "The number of blocks in the grid along each axis.",
}


class _Running(threading.local):
    thread: RunningThread | None = None


running = _Running()


def current_thread(path: str) -> RunningThread:
    """Return the simulated thread that is running, or raise TypeError if there is none."""
    if running.thread is None:
        raise TypeError(f"cuda.{path} works inside a kernel only: in a function under @weft.kernel or @weft.device")
    return running.thread


def _read_parameter(text: str) -> Parameter:
    name, _, default = (part.strip() for part in text.partition("="))
    if name.startswith("*"):
        return Parameter(name[1:], Parameter.VAR_POSITIONAL)
    value = ast.literal_eval(default) if default else Parameter.empty
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=value)


class _Named:
    """Base class of the objects of `weft.cuda`, which are pickled by their paths."""

    def __init__(self, path: str, doc: str | None) -> None:
        self.path = path
        self.__doc__ = doc

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return find_name, (self.path,)


class Intrinsic(_Named):
    """A function that only the threads of a kernel can call, such as ``cuda.syncthreads``.

    Attributes
    ----------
    path : str
        The function's name in `weft.cuda`, such as ``"atomic.add"``.
    """

    def __init__(self, path: str, parameters: str, doc: str) -> None:
        super().__init__(path, doc)
        self._text = parameters

    @property
    def __name__(self) -> str:
        return self.path.rpartition(".")[2]

    @cached_property
    def __signature__(self) -> Signature:
        return Signature([_read_parameter(p) for p in self._text.split(",") if p.strip()])

    def bind(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's arguments, with default values filled in, as a dict by parameter name."""
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


class ThreadNumbers(_Named):
    """A built-in variable with three components, such as ``threadIdx``.

    Outside of kernels, a component is an object without a value, so that ``hasattr`` works as with Numba.
    """

    x = property(lambda self: self._component("x"))
    y = property(lambda self: self._component("y"))
    z = property(lambda self: self._component("z"))

    def _component(self, axis: str) -> int | ThreadNumber:
        path = f"{self.path}.{axis}"
        return ThreadNumber(path, self.__doc__) if running.thread is None else running.thread.number(path)

    def __iter__(self) -> Iterator[int | ThreadNumber]:
        return iter((self.x, self.y, self.z))

    def __repr__(self) -> str:
        return f"<cuda.{self.path}>" if running.thread is None else str(tuple(self))


class ThreadNumber(_Named):
    """A built-in variable such as ``laneid``, which acts as an int in the current thread."""

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


def _install_operators() -> None:
    """Define the operators of `ThreadNumber`, which are those of an int."""

    def plain(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, *others: function(int(self), *(int(o) if o is self else o for o in others))

    def reflected(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, other: function(other, int(self))

    for name in ("neg", "pos", "abs", "invert", "lt", "le", "gt", "ge"):
        setattr(ThreadNumber, f"__{name}__", plain(getattr(operator, name)))
    for name in "add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor divmod".split():
        function = getattr(operator, name, divmod)
        setattr(ThreadNumber, f"__{name.rstrip('_')}__", plain(function))
        setattr(ThreadNumber, f"__r{name.rstrip('_')}__", reflected(function))


_install_operators()


class Namespace(_Named):
    """A namespace of `weft.cuda`, such as ``cuda.shared`` and ``cuda.atomic``."""

    def __init__(self, path: str, members: Mapping[str, Any]) -> None:
        super().__init__(path, type(self).__doc__)
        self._members = members

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self._members:
            raise AttributeError(f"cuda.{self.path} has no {name!r}; it has {', '.join(sorted(self._members))}")
        return self._members[name]

    def __dir__(self) -> list[str]:
        return sorted(self._members)

    def __repr__(self) -> str:
        return f"<cuda.{self.path}>"


class BrainNamespace(Namespace):
    """The ``cuda.bf16`` namespace, with the functions of bfloat16.

    If ml_dtypes is installed, it also has the type and its conversions.
    """

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
    """Create the dict `NAMES`. It maps dotted paths such as ``"shared.array"`` to the intrinsics, variables and namespaces of `weft.cuda`."""
    names: dict[str, Any] = {path: Intrinsic(path, parameters, doc) for path, (parameters, doc) in TABLE.items()}
    for space in ("shared", "local", "const", "atomic", "cg"):
        prefix = f"{space}."
        names[space] = Namespace(space, {p.removeprefix(prefix): o for p, o in names.items() if p.startswith(prefix)})
    names["fp16"] = Namespace("fp16", FP16)
    names["bf16"] = BrainNamespace("bf16", BF16)
    names |= {path: ThreadNumbers(path, doc) for path, doc in TRIPLES.items()}
    names["laneid"] = ThreadNumber("laneid", "The index of the thread in its warp.")
    names["warpsize"] = 32
    return names


NAMES: Mapping[str, Any] = _make_names()


def find_name(path: str) -> Any:
    """Return the object with a path such as ``"shared.array"``, or raise KeyError."""
    return NAMES[path]


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"cuda has no {name!r}")
    return NAMES[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *(path for path in NAMES if "." not in path)})
