"""Substitutes for compiled loops. Until the compiled loop of an op is ready, simpler NumPy functions compute the op.

In: an op and a loop. Out: a callable like the op's ufunc that needs no generated code, or None. Invariant: the op's own
expansion runs on arrays, down to ops whose NumPy loops compute the same bits as kernels. The result therefore has the
same bits as a kernel's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

import weft.runtime as runtime  # (its names load when they are used)
from weft.codegen import EXTREMES, TESTS, find_op, is_bfloat16

Loop = tuple[np.dtype, ...]

# Seconds in NumPy after which an op's loop is requested from the second process, and after which the second process is
# started immediately.
REQUEST, URGENT = 0.005, 0.03
# Seconds that the search for a loop in the disk cache takes. (The first search also loads modules, for 0.015 seconds.)
SEARCH = 0.0005
# Seconds that the compilation of a loop takes, and that loading LLVM and the code generator takes.
PRICE, LOADING = 0.03, 0.1
# Text of the warning about ops whose loops cannot be compiled.
BY_NUMPY = "NumPy computes it, which is slower"


STORED_LOOPS = "weft.fusion.run.stored_loops"


@cache
def stored_loops() -> Any:
    """Import and return the `stored_loops` module, which reads the disk cache."""
    return import_module(STORED_LOOPS)


def compile_price() -> float:
    """Return the expected time in seconds to compile a loop for an op.

    NumPy may compute the op for about as long before the loop is compiled.
    """
    return PRICE if "llvmlite.binding" in sys.modules else PRICE + LOADING


def search_price() -> float:
    """Return the time in seconds that an op must have spent in NumPy before a search of the disk cache for the op's compiled loop pays off."""
    return min(SEARCH, REQUEST) if STORED_LOOPS in sys.modules else REQUEST


class NeedsCodeError(Exception):
    """Raised for an op that only compiled code can compute."""


class _Value:
    """An array that stands for a kernel's value while an op is computed by simpler ops."""

    __slots__ = ("array", "dtype", "type")

    def __init__(self, dtype: np.dtype, array: Any) -> None:
        self.type = self.dtype = dtype
        self.array = array


class _OnArrays:
    """A substitute for `KernelBuilder` whose methods compute with NumPy arrays instead of emitting code. It is used to find NumPy loops for ops."""

    def __init__(self, simple: Callable[[str, Loop, np.dtype], Any]) -> None:
        self._simple = simple

    def __getattr__(self, name: str) -> Any:
        raise NeedsCodeError(name)

    def constant(self, value: object, dtype: Any = None) -> _Value:
        """Return a constant of the given dtype.

        Raises NeedsCodeError if `dtype` is None, because only indices have no dtype.
        """
        if dtype is None:
            raise NeedsCodeError
        kind = np.dtype(dtype)
        return _Value(kind, kind.type(value))

    def cast(self, value: _Value, dtype: Any) -> _Value:
        return value if value.type == dtype else self.op("cast", value, dtype=dtype)

    def op(self, name: str, *operands: _Value, dtype: Any = None) -> _Value:
        kind = np.dtype(dtype) if dtype is not None else TESTS.get(name, operands[-1].type)
        loop = tuple([value.type for value in operands])
        if any(each.char == "e" or is_bfloat16(each) for each in (*loop, kind)):
            raise NeedsCodeError(name)
        arrays = [value.array for value in operands]
        simple = self._simple(name, loop, kind)
        if simple is not None:
            return _Value(kind, simple(*arrays))
        if name == "_reinterpret":
            return _Value(kind, arrays[0].view(kind))
        if name == "cast":
            return _Value(kind, _saturate(arrays[0], loop[0], kind))
        if name in EXTREMES and kind.char in "fd":
            found = _find_extremes(name, *arrays)
            if found is not None:
                return _Value(kind, found)
        return self._expand(name, operands, kind)

    def _expand(self, name: str, operands: tuple[_Value, ...], kind: np.dtype) -> _Value:
        definition = find_op(name)
        made: Any
        if any(each.kind == "c" for each in (kind, *(value.type for value in operands))):
            made = definition.on_pairs and definition.on_pairs(self, *[_parts(value) for value in operands])
        else:
            made = definition.expand and definition.expand(self, *operands)
        if not made:
            raise NeedsCodeError(name)
        if isinstance(made, _Value):
            return made
        real, imaginary = (value.array for value in made)
        whole = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imaginary)), kind)
        whole.real, whole.imag = real, imaginary
        return _Value(kind, whole[()])


def _parts(value: _Value) -> Any:
    if value.type.kind != "c":
        return value
    kind = np.dtype(f"f{value.type.itemsize // 2}")
    return _Value(kind, value.array.real), _Value(kind, value.array.imag)


def _find_extremes(name: str, x: Any, y: Any) -> Any:
    """Return NumPy's result for an op in `EXTREMES`, or None if bits of the result depend on the machine.

    This is the case for two zeros and for NaN. The expansion of the op, which is computed then, is slow, because
    processors mispredict its selections.
    """
    found = getattr(np, name)(x, y)
    if (found == 0).any() and ((x == 0) & (y == 0)).any():
        return None
    return None if np.size(found) and np.isnan(np.maximum.reduce(found, axis=None)) else found


def _saturate(x: np.ndarray, own: np.dtype, dtype: np.dtype) -> Any:
    """Convert a float to an integer: out-of-range values saturate, and NaN becomes 0."""
    if own.kind != "f" or dtype.kind not in "iu":
        raise NeedsCodeError("cast")
    limits = np.iinfo(dtype)
    end = 2.0**limits.bits / (2 if dtype.kind == "i" else 1)
    if x.size and np.minimum.reduce(x, axis=None) >= limits.min and np.maximum.reduce(x, axis=None) < end:
        return x.astype(dtype)  # (NaN is not in range)
    found = np.where(x < end, x.astype(dtype), dtype.type(limits.max))
    found = np.where(x > float(limits.min), found, dtype.type(limits.min))
    return np.where(x == x, found, dtype.type(0))


class ExpandedOp:
    """A callable that computes an op by simpler ops until a loop for it has been compiled.

    `op`, `loop` and `dtype` are the arguments of `primitives.primitive`. `simple` returns NumPy's loop for an op, or
    None. `compile` returns the compiled loop.
    """

    def __init__(
        self,
        op: str,
        loop: Loop,
        dtype: np.dtype,
        simple: Callable[[str, Loop, np.dtype], Any],
        compile: Callable[[], Any],
    ) -> None:
        self._op, self._loop, self._dtype = op, loop, dtype
        self._form = f"the compilation of {op} of {', '.join(map(str, loop))}"
        self._builder = _OnArrays(simple)
        self._compile = compile
        self._made: Any = None
        self._spent = self._noted = 0.0  # seconds in NumPy, also at the last call to `_compile_if_it_pays`
        self._stored: bool | None = None  # whether the disk cache has the loop
        self._request: Any = None
        self.when_compiled: Callable[[], None] = lambda: None  # called after the loop has been compiled

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiled ufunc, such as a method."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.compiled(), name)

    def compiled(self) -> Any:
        """Return the compiled loop, which the first call compiles."""
        if self._made is None:
            self._made = self._compile()
            self.when_compiled()
        return self._made

    def _compile_if_it_pays(self) -> None:
        row = self._op, self._loop, self._dtype
        if self._stored is None:
            self._stored = stored_loops().find_loop(*row) is not None
        if not self._stored and self._spent <= REQUEST:
            return
        if self._request is None:
            self._request = () if self._stored else runtime.submit(f"{STORED_LOOPS}.store_loop", row) or ()
        if self._spent > URGENT > self._noted:
            runtime.prepare()
        self._noted = self._spent
        # (the second process may be slow to answer on a busy machine)
        due = self._stored or self._spent > compile_price() + REQUEST or (self._request and self._request.is_over())
        if due and runtime.try_compiling(self._form, BY_NUMPY, self.compiled) is None:
            self._spent = -inf

    def __call__(self, *operands: Any, out: Any = None) -> Any:
        if self._made is None and self._spent > search_price():
            self._compile_if_it_pays()
        if self._made is not None:
            return self._made(*operands, out=out)
        begin = perf_counter()
        values = [_Value(kind, x) for kind, x in zip(self._loop, operands, strict=True)]
        with np.errstate(all="ignore"):
            found = self._builder.op(self._op, *values, dtype=self._dtype).array
        if out is None:
            shape = np.broadcast(*operands).shape
            out = found[()] if np.shape(found) == shape else np.broadcast_to(found, shape).copy()
        else:
            out[...] = found
        self._spent += perf_counter() - begin
        return out


def can_expand(op: str, loop: Loop, dtype: np.dtype, simple: Callable[[str, Loop, np.dtype], Any]) -> bool:
    """Return whether simpler ops can compute an op with these dtypes."""
    try:
        with np.errstate(all="ignore"):
            _OnArrays(simple).op(op, *[_Value(kind, np.ones(1, kind)) for kind in loop], dtype=dtype)
    except NeedsCodeError:
        return False
    return True
