"""Compilation of calls to CUDA intrinsics in kernels, such as ``shared.array``.

The module adds the handlers to the `TABLE` of `handlers.py`, whose keys are objects of `weft.cuda`.

In: a call, and its arguments by parameter name. Out: a value. Lane masks are uint32. Thread indices and counts are
promoted like Python ints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from weft.codegen import Pointer, Value
from weft.dsl.kernel.language import array_values as arrays
from weft.dsl.kernel.language import extents
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.handlers import (
    TABLE,
    Handler,
    convert,
    dtype_of,
    elementwise,
    handles,
    local_array,
    reserve_array,
    truth_value,
)
from weft.dsl.kernel.language.invocation import Invocation
from weft.dsl.kernel.language.kernel_errors import KernelTypeError
from weft.dsl.kernel.language.names import NAMES, Intrinsic
from weft.dsl.kernel.language.values import BOOL, INT, ArrayValue, Constant, Extent, ScalarValue, TupleValue, describe
from weft.dsl.kernel.library import groups
from weft.dsl.kernel.library.supported_dtypes import check_atomic, check_hint, check_match, check_reduction
from weft.dsl.kernel.sanitizer.tracer import SiteKind
from weft.runtime import counted

UINT32 = np.dtype(np.uint32)
INT32 = np.dtype(np.int32)


def call_intrinsic(call: Invocation, intrinsic: Intrinsic, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Compile a call to an intrinsic."""
    c = call.c
    if c.tracer is not None:
        c.location = call.frame.source.location(call.node)
    try:
        bound = intrinsic.bind(tuple(arguments), keywords)
    except TypeError as error:
        c.fail(str(error))
    given = {name: Constant(value) if isinstance(value, int) else value for name, value in bound.items()}  # (defaults)
    return TABLE[intrinsic](call, **given)


def handles_each(variants: Mapping[str, Any]) -> Callable[[Handler], Handler]:
    """Return a decorator that registers a function as the handler for several intrinsics.

    The function's first argument is the value in `variants` for the intrinsic.
    """

    def register(handler: Handler) -> Handler:
        TABLE.update({NAMES[path]: partial(handler, variant) for path, variant in variants.items()})
        return handler

    return register


# -- thread indices --------------------------------------------------------------------------------


def _grid_position(c: Compiler, axis: int) -> ScalarValue:
    b = c.builder
    numbers = [
        b.emit(word, (), (c.index_dtype,), axis=axis)[0] for word in ("block_index", "block_size", "thread_index")
    ]
    found = b.op("add", b.op("multiply", numbers[0], numbers[1]), numbers[2])
    return ScalarValue(b.cast(found, INT), True, True)


def _extent(c: Compiler, axis: int) -> ScalarValue:
    b = c.builder
    (blocks,) = b.emit("grid_size", (), (c.index_dtype,), axis=axis)
    (threads,) = b.emit("block_size", (), (c.index_dtype,), axis=axis)
    return ScalarValue(b.cast(b.op("multiply", blocks, threads), INT), True, True)


def _each_axis(call: Invocation, ndim: Any, make: Callable[[Compiler, int], ScalarValue]) -> Any:
    known = arrays.known_shape(ndim)
    if known is None or known[0] not in (1, 2, 3):
        call.c.fail(f"the number of axes is 1, 2 or 3, known when compiling, not {describe(ndim)}")
    parts = tuple(make(call.c, axis) for axis in range(known[0]))
    return parts[0] if len(parts) == 1 else TupleValue(parts)


@handles(NAMES["lanemask_lt"])
def _lanemask(call: Invocation) -> Any:
    c = call.c
    (found,) = c.builder.emit("lane_index", (), (c.index_dtype,))
    lane = ScalarValue(c.builder.cast(found, INT), True, True)
    bit = c.apply("left_shift", Constant(np.uint32(1)), lane)
    return c.apply("subtract", bit, Constant(1))


# -- barriers, fences --------------------------------------------------------------------------------


_EFFECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "syncthreads": ("barrier", {}),
    "cg.grid_sync": ("grid_barrier", {}),
    "threadfence": ("fence", {"scope": "device"}),
    "threadfence_block": ("fence", {"scope": "block"}),
    "threadfence_system": ("fence", {"scope": "system"}),
}


@handles_each(_EFFECTS)
def _effect(effect: tuple[str, dict[str, Any]], call: Invocation) -> Any:
    opcode, attributes = effect
    call.c.builder.emit(opcode, **attributes)
    return Constant(None)


@handles_each({f"syncthreads_{kind}": kind for kind in ("count", "and", "or")})
def _barrier_vote(kind: str, call: Invocation, predicate: Any) -> Any:
    c = call.c
    (found,) = c.builder.emit("barrier_vote", (truth_value(c, predicate),), (INT32,), kind=kind)
    return ScalarValue(c.builder.cast(found, INT), True, True)


@handles(NAMES["syncwarp"])
def _syncwarp(call: Invocation, mask: Any) -> Any:
    call.c.builder.emit("warp_barrier", (bits(call.c, mask),))
    return Constant(None)


# -- memory ------------------------------------------------------------------------------------------


@handles(NAMES["shared.array"])
def _shared(call: Invocation, shape: Any, dtype: Any, alignment: Any) -> Any:
    c = call.c
    known = arrays.known_shape(shape)
    if known is None and c.block is None:
        raise NeedsLaunch(call.frame.source.location(call.node))
    if known is None:
        c.fail(
            "the shape of cuda.shared.array has to be known when the kernel is compiled, from constants or the launch's "
            "blockDim: for one known at the launch only use shared.array(0, dtype) or shared.dynamic, and give the bytes "
            "in the launch's brackets"
        )
    kind = dtype_of(c, dtype)
    if known == (0,):
        length = extents.divide(c, c.hide_scalar("dynamic_bytes"), kind.itemsize)
        return _dynamic_array(c, (length,), kind, 0)
    if any(n < 0 for n in known):
        c.fail(f"the shape of cuda.shared.array cannot be negative: {known}")
    key = call.node, known, kind
    if key not in c.shared:  # a call allocates one array, however often its function is inlined, as in CUDA C++
        c.shared[key] = reserve_array(c, "shared", known, kind, "the shared array")
    return c.shared[key]


class NeedsLaunch(Exception):
    """Raised if the shape of an array may depend on the block size of the launch."""


def _dynamic_array(c: Compiler, shape: tuple[Extent, ...], dtype: np.dtype, offset: Extent) -> ArrayValue:
    with c.at_top():
        (pointer,) = c.builder.emit("dynamic_shared", (), (Pointer(np.dtype(np.uint8), "shared"),))
    if not (isinstance(offset, int) and offset == 0):
        pointer = c.builder.offset(pointer, extents.extent_ir(c, offset))
    if dtype.names is None and dtype != np.uint8:
        pointer = c.builder.reinterpret(pointer, dtype)
    strides = extents.contiguous(c, shape, arrays.unit(dtype))
    return ArrayValue(pointer, dtype, shape, strides, "shared", True, "the dynamic shared array", True)


@handles(NAMES["shared.dynamic"])
def _dynamic(call: Invocation, shape: Any, dtype: Any, offset: Any) -> Any:
    c = call.c
    items = shape.items if isinstance(shape, TupleValue) else (shape,)
    extents = tuple(int(i.value) if isinstance(i, Constant) else c.index(i, "a length") for i in items)
    start = int(offset.value) if isinstance(offset, Constant) else c.index(offset, "an offset")
    made = _dynamic_array(c, extents, dtype_of(c, dtype), start)
    if c.tracer is not None:
        c.tracer.fits(made, c.hide_scalar("dynamic_bytes"), start)
    return made


@handles(NAMES["local.array"])
def _local(call: Invocation, shape: Any, dtype: Any, alignment: Any) -> Any:
    if arrays.known_shape(shape) is None and call.c.block is None:
        raise NeedsLaunch(call.frame.source.location(call.node))
    return local_array(call.c, shape, dtype, "cuda.local.array")


@handles(NAMES["const.array_like"])
def _const(call: Invocation, ary: Any) -> Any:
    if isinstance(ary, ArrayValue) and ary.space == "constant":
        return ary
    call.c.fail("cuda.const.array_like takes a NumPy array that stands outside the kernel")


# -- warps -------------------------------------------------------------------------------------------


def bits(c: Compiler, value: object) -> Value:
    """Convert a lane mask to uint32. -1 stands for all lanes."""
    if isinstance(value, Constant):
        return c.builder.constant(np.uint32(int(value.value) & 0xFFFFFFFF), UINT32)
    return c.ir(value, UINT32)


# Names of the shuffles' last parameters.
_SHUFFLES = {"idx": "src_lane", "up": "delta", "down": "delta", "xor": "lane_mask"}


@handles_each({f"shfl_{mode}_sync".replace("_idx", ""): mode for mode in _SHUFFLES})
def _shuffle(mode: str, call: Invocation, mask: Any, value: object, width: Any, **last: Any) -> Any:
    c = call.c
    known = arrays.known_shape(width)
    if known is None or known[0] not in (1, 2, 4, 8, 16, 32):
        c.fail("the width of a shuffle is 1, 2, 4, 8, 16 or 32, known when compiling")
    number = c.scalar(value)
    operands = (bits(c, mask), number.ir, c.ir(last[_SHUFFLES[mode]], INT32))
    (found,) = c.builder.emit("shuffle", operands, (number.dtype,), mode=mode, width=known[0])
    return ScalarValue(found, number.weak, number.nonnegative)


@handles_each({f"{kind}_sync": kind for kind in ("all", "any", "eq", "ballot")})
def _vote(kind: str, call: Invocation, mask: Any, predicate: Any) -> Any:
    c = call.c
    result = UINT32 if kind == "ballot" else BOOL
    (found,) = c.builder.emit("vote", (bits(c, mask), truth_value(c, predicate)), (result,), kind=kind)
    return ScalarValue(found, kind != "ballot")


@handles_each({"match_any_sync": ("any", (UINT32,)), "match_all_sync": ("all", (UINT32, BOOL))})
def _match(variant: tuple[str, tuple[np.dtype, ...]], call: Invocation, mask: Any, value: object) -> Any:
    c, (kind, results) = call.c, variant
    number = c.scalar(value)
    check_match(number.dtype, KernelTypeError)
    operand = c.ir(c.cast(number, UINT32), UINT32) if number.dtype == BOOL else number.ir
    found = c.builder.emit("match", (bits(c, mask), operand), results, kind=kind)
    made = tuple(ScalarValue(v, v.type == BOOL) for v in found)
    return made[0] if kind == "any" else TupleValue(made)


_REDUCTIONS = {"add": "add", "min": "minimum", "max": "maximum"}
_REDUCTIONS |= {name: f"bitwise_{name}" for name in ("and", "or", "xor")}


@handles_each({f"reduce_{name}_sync": kind for name, kind in _REDUCTIONS.items()})
def _warp_reduce(kind: str, call: Invocation, mask: Any, value: object) -> Any:
    c = call.c
    number = c.scalar(value)
    check_reduction(kind, number.dtype, KernelTypeError)
    (found,) = c.builder.emit("warp_reduce", (bits(c, mask), number.ir), (number.dtype,), kind=kind)
    return ScalarValue(found, number.weak)


# -- atomics -----------------------------------------------------------------------------------------

# name -> the kind of the kernel IR's `atomic` operation
_ATOMICS = {
    "add": "add",
    "sub": "subtract",
    "min": "minimum",
    "max": "maximum",
    "nanmin": "fmin",
    "nanmax": "fmax",
    "and_": "bitwise_and",
    "or_": "bitwise_or",
    "xor": "bitwise_xor",
    "exch": "exchange",
    "inc": "increment",
    "dec": "decrement",
}


def _element(call: Invocation, name: str, ary: Any, idx: Any, reads: bool = False) -> ArrayValue:
    """Return the element that an atomic operation accesses, as a view without axes."""
    c = call.c
    if not isinstance(ary, ArrayValue):
        c.fail(f"cuda.atomic.{name} works on an element of an array, not on {describe(ary)}")
    view = arrays.view_of(c, ary, idx)
    if view.ndim:
        c.fail(f"cuda.atomic.{name} needs an index for each of the {ary.ndim} axes")
    check_atomic(name, view.dtype, KernelTypeError)
    if not reads:
        if view.space == "local":
            c.fail(f"cuda.atomic.{name} takes arrays in global or shared memory, not {describe(ary)}")
        if not view.writable or view.space == "constant":
            c.fail(f"{view.label or 'the array'} is read-only here")
        c.written.add(view.origin)
    if c.tracer is not None:
        c.tracer.access(view, SiteKind.ATOMIC, compares=name == "cas")
    return view


@handles_each({f"atomic.{name}": name for name in _ATOMICS})
def _atomic(name: str, call: Invocation, ary: Any, idx: Any, val: Any) -> Any:
    op = _ATOMICS[name]
    c = call.c
    view = _element(call, name, ary, idx)
    value = c.scalar(convert(call, view.dtype, [val]))  # -1 wraps around
    if view.dtype.kind != "f" and op in ("fmin", "fmax"):
        op = {"fmin": "minimum", "fmax": "maximum"}[op]
    if name in ("min", "max") and view.dtype.kind == "f":
        # A NaN is neither less nor greater, so it changes nothing.
        neutral = c.cast(Constant(float("inf" if name == "min" else "-inf")), view.dtype)
        value = c.scalar(c.apply("where", c.apply("isnan", value), neutral, value))
    (old,) = c.builder.emit("atomic", (view.pointer, c.builder.constant(0), value.ir), (view.dtype,), kind=op)
    return ScalarValue(old)


@handles(NAMES["atomic.load"])
def _atomic_load(call: Invocation, ary: Any, idx: Any) -> Any:
    view = _element(call, "load", ary, idx, reads=True)
    return ScalarValue(call.c.builder.load(view.pointer, call.c.builder.constant(0), volatile=True))


@handles(NAMES["atomic.cas"])
def _cas(call: Invocation, ary: Any, idx: Any, old: Any, val: Any) -> Any:
    c = call.c
    view = _element(call, "cas", ary, idx)
    numbers = (c.scalar(convert(call, view.dtype, [number])).ir for number in (old, val))  # -1 wraps around
    operands = (view.pointer, c.builder.constant(0), *numbers)
    return ScalarValue(c.builder.emit("atomic_cas", operands, (view.dtype,))[0])


@handles(NAMES["atomic.compare_and_swap"])
def _compare_and_swap(call: Invocation, ary: Any, old: Any, val: Any) -> Any:
    index = TupleValue((Constant(0),) * ary.ndim) if isinstance(ary, ArrayValue) else Constant(0)
    return _cas(call, ary, index, old, val)


# -- bits, numbers, time -------------------------------------------------------------------------------


@handles(NAMES["popc"])
def _popc(call: Invocation, x: Any) -> Any:
    number = _integer(call, "popc", x)  # the op counts the bits of the absolute value, as NumPy does
    unsigned = call.c.cast(number, np.dtype(f"u{number.dtype.itemsize}"))
    return call.c.cast(call.c.apply("bitwise_count", unsigned), INT, weak=True)


def _integer(call: Invocation, name: str, x: Any) -> ScalarValue:
    number = call.c.scalar(x)
    if number.dtype.kind not in "biu":
        call.c.fail(f"cuda.{name} takes an integer, not {describe(number)}")
    if number.dtype.itemsize < 4:
        return call.c.scalar(call.c.cast(number, UINT32 if number.dtype.kind != "i" else INT32))
    return ScalarValue(number.ir)  # Python ints have 64 bits here


@handles_each({"clz": "clz", "ffs": "ffs"})
def _counted(op: str, call: Invocation, x: Any) -> Any:
    return call.c.cast(call.c.apply(op, _integer(call, op, x)), INT, weak=True)


@handles(NAMES["nanosleep"])
def _nanosleep(call: Invocation, ns: Any) -> Any:
    call.c.builder.emit("sleep", (call.c.ir(ns, UINT32),))
    return Constant(None)


# -- loads, stores, PTX --------------------------------------------------------------------------------


@handles_each({f"ld{hint}": hint for hint in ("ca", "cg", "cs", "lu", "cv")})
def _hinted_load(hint: str, call: Invocation, array: Any, i: Any) -> Any:
    return arrays.element(call.c, _viewed(call, array, i), hint=hint)


@handles_each({f"st{hint}": hint for hint in ("cg", "cs", "wb", "wt")})
def _hinted_store(hint: str, call: Invocation, array: Any, i: Any, value: object) -> Any:
    arrays.assign_view(call.c, _viewed(call, array, i), value, hint=hint)
    return Constant(None)


def _viewed(call: Invocation, array: Any, i: Any) -> ArrayValue:
    if not isinstance(array, ArrayValue):
        call.c.fail(f"an array is needed here, not {describe(array)}")
    view = arrays.view_of(call.c, array, i)
    check_hint(view.ndim, view.dtype, KernelTypeError)
    return view


_REGISTERS = {"h": np.uint16, "r": np.uint32, "l": np.uint64, "f": np.float32, "d": np.float64}


@handles(NAMES["inline_ptx"])
def _inline_ptx(call: Invocation, template: Any, constraints: Any, values: Any) -> Any:
    c = call.c
    if not (isinstance(template, Constant) and isinstance(constraints, Constant)):
        c.fail("the template and the constraints of inline_ptx are texts known when compiling")
    parts = [p.strip() for p in constraints.value.split(",")]
    written = [p for p in parts if p.startswith("=")]
    if any(not re.fullmatch(r"=?[hrlfd]|~\{\w+\}", p) for p in parts):
        c.fail(f"constraints are h, r, l, f and d, with = for results, not {constraints.value!r}")
    read = [p for p in parts if not p.startswith(("=", "~"))]
    if len(read) != len(values):
        c.fail(f"the constraints name {counted(len(read), 'operand')}, but {len(values)} are given")
    operands = []
    for part, value in zip(read, values, strict=True):
        number = c.scalar(value)
        wanted = np.dtype(_REGISTERS[part])
        same = number.dtype.kind in "biu" and wanted.kind == "u"
        operands.append(c.ir(number, wanted) if not same else c.ir(c.cast(number, wanted), wanted))
    kinds = [np.dtype(_REGISTERS[p[1:]]) for p in written]
    found = c.builder.emit("assembly", operands, kinds, template=template.value, constraints=constraints.value)
    made = tuple(ScalarValue(v) for v in found)
    return Constant(None) if not made else made[0] if len(made) == 1 else TupleValue(made)


# -- groups --------------------------------------------------------------------------------------------


@handles_each(groups.MAKERS)
def _group(make: Any, call: Invocation, **arguments: Any) -> Any:
    return call.c.call(call.frame, call.node, Constant(make), list(arguments.values()), {})


# -- other intrinsics that emit one operation ------------------------------------------------------------

TABLE.update(
    {
        NAMES["grid"]: lambda call, ndim: _each_axis(call, ndim, _grid_position),
        NAMES["gridsize"]: lambda call, ndim: _each_axis(call, ndim, _extent),
        NAMES["activemask"]: lambda call: ScalarValue(call.c.builder.emit("active_mask", (), (UINT32,))[0]),
        NAMES["brev"]: lambda call, x: call.c.apply("brev", _integer(call, "brev", x)),
        NAMES["fma"]: lambda call, a, b, c: elementwise(call, "fma", a, b, c),
        NAMES["cbrt"]: lambda call, a: elementwise(call, "cbrt", a),
        NAMES["rsqrt"]: lambda call, a: elementwise(call, "rsqrt", a),
        NAMES["selp"]: lambda call, a, b, c: elementwise(
            call, "where", ScalarValue(truth_value(call.c, a), True), b, c
        ),
        NAMES["clock"]: lambda call: ScalarValue(call.c.builder.emit("clock", (), (INT,))[0], True),
        NAMES["clock64"]: lambda call: ScalarValue(call.c.builder.emit("clock", (), (INT,))[0], True),
    }
)
