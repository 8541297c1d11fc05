"""The variables of a kernel during compilation.

In: values assigned to variables. Out: kernel IR that stores and loads them. Invariant: a variable has one kind in the
last compilation run. If an assignment widens the kind after a use, the code of the run is discarded, and another run
follows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from weft.codegen import KernelBuilder, Pointer, Value
from weft.dsl.kernel.language.extents import contiguous
from weft.dsl.kernel.language.values import (
    BOOL,
    INT,
    OPTIONAL,
    ArrayKind,
    ArrayValue,
    Closure,
    Constant,
    ConstantKind,
    DateKind,
    DateValue,
    Extent,
    HeldKind,
    Kind,
    OptionalKind,
    OptionalValue,
    ScalarKind,
    ScalarValue,
    TupleKind,
    TupleValue,
    array_kind,
    in_bytes,
    is_none,
    join,
    kind_of,
    memory_dtype,
    runtime_kind,
    window_of,
)

if TYPE_CHECKING:
    from weft.dsl.kernel.sanitizer.tracer import Tracer


class Restart(Exception):
    """Raised to restart a kernel's compilation after an assumption has proved wrong."""


class Unresolved(Exception):
    """Raised if a value depends on a variable or recursive function whose type is not known yet."""


class Variable:
    """A Python variable in a kernel, with its kind and its storage.

    `blocks` is the tuple of IR blocks that were open at the first assignment. `later` is the variable that replaced this
    one in the run `later_run`, when a value of another kind was assigned in the same blocks. If `split` is true, this
    variable is no longer used. `targets` are the variables to which an assignment to this variable is forwarded.
    """

    def __init__(self, name: str, targets: list[Variable] | None = None) -> None:
        self.name = name
        self.targets = targets
        self.splittable = self.split = False
        self.kind: Kind | None = None
        self.parts: list[Variable] = []  # the items of a tuple, or the value of an optional variable
        self.run = -1  # the run in which the variable was last used
        self.slots: list[Value] = []  # pointers to the local memory that stores the value
        self.held: Any = None
        self.blocks: tuple[Any, ...] = ()
        self.later: Variable | None = None
        self.later_run = -1
        self.assignments = 0

    def now(self, run: int) -> Variable:
        """Return this variable or its latest replacement. A variable is replaced if a value of another type is assigned to it during compilation."""
        found = self
        while found.later is not None and found.later_run == run:
            found = found.later
        return found


class Variables:
    """Base class of `Compiler`. It holds, stores and loads the variables of the kernel that is being compiled."""

    builder: KernelBuilder
    index_dtype: np.dtype
    numba: bool
    run: int
    pending: bool
    widened: bool
    tracer: Tracer | None
    written: set[int]
    fail: Callable[..., NoReturn]
    ir: Callable[..., Value]

    def __init__(self) -> None:
        self.variables: dict[tuple[Any, ...], Variable] = {}
        # Local arrays that are selected at run time are allocated in one arena per dtype. The arena's length is kept
        # for all runs. Its pointer and the number of allocated elements belong to this run.
        self.arena_lengths: dict[np.dtype, int] = {}
        self.arenas: dict[np.dtype, tuple[Value, int]] = {}

    def variable(self, key: tuple[Any, ...], name: str) -> Variable:
        """Return the variable with the key `key`. If the kernel is compiled again, the key gives the same variable."""
        return self.variables.setdefault(key, Variable(name))

    def assign(self, variable: Variable, value: object) -> None:
        """Assign a value to a variable, after widening the kind of the variable if necessary."""
        if variable.targets is not None:
            for target in variable.targets:
                self.assign(target, value)
            return
        variable = variable.now(self.run)
        kind = kind_of(value)
        known = variable.kind
        if isinstance(value, ArrayValue) and (isinstance(known, (ArrayKind, OptionalKind)) or is_none(known)):
            kind = self._array_kind(value) or kind
        elif isinstance(known, HeldKind) and variable.run == self.run:
            known = self._chosen_kind(variable, value)
        joined = kind if known is None else join(known, kind, self.numba)
        if joined is None:
            assert known is not None
            if variable.run == self.run and variable.blocks == tuple(self.builder.blocks):
                self._succeed(variable, value)
                return
            if variable.splittable:
                variable.split = True
                raise Restart
            if not variable.name.isidentifier():  # (the result of an expression)
                self.fail(f"{variable.name} is {known} or {kind}, which have no common type: use an `if` statement")
            self.fail(
                f"variable {variable.name!r} holds {known} and {kind}: a variable keeps one type where its values meet; "
                "use another name for the other"
            )
        if joined != known:
            if joined == OPTIONAL:
                self._make_optional(variable, known, kind)
            variable.kind = joined
            if variable.run == self.run:
                variable.split = variable.splittable and _number_dtype(known) != _number_dtype(joined)
                self._widen(variable)
        self._touch(variable)
        if not variable.blocks:
            variable.blocks = tuple(self.builder.blocks)
        self._store(variable, value)

    def _widen(self, variable: Variable) -> None:
        """Allocate new storage for a variable with a widened kind, and request another compilation of the kernel.

        This compilation run continues, so that it widens the kinds of all such variables.
        """
        self.pending = self.widened = True
        blocks = variable.blocks
        variable.run = -1
        self._touch(variable)
        variable.blocks = blocks

    def _succeed(self, variable: Variable, value: object) -> None:
        """Assign a value whose kind `variable` cannot hold: replace `variable` by its successor `variable.later`, and
        assign the value to the successor.

        All later uses in this compilation run refer to the successor.
        """
        if variable.later is None:
            variable.later = Variable(variable.name)
            raise Restart  # (a loop may read the variable before this assignment: such reads must be compiled again)
        variable.later_run = self.run
        self.assign(variable.later, value)

    def _chosen_kind(self, variable: Variable, value: object) -> Kind | None:
        """Return a variable's kind (compile-time type).

        If the variable's arrays may be replaced by other arrays or None, the kind is first made more general.

        If the variable holds an array and `value` may be None, the kind is an `ArrayKind`. A second array of the same
        type gives the variable an `ArrayKind`, and restarts compilation.
        """
        held = variable.held[0] if variable.held is not None else None
        if not isinstance(held, ArrayValue):
            return variable.kind
        if isinstance(value, OptionalValue) or is_none(kind_of(value)):
            return self._array_kind(held) or variable.kind
        if held is not value and isinstance(value, ArrayValue):
            first, second = array_kind(held), array_kind(value)
            both = join(first, second) if first is not None and second is not None else None
            if both is not None:
                self._array_kind(held)
                variable.kind = both
                raise Restart
        return variable.kind

    def _array_kind(self, array: ArrayValue) -> ArrayKind | None:
        """Return the kind of an array. If a local array still needs an arena (a memory pool), raise Restart to compile the kernel again.

        Local arrays must be allocated in an arena, so that an offset identifies them at run time.
        """
        kind = array_kind(array)
        if kind is not None and kind.space == "local" and kind.dtype not in self.arena_lengths:
            self.arena_lengths[kind.dtype] = 0
            raise Restart
        return kind

    def _make_optional(self, variable: Variable, *kinds: Kind | None) -> None:
        """Make `variable` a variable that can also be None. If it is not None, its value is in another variable, ``variable.parts[0]``."""
        variable.parts = [Variable(variable.name)]
        for kind in kinds:
            if kind is not None and not isinstance(kind, OptionalKind) and not is_none(kind):
                variable.parts[0].kind = runtime_kind(kind) or kind

    def arena_part(self, dtype: np.dtype, count: int) -> Value | None:
        """Reserve `count` elements in the arena (memory pool) for local arrays of `dtype`. Return a pointer, or None if there is no arena."""
        length = self.arena_lengths.get(dtype)
        if length is None:
            return None
        pointer, taken = self._arena(dtype)
        self.arenas[dtype] = pointer, taken + count
        if taken + count > length:
            self.arena_lengths[dtype] = taken + count
            self.pending = True
        return self.builder.offset(pointer, self.builder.constant(taken)) if taken else pointer

    def _arena(self, dtype: np.dtype) -> tuple[Value, int]:
        """Return a pointer to the memory that contains all elements of dtype `dtype` (the arena), and the number of its elements that are in use."""
        if dtype not in self.arenas:
            with self.at_top():
                self.arenas[dtype] = self.builder.local(dtype, max(self.arena_lengths[dtype], 1)), 0
        return self.arenas[dtype]

    def _touch(self, variable: Variable) -> None:
        if variable.run == self.run:
            return
        variable.run = self.run
        variable.held = None
        variable.blocks = ()
        kind = variable.kind
        with self.at_top():
            variable.slots = [self.builder.local(dtype) for dtype in slot_dtypes(kind)]
        if isinstance(kind, TupleKind):
            while len(variable.parts) < kind.length:
                variable.parts.append(Variable(variable.name))
        elif isinstance(kind, OptionalKind):
            part = variable.parts[0]
            if isinstance(part.kind, ScalarKind):  # None is read as the number 0, unless a check is compiled
                self._touch(part)
                with self.at_top():
                    self.builder.store(
                        part.slots[0], self.builder.constant(0), self.builder.constant(0, part.kind.dtype)
                    )

    def _store(self, variable: Variable, value: Any) -> None:
        variable.assignments += 1
        for slot, number in zip(variable.slots, self._slot_values(variable.kind, value), strict=True):
            self.builder.store(slot, self.builder.constant(0), number)
        match variable.kind:
            case TupleKind():
                for part, item in zip(variable.parts, value.items, strict=True):
                    self.assign(part, item)
            case OptionalKind():
                held = value.value if isinstance(value, OptionalValue) else value
                if held is not None and not is_none(kind_of(held)):
                    self.assign(variable.parts[0], held)
            case ArrayKind():
                self.written.add(value.origin)  # the compiler does not track which array is written to
            case HeldKind():
                if variable.held is not None and variable.held[0] is not value:
                    self.fail(
                        f"variable {variable.name!r} is given one {variable.kind} after another: which one it is has to be "
                        "known when the kernel is compiled; use two names, or an index"
                    )
                variable.held = (value, tuple(self.builder.blocks))

    def _slot_values(self, kind: Kind | None, value: Any) -> list[Value]:
        """Return the IR values that represent `value` in a variable of kind `kind`, one for each dtype in `slot_dtypes`."""
        b = self.builder
        match kind:
            case ScalarKind(dtype=dtype):
                return [self.ir(value, dtype)]
            case DateKind():
                return [value.number.ir if isinstance(value, DateValue) else b.constant(value.value.view(INT), INT)]
            case OptionalKind():
                if isinstance(value, OptionalValue):
                    return [value.present]
                return [b.constant(not is_none(kind_of(value)), BOOL)]
            case ArrayKind(packed=packed, shape=shape):
                (address,) = b.emit("address", (value.pointer,), (INT,))
                if value.space == "local":  # (the offset in the arena is stored: the arena's memory has no address)
                    (start,) = b.emit("address", (self._arena(value.dtype)[0],), (INT,))
                    size = b.constant(value.dtype.itemsize, INT)
                    address = b.op("floor_divide", b.op("subtract", address, start), size)
                extents = [] if shape is not None else [*value.shape, *(() if packed else value.strides)]
                return [address, *(b.cast(e if isinstance(e, Value) else b.constant(e), INT) for e in extents)]
        return []

    def load(self, variable: Variable) -> Any:
        """Return the value of a variable, or raise KeyError if no value has been assigned."""
        variable = variable.now(self.run)
        if variable.run != self.run:
            if variable.later is not None:
                self.fail(
                    f"variable {variable.name!r} is read here in a loop that gives it values of several types: use another name"
                )
            if variable.kind is None or isinstance(variable.kind, HeldKind):
                raise KeyError(variable.name)
            self._touch(variable)
        if not isinstance(variable.kind, HeldKind):
            loaded = [self.builder.load(slot, self.builder.constant(0)) for slot in variable.slots]
            value = self.assembled(variable, loaded, self.load)
            if isinstance(value, ArrayValue):  # the same array until the next assignment in these blocks
                base = variable, variable.assignments, *self.builder.blocks
                value = replace(value, window=window_of(value), base=base)
            return value
        if variable.held is None:
            raise KeyError(variable.name)
        value, blocks = variable.held
        if not isinstance(value, Closure) and any(block not in self.builder.blocks for block in blocks):
            self.fail(
                f"variable {variable.name!r} is given its {variable.kind} in a branch or loop that has ended here"
            )
        if self.tracer is not None and isinstance(value, ArrayValue):
            return self.tracer.named(value, variable.name)
        return value

    def assembled(self, variable: Variable, numbers: list[Value], load_part: Callable[[Variable], Any]) -> Any:
        """Build the value of a variable from the `numbers` that represent it (see `_slot_values`).

        `load_part` returns the value of one of the variable's parts, such as an item of a tuple.
        """
        match variable.kind:
            case ScalarKind(weak=weak, nonnegative=nonnegative):
                return ScalarValue(numbers[0], weak, nonnegative)
            case ConstantKind(value=held):
                return Constant(held)
            case TupleKind(maker=maker, names=names):
                return TupleValue(tuple(load_part(part) for part in variable.parts), maker, names)
            case DateKind(dtype=dtype):
                return DateValue(ScalarValue(numbers[0]), dtype)
            case OptionalKind():
                part = variable.parts[0]
                return OptionalValue(numbers[0], None if part.kind is None else load_part(part), variable.name)
            case ArrayKind():
                return self._chosen(variable.name, variable.kind, numbers)
        raise AssertionError(variable.kind)

    def _chosen(self, name: str, kind: ArrayKind, numbers: list[Value]) -> ArrayValue:
        """Return the array that a variable of kind `ArrayKind` refers to at run time."""
        b = self.builder
        address, *rest = numbers
        if kind.space == "local":
            pointer = b.offset(self._arena(kind.dtype)[0], b.cast(address, self.index_dtype))
        else:
            (pointer,) = b.emit("pointer", (address,), (Pointer(memory_dtype(kind.dtype), kind.space),))  # type: ignore[arg-type]
        extents = tuple(b.cast(value, self.index_dtype) for value in rest)
        shape: tuple[Extent, ...] = extents[: kind.ndim] if kind.shape is None else kind.shape
        strides: tuple[Extent, ...] = extents[kind.ndim :]
        if kind.packed:
            strides = contiguous(self, shape, kind.dtype.itemsize if in_bytes(kind.dtype) else 1)
        return ArrayValue(pointer, kind.dtype, shape, strides, kind.space, kind.writable, name, kind.packed)

    def at_top(self) -> AbstractContextManager[None]:
        """Return a context manager in which operations are emitted before all open loops and branches."""
        return self.builder.at(0)


def slot_dtypes(kind: Kind | None) -> list[np.dtype]:
    """Return the dtypes of the numbers that represent a value in a variable of kind `kind`.

    The numbers of the variable's parts, such as the items of a tuple, are not included.
    """
    match kind:
        case ScalarKind(dtype=dtype):
            return [dtype]
        case DateKind():
            return [INT]
        case OptionalKind():
            return [BOOL]
        case ArrayKind(ndim=ndim, packed=packed, shape=shape):  # the address, the lengths, the strides
            return [INT] * (1 + (0 if shape is not None else ndim if packed else 2 * ndim))
    return []


def _number_dtype(kind: Kind | None) -> np.dtype | None:
    """Return the dtype of a variable of kind `kind` if it holds numbers, otherwise None."""
    kind = None if kind is None else runtime_kind(kind)
    return kind.dtype if isinstance(kind, ScalarKind) else None
