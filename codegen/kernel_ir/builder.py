"""The builder of kernel IR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from weft.codegen.kernel_ir.operation import (
    Block,
    Function,
    Kernel,
    Level,
    Operation,
    Parameter,
    Pointer,
    Role,
    Type,
    Value,
)
from weft.codegen.ops.op_table import TESTS

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

ALIGNED = 16  # alignment in bytes of arguments that are passed by value


class BranchBuilder:
    """An `if` under construction, with its results and the values that its current region yields."""

    __slots__ = ("results", "yielded")

    def __init__(self, results: tuple[Value, ...] = ()) -> None:
        self.results = results
        self.yielded: tuple[Value, ...] = ()

    def yield_(self, *values: Value) -> None:
        """Set the values that the open region yields.

        They are the results of an `if`, or the loop-carried values of the next iteration. Call this method at most once
        in each region, before the region is closed.
        """
        self.yielded = values


class LoopBuilder(BranchBuilder):
    """A `for` loop under construction, with its index and its loop-carried values.

    After the loop is closed, it also has results.
    """

    __slots__ = ("carried", "index")

    def __init__(self, index: Value, carried: tuple[Value, ...]) -> None:
        super().__init__()
        self.index = index
        self.carried = carried


class KernelBuilder:
    """Builder that appends operations to a new `Kernel`.

    An op's `expand` function receives the builder as its first argument.

    Parameters
    ----------
    name : str
        The kernel's name: a C identifier.
    index_dtype : numpy.dtype
        int32 or int64: the dtype of every index, extent and stride.
    level : {"logical", "threaded"}
    attributes : object
        The kernel's attributes.

    Attributes
    ----------
    line : int or None
        Source line that is recorded in the appended operations.
    """

    def __init__(
        self, name: str, index_dtype: np.dtype | type = np.int32, level: Level = "logical", **attributes: Any
    ) -> None:
        self.kernel = Kernel(name, [], Block(), np.dtype(index_dtype), level, attributes)
        self.blocks: list[Block] = [self.kernel.body]
        self.line: int | None = None
        self._count = 0
        self._constants: dict[tuple[int, str, bytes], Value] = {}
        self._branches: dict[Operation, BranchBuilder] = {}

    # -- values ---------------------------------------------------------------------------

    def fresh(self, type: Type) -> Value:
        """Return a new value whose name is an unused number."""
        value = Value(str(self._count), type)
        self._count += 1
        return value

    @classmethod
    def after(cls, kernel: Kernel) -> Self:
        """Return a builder for a kernel that replaces `kernel`. New values get names that `kernel` does not use."""
        made = cls(kernel.name, kernel.index_dtype, kernel.level, **kernel.attributes)
        values = [v for f in kernel.functions for v in f.parameters]
        for o in kernel.walk():
            values += [*o.results, *(v for region in o.regions for v in region.parameters)]
        made._count = max((int(v.name) + 1 for v in values if v.name.isdigit()), default=0)
        return made

    def pointer(
        self, name: str, dtype: DTypeLike, *, writable: bool = False, noalias: bool = False, align: int = 1
    ) -> Value:
        """Declare a parameter that points to elements of `dtype` in global memory."""
        value = Value(name, Pointer(np.dtype(dtype)))
        self.kernel.parameters.append(Parameter(value, writable, noalias, align))
        return value

    def by_value(self, name: str, dtype: DTypeLike, nbytes: int) -> Value:
        """Declare a parameter that passes an array of `nbytes` bytes by value."""
        value = Value(name, Pointer(np.dtype(dtype), "parameter"))
        self.kernel.parameters.append(Parameter(value, noalias=True, align=ALIGNED, by_value=nbytes))
        return value

    def scalar(self, name: str, dtype: DTypeLike | None = None) -> Value:
        """Declare a scalar parameter, by default with the index dtype."""
        value = Value(name, np.dtype(dtype) if dtype is not None else self.kernel.index_dtype)
        self.kernel.parameters.append(Parameter(value))
        return value

    # -- operations -----------------------------------------------------------------------

    @property
    def block(self) -> Block:
        """Return the innermost open block, to which new operations are appended."""
        return self.blocks[-1]

    @property
    def ended(self) -> bool:
        """Return whether the open block already ends in a `yield` or `leave`."""
        return bool(self.block.operations) and self.block.operations[-1].opcode in ("yield", "leave")

    def emit(
        self,
        opcode: str,
        operands: Sequence[Value] = (),
        types: Sequence[Type] = (),
        regions: tuple[Block, ...] = (),
        **attributes: Any,
    ) -> tuple[Value, ...]:
        """Append an operation and return its results."""
        assert not self.ended, f"{opcode} behind the end of its block"
        if self.line is not None:
            attributes.setdefault("line", self.line)
        results = tuple(self.fresh(type) for type in types)
        self.block.operations.append(Operation(opcode, tuple(operands), results, attributes, regions))
        return results

    def constant(self, value: Any, dtype: DTypeLike | None = None) -> Value:
        """Return a constant of `dtype`, by default of the index dtype."""
        dtype = np.dtype(dtype) if dtype is not None else self.kernel.index_dtype
        scalar = dtype.type(value)
        key = (id(self.block), dtype.str, scalar.tobytes())
        found = self._constants.get(key)
        if found is None:
            (found,) = self.emit("constant", (), (dtype,), value=scalar)
            self._constants[key] = found
        return found

    def op(self, name: str, *operands: Value, dtype: DTypeLike | None = None) -> Value:
        """Append a scalar operation from the op table, such as ``add``, and return its result.

        The operands must have the dtypes of one of the op's loops.

        `dtype` is the dtype of the result. The default is bool for comparisons and other tests, and otherwise the dtype
        of the last operand, which is right for every op whose result has the dtype of its operands.
        """
        result = np.dtype(dtype) if dtype is not None else TESTS.get(name, operands[-1].type)
        return self.emit(name, operands, (result,))[0]

    def cast(self, value: Value, dtype: DTypeLike) -> Value:
        """Return `value` cast to `dtype`, or `value` itself if it has that dtype."""
        dtype = np.dtype(dtype)
        return value if value.type == dtype else self.emit("cast", (value,), (dtype,))[0]

    def load(self, pointer: Value, index: Value, **attributes: Any) -> Value:
        """Load the element at `index`, which counts elements, not bytes.

        `attributes` may contain ``align``, ``volatile`` and ``hint``.
        """
        return self.emit("load", (pointer, index), (pointer.element,), **attributes)[0]

    def store(self, pointer: Value, index: Value, value: Value, **attributes: Any) -> None:
        """Store `value` at `index`, which counts elements, not bytes.

        `attributes` may contain ``align``, ``volatile`` and ``hint``.
        """
        self.emit("store", (pointer, index, value), **attributes)

    def local(self, dtype: DTypeLike, count: int = 1) -> Value:
        """Return a pointer to `count` elements of local memory."""
        return self.emit("local", (), (Pointer(np.dtype(dtype), "local"),), count=count)[0]

    def shared(self, dtype: DTypeLike, count: int) -> Value:
        """Return a pointer to `count` elements of shared memory."""
        return self.emit("shared", (), (Pointer(np.dtype(dtype), "shared"),), count=count)[0]

    def offset(self, pointer: Value, index: Value) -> Value:
        """Return the pointer advanced by `index` elements."""
        return self.emit("offset", (pointer, index), (pointer.type,))[0]

    def reinterpret(self, pointer: Value, dtype: DTypeLike) -> Value:
        """Return a pointer to the same address with elements of `dtype`."""
        assert isinstance(pointer.type, Pointer)
        return self.emit("reinterpret", (pointer,), (Pointer(np.dtype(dtype), pointer.type.space),))[0]

    def call(self, function: str, *arguments: Value) -> tuple[Value, ...]:
        """Emit a call to the kernel's function named `function`, and return the results."""
        found = next(f for f in self.kernel.functions if f.name == function)
        return self.emit("call", arguments, found.results, function=function)

    # -- structure ------------------------------------------------------------------------

    @contextmanager
    def region(self, parameters: tuple[Value, ...] = ()) -> Iterator[Block]:
        """Context manager that opens a new block, to be used as a region of an operation.

        The block ends with an empty `yield`, unless it has ended otherwise.
        """
        block = Block(parameters)
        self.blocks.append(block)
        try:
            yield block
            self._end()
        finally:
            self.blocks.pop()

    def _end(self, values: tuple[Value, ...] = ()) -> None:
        """End the open block with a `yield` of `values`, unless the block has already ended."""
        if not self.ended:
            self.block.operations.append(Operation("yield", values))

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
    ) -> Iterator[LoopBuilder]:
        """Open a `for` loop from `start` to `stop`.

        Operations appended inside the ``with`` block form the body.

        `step_by` is a step that is computed at run time. The ``step`` attribute is a constant step.
        """
        first = start if start is not None else self.constant(0)
        loop = LoopBuilder(self.fresh(self.kernel.index_dtype), tuple(self.fresh(v.type) for v in initial))
        with self.region((loop.index, *loop.carried)) as block:
            yield loop
            self._end(loop.yielded)
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
    def if_(self, condition: Value, types: Sequence[Type] = (), likely: bool | None = None) -> Iterator[BranchBuilder]:
        """Open the first region of a new `if`.

        The region contains the operations appended inside the ``with`` block. `else_` directly after the block opens
        the other region. With `types`, the `if` has results, and both regions set them by `BranchBuilder.yield_`.
        `likely` states whether the condition mostly holds, if that is known.
        """
        branch = BranchBuilder(tuple(self.fresh(type) for type in types))
        attributes: dict[str, Any] = {} if self.line is None else {"line": self.line}
        if likely is not None:
            attributes["likely"] = likely
        with self.region() as block:
            yield branch
            self._end(branch.yielded)
        with self.region() as other:
            pass
        operation = Operation("if", (condition,), branch.results, attributes, (block, other))
        self.block.operations.append(operation)
        self._branches[operation] = branch

    @contextmanager
    def else_(self) -> Iterator[BranchBuilder]:
        """Open the second region of the `if` that was just closed."""
        operation = self.block.operations[-1]
        branch = self._branches.pop(operation)
        branch.yielded = ()
        with self.region() as block:
            yield branch
            self._end(branch.yielded)
        operation.regions = (operation.regions[0], block)

    @contextmanager
    def scope(self, label: str) -> Iterator[None]:
        """Open a scope, which is a block with a label. A `leave` operation with the same label exits the block."""
        with self.region() as block:
            yield
        self.emit("scope", regions=(block,), label=label)

    @contextmanager
    def repeat(self, most: int = 0, **attributes: Any) -> Iterator[None]:
        """Open a loop that runs until a `leave` operation exits it.

        If `most` is not 0, it is the maximum number of iterations.
        """
        with self.region() as block:
            yield
        if most:
            attributes["most"] = most
        self.emit("repeat", regions=(block,), **attributes)

    def leave(self, label: str) -> None:
        """End the open block with a jump to the end of the scope `label`."""
        self.emit("leave", label=label)

    def yield_(self, *values: Value) -> None:
        """End the body of a function, and make `values` the results of the function."""
        self.emit("yield", values)

    @contextmanager
    def function(
        self, name: str, parameters: Sequence[Type], results: Sequence[Type] = ()
    ) -> Iterator[tuple[Value, ...]]:
        """Context manager that builds a separate function of the kernel.

        Other open blocks stay open.

        The function can be called from here on, and it may call itself. Its body ends with a `yield_` of its results.
        """
        values = tuple(self.fresh(type) for type in parameters)
        body = Block()
        self.kernel.functions.append(Function(name, values, body, tuple(results)))
        outer, self.blocks = self.blocks, [body]
        try:
            yield values
            self._end()
        finally:
            self.blocks = outer

    @contextmanager
    def at(self, depth: int) -> Iterator[None]:
        """Context manager that redirects new operations to the open block at nesting depth `depth`.

        Depth 0 is the kernel's body.

        The operations precede the loop that is open there, since a loop is appended when it closes.
        """
        self.blocks.append(self.blocks[depth])
        try:
            yield
        finally:
            self.blocks.pop()

    def finish(self) -> Kernel:
        """Return the complete kernel."""
        assert len(self.blocks) == 1
        return self.kernel
