"""Integers that change by a constant from each thread to the next.

In: a threaded kernel, and the operations that compute the values of its runs. Out: the axes on which a value depends,
and its difference between adjacent threads. Invariant: the difference is exact in the machine's integer arithmetic.
"""

from __future__ import annotations

import numpy as np

from weft.codegen.kernel_ir.operation import STRUCTURAL, Kernel, Operation, Pointer, Value, program_order
from weft.codegen.passes.conditions import is_signed
from weft.codegen.passes.split_at_barriers import is_pure

LONGEST_BLOCK, LONGEST_GRID = 1 << 10, 1 << 41  # maximum numbers of threads along an axis
# Largest values along each axis, according to CUDA's launch limits.
_LARGEST = {
    "thread_index": (1023, 1023, 63),
    "block_size": (1024, 1024, 64),
    "block_index": (2**31 - 2, 65534, 65534),
    "grid_size": (2**31 - 1, 65535, 65535),
}
_MOST = 48  # maximum number of operations that compute a value


class LinearIndex:
    """Analysis of how integer values change from each thread of a block to the next.

    Parameters
    ----------
    kernel : Kernel
    makers : dict
        The operations that compute values which may differ between threads. All other values are available outside of
        the loops over threads.
    merged : int or None
        The axis along which blocks run as one block, whose thread index is the position in the grid.
    """

    def __init__(self, kernel: Kernel, makers: dict[Value, Operation], merged: int | None = None) -> None:
        self.makers, self.index_dtype, self.merged = makers, kernel.index_dtype, merged
        self._all = {v: o for o in program_order(kernel.body.operations) for v in o.results}
        self._axes: dict[Value, tuple[frozenset[int], int] | None] = {}
        self._largest: dict[Value, int] = {}
        self._positions: set[Value] = set()
        for value, maker in self._all.items():  # in program order, so that chains of any length need no recursion
            if self._is_position(value, maker):
                self._positions.add(value)
            self._cost(value)
            if is_signed(value):
                self.largest(value)

    def axes(self, value: Value) -> frozenset[int] | None:
        """Return the axes of the thread indices that a value depends on.

        Return None for a value that also depends on something else, such as memory, or that takes many operations to
        compute.
        """
        found = self._cost(value)
        return None if found is None else found[0]

    def _cost(self, value: Value) -> tuple[frozenset[int], int] | None:
        if value not in self._axes:
            maker = self.makers.get(value)
            found: tuple[frozenset[int], int] | None = (frozenset(), 0)
            if maker is not None:
                parts = [self._cost(v) for v in maker.operands] if _is_computable(maker, value) else [None]
                known = [part for part in parts if part is not None]
                own = {maker.attributes.get("axis", 0)} if maker.opcode == "thread_index" else set()
                count = 1 + sum(part[1] for part in known)
                complete = len(known) == len(parts) and count <= _MOST
                found = (frozenset(own).union(*(part[0] for part in known)), count) if complete else None
            self._axes[value] = found
        return self._axes[value]

    @property
    def longest(self) -> int:
        """Return an upper bound on the iterations of a loop over threads."""
        return LONGEST_BLOCK if self.merged is None else LONGEST_GRID

    def step(self, value: Value, axis: int) -> tuple[int, bool] | None:
        """Return the difference of an integer between adjacent threads, modulo the range of its type.

        The second result is whether the integer cannot overflow. Return None if the difference is not known.
        """
        if axis not in (self.axes(value) or ()):
            return 0, True
        maker = self.makers[value]
        operands = maker.operands
        match maker.opcode:
            case "thread_index":
                return 1, True
            case "cast":
                found = self.step(operands[0], axis)
                widens = value.dtype.itemsize > operands[0].dtype.itemsize
                if found is None or not is_signed(operands[0]) or (widens and not found[1]):
                    return None
                return found[0], found[1] and self.largest(operands[0]) <= limit(value)
            case "add" | "subtract":
                parts = [self.step(v, axis) for v in operands]
                if parts[0] is None or parts[1] is None:
                    return None
                step = parts[0][0] + (parts[1][0] if maker.opcode == "add" else -parts[1][0])
                return step, parts[0][1] and parts[1][1] and self.fits(maker)
            case "multiply":
                for x, y in (operands, operands[::-1]):
                    factor = self._all.get(y)
                    if factor is not None and factor.opcode == "constant":
                        found = self.step(x, axis)
                        if found is None:
                            return None
                        return found[0] * int(factor.attributes["value"]), found[1] and self.fits(maker)
        return None

    def factor(self, value: Value, axis: int) -> Value | None:
        """For a product ``x * f``, return `f` if `x` is larger by 1 in each thread than in the previous thread.

        `f` does not depend on thread indices, so the product grows by `f`. Return None for other values.
        """
        maker = self.makers.get(value)
        if maker is not None and maker.opcode == "multiply":
            for x, y in (maker.operands, maker.operands[::-1]):
                if self.axes(y) == frozenset() and self.step(x, axis) == (1, True):
                    return y
        return None

    def fits(self, o: Operation) -> bool:
        """Return whether a sum, difference or product cannot overflow."""
        return self.is_position(o.results[0]) or self._unbounded(o) <= limit(o.results[0])

    def largest(self, value: Value) -> int:
        """Return an upper bound on the absolute value of a signed integer."""
        if value not in self._largest:
            maker, found = self._all.get(value), limit(value) + 1
            if maker is not None and maker.opcode == "constant":
                found = abs(int(maker.attributes["value"]))
            elif maker is not None and maker.opcode in _LARGEST:
                axis = maker.attributes.get("axis", 0)
                whole = maker.opcode == "thread_index" and axis == self.merged
                found = min(found, LONGEST_GRID - 1 if whole else _LARGEST[maker.opcode][axis])
            elif maker is not None and maker.opcode == "cast" and is_signed(maker.operands[0]):
                source = self.largest(maker.operands[0])
                found = source if source <= limit(value) else found
            elif maker is not None and maker.opcode in ("add", "subtract", "multiply"):
                whole = self._unbounded(maker)
                found = whole if whole <= limit(value) else limit(value) if self.is_position(value) else found
            self._largest[value] = found
        return self._largest[value]

    def _unbounded(self, o: Operation) -> int:
        x, y = (self.largest(v) for v in o.operands)
        return x * y if o.opcode == "multiply" else x + y

    def is_position(self, value: Value) -> bool:
        """Return whether a value is computed only from indices and sizes of the grid. Such a value cannot overflow."""
        return value in self._positions

    def _is_position(self, value: Value, maker: Operation) -> bool:
        if not is_signed(value) or maker.opcode in _LARGEST:
            return maker.opcode in _LARGEST
        wide = value.dtype.itemsize >= self.index_dtype.itemsize
        return maker.opcode in ("add", "multiply", "cast") and wide and self._positions.issuperset(maker.operands)


def _is_computable(o: Operation, value: Value) -> bool:
    """Return whether `value`, the result of `o`, is an integer or bool that can be recomputed cheaply."""
    if o.regions or isinstance(value.type, Pointer) or value.type.kind not in "iub":
        return False
    return is_pure(o) and (o.opcode not in STRUCTURAL or o.opcode in _LARGEST or o.opcode in ("constant", "cast"))


def is_integer(value: Value) -> bool:
    """Return whether a value is a signed or unsigned integer."""
    return isinstance(value.type, np.dtype) and value.type.kind in "iu"


def limit(value: Value) -> int:
    """Return the largest integer that a value's type can represent."""
    return int(np.iinfo(value.dtype).max)
