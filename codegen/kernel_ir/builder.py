"""Builds kernel IR: appends operations to the block that is open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Parameter, Pointer, Role, Type, Value


class Loop:
    """A `for` being built: its index, its carried values, and its results once closed."""

    __slots__ = ("carried", "index", "results", "yielded")

    def __init__(self, index: Value, carried: tuple[Value, ...]) -> None:
        self.index = index
        self.carried = carried
        self.yielded: tuple[Value, ...] | None = None
        self.results: tuple[Value, ...] = ()

    def yield_(self, *values: Value) -> None:
        """Give the next values of `carried` (once, before the loop closes)."""
        self.yielded = values


class KernelBuilder:
    """Builds one `Kernel`; also what an op row's `expand` is handed.

    Parameters
    ----------
    name : str
        The kernel's name: a C identifier.
    index_dtype : numpy.dtype
        int32 or int64: the dtype of every index, extent and stride.
    """

    def __init__(self, name: str, index_dtype: np.dtype | type = np.int32) -> None:
        self.kernel = Kernel(name, [], Block(), np.dtype(index_dtype))
        self.blocks: list[Block] = [self.kernel.body]
        self._count = 0
        self._constants: dict[tuple[int, str, bytes], Value] = {}

    # -- values ---------------------------------------------------------------------------

    def fresh(self, type: Type) -> Value:
        """A new value with an unused numeric name."""
        value = Value(str(self._count), type)
        self._count += 1
        return value

    def pointer(self, name: str, dtype: Any, *, writable: bool = False, noalias: bool = False, align: int = 1) -> Value:
        """Declare a parameter that points to elements of `dtype` in global memory."""
        value = Value(name, Pointer(np.dtype(dtype)))
        self.kernel.parameters.append(Parameter(value, writable, noalias, align))
        return value

    def scalar(self, name: str, dtype: Any = None) -> Value:
        """Declare a scalar parameter (an index where no dtype is given)."""
        value = Value(name, np.dtype(dtype) if dtype is not None else self.kernel.index_dtype)
        self.kernel.parameters.append(Parameter(value))
        return value

    # -- operations -----------------------------------------------------------------------

    @property
    def block(self) -> Block:
        """The block that operations are appended to."""
        return self.blocks[-1]

    def emit(
        self,
        opcode: str,
        operands: Sequence[Value] = (),
        types: Sequence[Type] = (),
        regions: tuple[Block, ...] = (),
        **attributes: Any,
    ) -> tuple[Value, ...]:
        """Append any operation and return its results."""
        results = tuple(self.fresh(type) for type in types)
        self.block.operations.append(Operation(opcode, tuple(operands), results, attributes, regions))
        return results

    def constant(self, value: Any, dtype: Any = None) -> Value:
        """A constant of `dtype` (an index where none is given)."""
        dtype = np.dtype(dtype) if dtype is not None else self.kernel.index_dtype
        scalar = dtype.type(value)
        key = (id(self.block), dtype.str, scalar.tobytes())
        found = self._constants.get(key)
        if found is None:
            (found,) = self.emit("constant", (), (dtype,), value=scalar)
            self._constants[key] = found
        return found

    def op(self, name: str, *operands: Value, dtype: Any = None) -> Value:
        """Append the op-table row `name`. Operands already have the dtypes of one of its loops.

        `dtype` is the result's; where it is left out it is that of the last operand
        (right for every row whose result has its operands' dtype).
        """
        result = np.dtype(dtype) if dtype is not None else operands[-1].type
        return self.emit(name, operands, (result,))[0]

    def cast(self, value: Value, dtype: Any) -> Value:
        """`value` in `dtype`; the value itself where it has that dtype already."""
        dtype = np.dtype(dtype)
        return value if value.type == dtype else self.emit("cast", (value,), (dtype,))[0]

    def load(self, pointer: Value, index: Value) -> Value:
        """The element at `index` (in elements)."""
        assert isinstance(pointer.type, Pointer)
        return self.emit("load", (pointer, index), (pointer.type.dtype,))[0]

    def store(self, pointer: Value, index: Value, value: Value) -> None:
        """Write `value` at `index` (in elements)."""
        self.emit("store", (pointer, index, value))

    # -- structure ------------------------------------------------------------------------

    @contextmanager
    def loop(
        self,
        stop: Value,
        role: Role,
        *,
        start: Value | None = None,
        initial: Sequence[Value] = (),
        combine: tuple[str, ...] = (),
        step_by: Value | None = None,
        **attributes: Any,
    ) -> Iterator[Loop]:
        """A `for` from `start` (0) to `stop`; its body is what is appended inside the ``with``.

        `step_by` is a step that is known when the kernel runs (the attribute ``step`` one that is known before).
        """
        first = start if start is not None else self.constant(0)
        loop = Loop(self.fresh(self.kernel.index_dtype), tuple(self.fresh(v.type) for v in initial))
        block = Block((loop.index, *loop.carried))
        self.blocks.append(block)
        try:
            yield loop
        finally:
            self.blocks.pop()
        block.operations.append(Operation("yield", loop.yielded or ()))
        if step_by is not None:
            attributes["step_from"] = True
        loop.results = self.emit(
            "for",
            (first, stop, *initial, *(() if step_by is None else (step_by,))),
            [v.type for v in initial],
            (block,),
            role=role,
            combine=combine,
            **attributes,
        )

    @contextmanager
    def at(self, depth: int) -> Iterator[None]:
        """Append to the open block at `depth` (0 is the kernel's body) instead of the innermost:
        before the loop that is open there, since a loop is appended when it closes."""
        self.blocks.append(self.blocks[depth])
        try:
            yield
        finally:
            self.blocks.pop()

    def finish(self) -> Kernel:
        """The kernel, complete."""
        assert len(self.blocks) == 1
        return self.kernel
