"""Instrumentation of kernels with `trace` operations.

In: accesses and indices during compilation. Out: `trace` operations, and a `Site` for each. Invariant: an index is
checked before its address is computed, and an address before it is used, so that a thread ends instead of accessing
invalid memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.codegen import KernelBuilder, Type, Value
from weft.dsl.kernel.language.extents import add, extent_ir, product
from weft.dsl.kernel.language.kernel_errors import SourceLocation
from weft.dsl.kernel.language.values import BOOL, ArrayValue, Constant, Extent, Sliced

if TYPE_CHECKING:
    from weft.dsl.kernel.language.compiler import Compiler

BYTE = np.dtype(np.uint8)


class SiteKind(IntEnum):
    """The kind of an instrumented operation. Memory accesses have the smallest values."""

    READ = 0
    WRITE = 1
    ATOMIC = 2
    OUTSIDE = 3  # an out-of-bounds index: the access is not executed
    BARRIER = 4
    GRID = 5
    WARP_BARRIER = 6  # the event's number is the mask
    WARP = 7  # a warp operation that does not order memory accesses; the event's number, if any, is the mask
    FENCE = 8
    BLOCK_FENCE = 9  # a fence that other blocks do not observe


# Operations that synchronize threads or order their accesses.
_KINDS = {
    "barrier": SiteKind.BARRIER,
    "barrier_vote": SiteKind.BARRIER,
    "grid_barrier": SiteKind.GRID,
    "active_mask": SiteKind.WARP,
    "fence": SiteKind.FENCE,
    "shuffle_xor": SiteKind.WARP,
    "warp_barrier": SiteKind.WARP_BARRIER,
    **dict.fromkeys(("shuffle", "vote", "match", "warp_reduce"), SiteKind.WARP),
}
_MASKED = frozenset({"warp_barrier", "shuffle", "vote", "match", "warp_reduce"})  # the first operand is the mask


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """An instrumented operation of a kernel, with its kind, source location and array.

    `array` is the name of the accessed array, `space` its memory space, `size` the number of bytes of an access, and
    `align` the required alignment. `numbers` is the number of indices in an event, or of lane masks for a warp
    operation. `valued` is true if the written value follows the indices, and `compares` if the operation is a
    compare-and-swap.
    """

    kind: SiteKind
    location: SourceLocation
    array: str = ""
    space: str = ""
    size: int = 0
    align: int = 1
    numbers: int = 0
    valued: bool = False
    compares: bool = False


class TracingBuilder(KernelBuilder):
    """A kernel builder that adds a `trace` operation before each synchronization and each fence."""

    def __init__(self, tracer: Tracer, name: str, index_dtype: np.dtype) -> None:
        super().__init__(name, index_dtype)
        self._tracer = tracer

    def emit(
        self,
        opcode: str,
        operands: Sequence[Value] = (),
        types: Sequence[Type] = (),
        regions: Any = (),
        **attributes: Any,
    ) -> tuple[Value, ...]:
        """Append an operation to the kernel, after a `trace` operation if necessary, and return its results."""
        if opcode in _KINDS:
            kind = SiteKind.BLOCK_FENCE if attributes.get("scope") == "block" else _KINDS[opcode]
            mask = (self.cast(operands[0], self.kernel.index_dtype),) if opcode in _MASKED else ()
            self._tracer.event(Site(kind, self._tracer.location, numbers=len(mask)), mask)
        return super().emit(opcode, operands, types, regions, **attributes)


class Tracer:
    """Emitter of a kernel's `trace` operations, with a list of their sites."""

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self._named: dict[tuple[int, str], tuple[ArrayValue, ArrayValue]] = {}

    def begin(self, c: Compiler, name: str) -> KernelBuilder:
        """Start a new compilation with an empty list of sites, and return its kernel builder."""
        self.sites = []
        self._named = {}
        self.c = c
        return TracingBuilder(self, name, c.index_dtype)

    @property
    def width(self) -> int:
        """The number of 64-bit words of each event."""
        return 3 + max((site.numbers + site.valued for site in self.sites), default=0)

    @property
    def location(self) -> SourceLocation:
        """The source location of the code that is being compiled."""
        found = self.c.location
        assert found is not None
        return found

    def event(self, site: Site, operands: tuple[Value, ...]) -> Value:
        """Emit a `trace` operation for an instrumented operation.

        Return the operation's run-time result: whether the address is aligned.
        """
        self.sites.append(site)
        return self.c.builder.emit("trace", operands, (BOOL,), site=len(self.sites) - 1, align=site.align)[0]

    def named(self, array: ArrayValue, name: str) -> ArrayValue:
        """Label `array` with the name of its variable, and return `array`. If the name is ``point``, a more precise label such as ``point_x`` is kept."""
        if array.label.startswith(f"{name}_"):
            return array
        found = self._named.get((id(array), name))
        if found is None:
            found = self._named[id(array), name] = array, dataclasses.replace(array, label=name, index=())
        return found[1]

    # -- indices ----------------------------------------------------------------------------------

    def bounds(
        self, array: ArrayValue, parts: Sequence[Any], asked: list[tuple[Any, Extent, Extent]]
    ) -> tuple[str, tuple[Value, ...]]:
        """Emit code that checks an index against the bounds of an array.

        Each item of `asked` contains a component of the index, the position to which this component refers, and the
        length of the axis. Return the name of the array, and the index of the selected part in the array. For the parts
        of a slice, the name ends in ``[...]``, and the index is empty.
        """
        c, b = self.c, self.c.builder
        index = tuple(c.index(part) for part, _, _ in asked)
        outside: Value | None = None
        unsigned = np.dtype(f"u{c.index_dtype.itemsize}")
        for _, position, extent in asked:
            if isinstance(position, int) and isinstance(extent, int):
                continue  # checked at compile time
            sides = [b.cast(extent_ir(c, n), unsigned) for n in (position, extent)]
            found = b.op("greater_equal", *sides)
            outside = found if outside is None else b.op("bitwise_or", outside, found)
        whole = (*array.index, *index)
        if outside is not None:
            self.refuse(outside, array, whole)
        first = parts[: len(asked)]
        if any(isinstance(p, Sliced) or (isinstance(p, Constant) and p.value is None) for p in first) or not all(
            isinstance(p, Sliced) and p.start is p.stop is p.step is None for p in parts[len(asked) :]
        ):
            # An element of a slice has no index in the original array.
            return f"{array.label}[...]", ()
        return array.label, whole

    def refuse(self, outside: Value, array: ArrayValue, index: tuple[Value, ...]) -> None:
        """Emit code that, if `outside` is true, reports an out-of-bounds index and ends the thread."""
        with self.c.builder.if_(outside):
            name = array.label or "the array"
            self.event(Site(SiteKind.OUTSIDE, self.location, name, array.space, numbers=len(index)), index)
            self.c.builder.leave(self.c.exit)

    def fits(self, array: ArrayValue, bytes_held: Value, start: Extent) -> None:
        """Emit code that reports an error if an array does not fit in the dynamic shared memory."""
        b = self.c.builder
        behind = add(self.c, product(self.c, (array.dtype.itemsize, *array.shape)), start)
        last = tuple(extent_ir(self.c, add(self.c, extent, -1)) for extent in array.shape)
        self.refuse(b.op("greater", extent_ir(self.c, behind), bytes_held), array, last)

    # -- accesses ---------------------------------------------------------------------------------

    def access(
        self, view: ArrayValue, kind: SiteKind, align: int = 0, value: Value | None = None, compares: bool = False
    ) -> None:
        """Emit a `trace` operation for an access to an array element.

        A misaligned access ends the thread. Accesses to constant memory are not traced.

        `align` is the required alignment, or 0 for that of the dtype. `value` is the written value.
        """
        if view.space == "constant":
            return
        b, name, size = self.c.builder, view.label or "the array", view.dtype.itemsize
        align = align or (size // 2 if view.dtype.kind == "c" else size)
        valued = value is not None and view.dtype.kind in "biuf"
        site = Site(kind, self.location, name, view.space, size, align, len(view.index), valued, compares)
        pointer = view.pointer if view.dtype == BYTE else b.reinterpret(view.pointer, BYTE)
        written = (value,) if site.valued and value is not None else ()
        fine = self.event(site, (pointer, *view.index, *written))
        if site.align > 1:
            with b.if_(b.op("bitwise_xor", fine, b.constant(True, BOOL))):
                b.leave(self.c.exit)
