"""Prefetches and non-temporal stores in vectorized loops on the host.

In: the loops of a kernel. A kernel with the ``streams`` attribute, which only x86-64 kernels have, accesses more memory
than the caches hold, and uses both. Other kernels use prefetches in loops with many operations. A normal store to
memory outside the caches first reads the cache line. A non-temporal store does not, but needs whole lines. Invariant: a
kernel with non-temporal stores ends with a fence, so that other threads see them.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.codegen.kernel_ir.operation import Block, Operation, Pointer, Value
from weft.codegen.llvm.emit_text import Item, Writer, memory_type, scalar_type
from weft.codegen.passes.index_steps import index_steps

LINE = 64  # bytes of a cache line
AHEAD = 768  # prefetch distance in bytes
_PAST = "!0 = !{i32 1}"
STREAMS = 4  # maximum number of prefetched loads in a kernel; more prefetches cost more than they save


class StreamEmitter(Writer):
    """The part of the emitter for prefetches and non-temporal stores."""

    # Methods of subclasses: `LoopEmitter.plain_loop` and `MemoryEmitter.element`.
    plain_loop: Callable[..., list[str]]
    element: Callable[[Value, str, str], str]

    @property
    def streams(self) -> bool:
        """Return whether the kernel accesses more memory than the caches hold ("streams").

        The ``streams`` attribute marks such kernels. They may use non-temporal stores, and prefetch even in small loop bodies.
        """
        return self.kernel.level == "logical" and bool(self.kernel.attributes.get("streams"))

    def fetch_ahead(self, operation: Operation, address: str, nbytes: int) -> None:
        """Emit prefetches for a vector load. The prefetched memory begins `AHEAD` bytes after the load's address.

        The load reads `nbytes` bytes. Only the kernel's first `STREAMS` loads have prefetches.
        """
        self.fetched.add(operation)
        if len(self.fetched) > STREAMS:
            return
        self._emit_prefetches(address, AHEAD, nbytes)

    def fetch(self, operation: Operation) -> None:
        """Emit prefetches of the memory that a later iteration of an outer loop will read."""
        pointer, index = operation.operands
        item = self.environment[index]
        if not item.lanes or item.step != 1 or self.mask:
            return
        kind, number = memory_type(pointer.element), self.widened(item.text)
        # the prefetched address may lie outside the array, so it is not `inbounds`
        address = self.line(f"getelementptr {kind}, ptr {self.scalar_of(pointer)}, i64 {number}")
        self._emit_prefetches(address, 0, item.lanes * pointer.element.itemsize)

    def _emit_prefetches(self, address: str, offset: int, nbytes: int) -> None:
        for start in range(offset, offset + nbytes, LINE):
            later = self.line(f"getelementptr i8, ptr {address}, i64 {start}")
            self.call("llvm.prefetch.p0", "void", [("ptr", later), ("i32", "0"), ("i32", "3"), ("i32", "1")])

    def nontemporal_metadata(self) -> str:
        """Return the metadata of a non-temporal store."""
        if _PAST not in self.metadata:
            self.metadata.append(_PAST)
        return ", !nontemporal !0"

    def stream_loop(self, body: Block, start: str, stop: str, lanes: int, last: str) -> None:
        """Emit a vectorized loop that uses non-temporal stores for whole cache lines if possible.

        The loop runs from `start` to `stop`.

        The last vector begins at `last`. The iterations must be idempotent. If the stores of the largest elements are
        equally far from their next cache lines, the inner loop uses non-temporal stores. One iteration with plain
        stores precedes it, unless the distance is 0, and the remainder uses plain stores. Otherwise, all stores are
        plain.
        """
        kind = scalar_type(self.kernel.index_dtype)
        stores = _widest_stores(body, lanes)
        distance, agreed = self._distance(body, start, stores)
        near = self.line(f"add nsw {kind} {start}, {distance}")
        some = self.line(f"icmp slt {kind} {start}, {stop}")
        agreed = self.line(f"and i1 {agreed}, {some}")
        there = self.line(f"icmp eq {kind} {distance}, 0")
        at_once = self.line(f"and i1 {agreed}, {there}")
        number = self.fresh_number()
        head, inside, inner, after = (f"{name}{number}" for name in ("head", "body", "lines", "after"))
        before = self.label
        self.fork(at_once, inner, head, head)
        index, slot = self.reserve_phi()
        more = self.line(f"icmp slt {kind} {index}, {stop}")
        self.fork(more, inside, after)
        below = self.line(f"icmp slt {kind} {index}, {last}")
        at = self.line(f"select i1 {below}, {kind} {index}, {kind} {last}")
        self.environment[body.parameters[0]] = Item(at, lanes, 1)
        self.block(body)
        following = self.line(f"add nsw {kind} {index}, {lanes}")
        first = self.line(f"icmp eq {kind} {index}, {start}")
        go = self.line(f"and i1 {first}, {agreed}")
        ended = self.label
        self.fork(go, inner, head)
        beyond = self.line(f"add nsw {kind} {last}, 1")
        self.past_cache, self.wrote_past = set(stores), True
        self.plain_loop(body, near, beyond, lanes, [], lanes, linear=True)
        self.past_cache = set()
        # as many whole vectors as were written
        room = self.line(f"sub nsw {kind} {last}, {near}")
        room = self.line(f"add nsw {kind} {room}, {lanes}")
        room = self.line(f"and {kind} {room}, {-lanes}")
        done = self.line(f"add nsw {kind} {near}, {room}")
        self.lines[slot] = (
            f"  {index} = phi {kind} [ {start}, %{before} ], [ {following}, %{ended} ], [ {done}, %{self.label} ]"
        )
        self.jump(head, after)

    def _distance(self, body: Block, start: str, stores: list[Operation]) -> tuple[str, str]:
        """Emit code that computes the distance to the next cache line, and whether it is equal for all stores.

        The distance is a number of elements. The stores have elements of the same size. If an address is not a multiple
        of this size, the second result is false.
        """
        lanes, self.lanes = self.lanes, 0
        self.environment[body.parameters[0]] = Item(start)
        for operation in _needed(body, [store.operands[1] for store in stores]):
            self.operation(operation)
        addresses = []
        for store in stores:
            pointer, index = store.operands[:2]
            size = pointer.element.itemsize
            address = self.element(pointer, self.scalar_of(index), memory_type(pointer.element))
            addresses.append(self.line(f"ptrtoint ptr {address} to i64"))
        self.lanes = lanes
        differing = self.line(f"and i64 {addresses[0]}, {size - 1}")
        for address in addresses[1:]:
            other = self.line(f"xor i64 {address}, {addresses[0]}")
            differing = self.line(f"or i64 {differing}, {other}")
        differing = self.line(f"and i64 {differing}, {LINE - 1}")
        agreed = self.line(f"icmp eq i64 {differing}, 0")
        left = self.line(f"sub i64 0, {addresses[0]}")
        left = self.line(f"and i64 {left}, {LINE - 1}")
        left = self.line(f"lshr i64 {left}, {size.bit_length() - 1}")
        return self.narrowed(left, "trunc"), agreed

    @staticmethod
    def fills_lines(body: Block, lanes: int) -> bool:
        """Return whether each iteration stores whole cache lines to an array."""
        return bool(_widest_stores(body, lanes))

    def finish_streams(self) -> None:
        """Emit a fence at the end of the kernel if the kernel has non-temporal stores."""
        if self.wrote_past:
            self.call("llvm.x86.sse.sfence", "void", [])


def _widest_stores(body: Block, lanes: int) -> list[Operation]:
    """From the contiguous stores to global memory, return those with the largest element size.

    Return [] if a vector of these elements does not fill whole cache lines.
    """
    steps = index_steps(body.operations, body.parameters[0])
    found = [o for o in body.operations if o.opcode == "store" and steps.get(o.operands[1]) == 1 and _is_global(o)]
    sizes = [o.operands[0].type.dtype.itemsize for o in found]  # type: ignore[union-attr]
    widest = max(sizes, default=0)
    if not widest or widest * lanes % LINE:
        return []
    return [o for o, size in zip(found, sizes, strict=True) if size == widest]


def _is_global(access: Operation) -> bool:
    kind = access.operands[0].type
    return isinstance(kind, Pointer) and kind.space == "global"


def _needed(body: Block, values: list[Value]) -> list[Operation]:
    """Return the operations of `body` that compute `values`, in program order."""
    wanted, found = set(values), []
    for operation in reversed(body.operations):
        if not wanted.isdisjoint(operation.results):
            wanted.update(operation.operands)
            found.append(operation)
    return found[::-1]
