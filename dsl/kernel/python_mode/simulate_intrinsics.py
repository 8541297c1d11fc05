"""Implementations of the CUDA intrinsics for Python mode.

The table `ACTIONS` maps the path of each intrinsic to a function of the simulated thread and the arguments. Results are
those of compiled kernels. Out-of-bounds indices raise NumPy's IndexError. Thread indices and counts are Python numbers,
and lane masks are uint32.
"""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from weft.dsl.kernel.language.kernel_errors import KernelError
from weft.dsl.kernel.language.names import FULL_MASK
from weft.dsl.kernel.language.types import element_dtype
from weft.dsl.kernel.library import groups
from weft.dsl.kernel.library.library_functions import op_in_python
from weft.dsl.kernel.library.supported_dtypes import check_atomic, check_hint, check_match, check_reduction
from weft.dsl.kernel.python_mode.argument_conversion import common_dtype, convert, float_dtype, fused_multiply_add
from weft.dsl.kernel.python_mode.simulate_arrays import as_kernel_array, make_array
from weft.dsl.kernel.python_mode.simulate_bfloat16 import seen
from weft.dsl.kernel.python_mode.simulate_threads import WARP, RunningThread, Scope, call_frames

Action = Callable[..., Any]


# -- thread indices ------------------------------------------------------------------------------


def _by_axes(value: Callable[[RunningThread, str], int], thread: RunningThread, ndim: int) -> int | tuple[int, ...]:
    if ndim not in (1, 2, 3):
        raise ValueError(f"a grid has 1, 2 or 3 axes, not {ndim}")
    found = tuple(value(thread, axis) for axis in "xyz"[:ndim])
    return found if ndim > 1 else found[0]


def _grid(thread: RunningThread, axis: str) -> int:
    number = thread.number
    return number(f"threadIdx.{axis}") + number(f"blockIdx.{axis}") * number(f"blockDim.{axis}")


def _gridsize(thread: RunningThread, axis: str) -> int:
    return thread.number(f"blockDim.{axis}") * thread.number(f"gridDim.{axis}")


# -- synchronization ---------------------------------------------------------------------------


def _same_for_all(combine: Callable[[list[Any]], Any], brought: dict[int, Any]) -> dict[int, Any]:
    return dict.fromkeys(brought, combine(list(brought.values())))


def _block_vote(combine: Callable[[list[bool]], int]) -> Action:
    combined = partial(_same_for_all, combine)
    return lambda thread, predicate: thread.synchronize("block", bool(predicate), combined)


def _barrier(scope: Scope) -> Action:
    return lambda thread: thread.synchronize(scope, None, partial(_same_for_all, lambda _: None))


def _warp_meet(thread: RunningThread, mask: Any, value: object, combine: Callable[..., Any]) -> Any:
    lanes = int(mask) & FULL_MASK
    if not lanes >> thread.lane & 1:
        raise KernelError(
            f"cuda.{thread.path}: lane {thread.lane} calls it, but its mask {lanes:#010x} does not name that lane"
        )
    return thread.synchronize("warp", value, combine, lanes)


def _syncwarp(thread: RunningThread, mask: int = FULL_MASK) -> None:
    _warp_meet(thread, mask, None, partial(_same_for_all, lambda _: None))


def _shuffle(source: Callable[[int, int, int], int]) -> Action:
    """Return a shuffle in which each lane reads from the lane ``source(lane, operand, width)``."""

    def exchange(brought: dict[int, tuple[Any, int]]) -> dict[int, Any]:
        return {lane: brought.get(source_lane, (value, lane))[0] for lane, (value, source_lane) in brought.items()}

    def action(thread: RunningThread, mask: int, value: object, operand: int, width: int = WARP) -> Any:
        if width not in (1, 2, 4, 8, 16, 32):
            raise ValueError(f"the width of a shuffle is 1, 2, 4, 8, 16 or 32, not {width}")
        source_lane = source(thread.lane, int(operand) % WARP, int(width))  # the hardware uses five bits
        return _warp_meet(thread, mask, (value, source_lane), exchange)

    return action


def _shuffle_xor(lane: int, mask: int, width: int) -> int:
    source_lane = lane ^ mask
    return source_lane if source_lane < lane - lane % width + width else lane


def _vote(combine: Callable[[list[bool]], Any]) -> Action:
    combined = partial(_same_for_all, combine)
    return lambda thread, mask, predicate: _warp_meet(thread, mask, bool(predicate), combined)


def _lanes(lanes: Iterable[int]) -> np.uint32:
    return np.uint32(sum(1 << lane for lane in lanes))


def _ballot(brought: dict[int, bool]) -> dict[int, np.uint32]:
    return dict.fromkeys(brought, _lanes(lane for lane, true in brought.items() if true))


def _match(combine: Callable[[dict[int, bytes]], dict[int, Any]]) -> Action:
    """Return a simulated warp match operation. The function `combine` receives the bytes of each lane's value, and returns each lane's result."""

    def action(thread: RunningThread, mask: int, value: Any) -> Any:
        check_match(common_dtype(value), TypeError)
        return _warp_meet(thread, mask, np.asarray(value).tobytes(), combine)

    return action


def _match_any(brought: dict[int, bytes]) -> dict[int, np.uint32]:
    return {lane: _lanes(k for k, other in brought.items() if other == bits) for lane, bits in brought.items()}


def _match_all(brought: dict[int, bytes]) -> dict[int, tuple[np.uint32, bool]]:
    same = len(set(brought.values())) == 1
    return dict.fromkeys(brought, (_lanes(brought if same else ()), same))


def _warp_reduce(kind: str, combine: Callable[[Any, Any], Any]) -> Action:
    combined = partial(_same_for_all, lambda values: functools.reduce(combine, values))

    def action(thread: RunningThread, mask: int, value: Any) -> Any:
        check_reduction(kind, common_dtype(value), TypeError)
        return _warp_meet(thread, mask, value, combined)

    return action


def _or_nan(better: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: a if better(a, b) or a != a else b  # NaN takes precedence


# -- memory ------------------------------------------------------------------------------------


def _shape(shape: Any) -> tuple[int, ...]:
    axes = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple(operator.index(axis) for axis in axes)


def _shared_array(thread: RunningThread, shape: Any, dtype: Any, alignment: int | None = None) -> np.ndarray:
    axes, kind = _shape(shape), element_dtype(dtype)
    if axes == (0,):
        return _shared_dynamic(thread, len(thread.block.dynamic) // kind.itemsize, kind)
    frame = call_frames()[0]
    site = (frame.f_code, frame.f_lasti, axes, kind)
    if site not in thread.block.shared:
        thread.block.shared[site] = make_array(axes, kind)
    return thread.block.shared[site]


def _shared_dynamic(thread: RunningThread, shape: Any, dtype: Any, offset: int = 0) -> np.ndarray:
    axes, kind = _shape(shape), element_dtype(dtype)
    start, end = int(offset), int(offset) + prod(axes) * kind.itemsize
    held = thread.block.dynamic
    if start < 0 or end > len(held):
        raise KernelError(
            f"cuda.shared.dynamic: bytes {start} to {end} of dynamic shared memory, but the launch asked for "
            f"{len(held)}: kernel[grid, block, stream, bytes]"
        )
    if start % kind.alignment:
        raise KernelError(f"cuda.shared.dynamic: offset {start} is no multiple of {kind.alignment}, as {kind} needs")
    return as_kernel_array(held[start:end].view(kind).reshape(axes))


def _local_array(thread: RunningThread, shape: Any, dtype: Any, alignment: int | None = None) -> np.ndarray:
    axes, kind = _shape(shape), element_dtype(dtype)
    site = (*((frame.f_code, frame.f_lasti) for frame in call_frames()), axes, kind)
    if site not in thread.local:
        thread.local[site] = make_array(axes, kind)
    return thread.local[site]


def _const_array(thread: RunningThread, ary: Any) -> np.ndarray:
    made = as_kernel_array(np.array(ary))
    made.flags.writeable = False
    return made


def _element(thread: RunningThread, ary: Any, idx: Any) -> tuple[np.ndarray, Any, Any]:
    """Return the array, index and current value of the element that an atomic accesses."""
    name = thread.path.partition(".")[2]
    if not isinstance(ary, np.ndarray):
        raise TypeError(f"cuda.{thread.path} works on an array's element, not on {type(ary).__name__}")
    index = tuple(operator.index(i) for i in idx) if isinstance(idx, (tuple, list)) else operator.index(idx)
    old = ary[index]
    if isinstance(old, np.ndarray) or ary.dtype.names is not None:
        raise TypeError(f"cuda.{thread.path} needs one index for each of {ary.ndim} axes, of numbers")
    check_atomic("cas" if name == "compare_and_swap" else name, ary.dtype, TypeError)
    return ary, index, old


def _atomic(new: Callable[[Any, Any], Any]) -> Action:
    """Return an atomic operation that stores ``new(old, value)`` and returns the old value."""

    def action(thread: RunningThread, ary: Any, idx: Any, val: Any) -> Any:
        array, index, old = _element(thread, ary, idx)
        array[index] = new(old, convert(val, array.dtype))
        return old

    return action


def _number_wins(better: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda old, value: value if old != old else better(old, value)


def _cas(thread: RunningThread, ary: Any, idx: Any, old: Any, val: Any) -> Any:
    array, index, found = _element(thread, ary, idx)
    if found.tobytes() == convert(old, array.dtype).tobytes():
        array[index] = val
    return found


def _load(thread: RunningThread, array: Any, i: Any) -> Any:
    check_hint(np.ndim(array[i]), array.dtype, TypeError)
    return array[i]


def _store(thread: RunningThread, array: Any, i: Any, value: object) -> None:
    check_hint(np.ndim(array[i]), array.dtype, TypeError)
    array[i] = value


# -- bits, numbers, time -----------------------------------------------------------------------


def _of_bits(op: str, x: Any) -> Any:
    """Compute an op on the bits of an integer, taken as a 32-bit or 64-bit integer."""
    if isinstance(x, (float, complex, np.inexact)):
        raise TypeError(f"an integer has bits to count, {type(x).__name__} has not")
    is_bool = isinstance(x, (bool, np.bool_))
    narrow = is_bool or (isinstance(x, np.integer) and x.dtype.itemsize < 8)
    kind = "u" if is_bool or isinstance(x, np.unsignedinteger) else "i"
    number = convert(int(x) if is_bool else operator.index(x), np.dtype(f"{kind}{4 if narrow else 8}"))
    return op_in_python(op)(number)[()]


def _number_function(name: str, thread: RunningThread, *numbers: Any) -> Any:
    """Compute a floating-point op. The result is a Python float if all operands are Python numbers."""
    dtype = float_dtype(numbers)
    if dtype is not None and dtype.kind == "c":
        raise TypeError(f"cuda.{name} does not take complex numbers")
    made = op_in_python(name)(*(convert(number, dtype or np.dtype(np.float64)) for number in numbers))
    return seen(made.astype(dtype)) if dtype is not None else float(made)


def _fma(thread: RunningThread, *numbers: Any) -> Any:
    found = fused_multiply_add(*numbers)
    return found if float_dtype(numbers) else found.item()


def _gpu_only(thread: RunningThread, template: str, constraints: str, *values: Any) -> Any:
    raise KernelError("cuda.inline_ptx is PTX, which needs a GPU; in Python mode guard it by a test of the device")


# -- the table -----------------------------------------------------------------------------------

ACTIONS: Mapping[str, Action] = {
    "grid": partial(_by_axes, _grid),
    "gridsize": partial(_by_axes, _gridsize),
    "syncthreads": _barrier("block"),
    "syncthreads_count": _block_vote(sum),
    "syncthreads_and": _block_vote(lambda votes: int(all(votes))),
    "syncthreads_or": _block_vote(lambda votes: int(any(votes))),
    "syncwarp": _syncwarp,
    **dict.fromkeys(("threadfence", "threadfence_block", "threadfence_system"), lambda thread: None),
    "shared.array": _shared_array,
    "shared.dynamic": _shared_dynamic,
    "local.array": _local_array,
    "const.array_like": _const_array,
    "shfl_sync": _shuffle(lambda lane, source, width: lane - lane % width + source % width),
    "shfl_up_sync": _shuffle(lambda lane, delta, width: lane - delta if lane % width >= delta else lane),
    "shfl_down_sync": _shuffle(lambda lane, delta, width: lane + delta if lane % width + delta < width else lane),
    "shfl_xor_sync": _shuffle(_shuffle_xor),
    "all_sync": _vote(all),
    "any_sync": _vote(any),
    "eq_sync": _vote(lambda votes: len(set(votes)) == 1),
    "ballot_sync": lambda thread, mask, predicate: _warp_meet(thread, mask, bool(predicate), _ballot),
    "match_any_sync": _match(_match_any),
    "match_all_sync": _match(_match_all),
    "activemask": lambda thread: thread.synchronize(
        "active", None, lambda brought: dict.fromkeys(brought, _lanes(brought))
    ),
    "lanemask_lt": lambda thread: _lanes(range(thread.lane)),
    "reduce_add_sync": _warp_reduce("add", operator.add),
    "reduce_min_sync": _warp_reduce("minimum", _or_nan(operator.lt)),
    "reduce_max_sync": _warp_reduce("maximum", _or_nan(operator.gt)),
    "reduce_and_sync": _warp_reduce("bitwise_and", operator.and_),
    "reduce_or_sync": _warp_reduce("bitwise_or", operator.or_),
    "reduce_xor_sync": _warp_reduce("bitwise_xor", operator.xor),
    "atomic.load": lambda thread, ary, idx: _element(thread, ary, idx)[2],
    "atomic.add": _atomic(operator.add),
    "atomic.sub": _atomic(operator.sub),
    "atomic.min": _atomic(min),
    "atomic.max": _atomic(max),
    "atomic.nanmin": _atomic(_number_wins(min)),
    "atomic.nanmax": _atomic(_number_wins(max)),
    "atomic.and_": _atomic(operator.and_),
    "atomic.or_": _atomic(operator.or_),
    "atomic.xor": _atomic(operator.xor),
    "atomic.exch": _atomic(lambda old, value: value),
    "atomic.inc": _atomic(lambda old, limit: 0 if old >= limit else int(old) + 1),
    "atomic.dec": _atomic(lambda old, limit: limit if old == 0 or old > limit else int(old) - 1),
    "atomic.cas": _cas,
    "atomic.compare_and_swap": lambda thread, ary, old, val: _cas(thread, ary, (0,) * np.ndim(ary), old, val),
    "popc": lambda thread, x: int(_of_bits("_population", x)),
    "clz": lambda thread, x: int(_of_bits("clz", x)),
    "ffs": lambda thread, x: int(_of_bits("ffs", x)),
    "brev": lambda thread, x: _of_bits("brev", x),
    "fma": _fma,
    "cbrt": partial(_number_function, "cbrt"),
    "rsqrt": partial(_number_function, "rsqrt"),
    "selp": lambda thread, a, b, c: b if a else c,
    "nanosleep": lambda thread, ns: thread.yield_to_others(),
    "clock": lambda thread: time.perf_counter_ns() & 0x7FFFFFFF,
    "clock64": lambda thread: time.perf_counter_ns(),
    **dict.fromkeys(("ldca", "ldcg", "ldcs", "ldlu", "ldcv"), _load),
    **dict.fromkeys(("stcg", "stcs", "stwb", "stwt"), _store),
    "inline_ptx": _gpu_only,
    "cg.grid_sync": _barrier("grid"),
    **{path: lambda thread, *arguments, _make=maker: _make(*arguments) for path, maker in groups.MAKERS.items()},
}
