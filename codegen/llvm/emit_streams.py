"""The emitter's loops over more memory than the caches hold: fetched ahead, and written past the caches.

In: a kernel with the attribute ``streams``, host code on x86-64. A store into memory that is in no cache reads the line
first; one past the caches does not, but takes whole lines. Always true: the last thing such a kernel does is to wait for
what it wrote past the caches, so that other threads see it.
"""

from __future__ import annotations

from weft.codegen.kernel_ir.operation import Block, Operation
from weft.codegen.llvm.emit_text import Item, Writer, scalar_type
from weft.codegen.passes.index_steps import index_steps

LINE = 64  # bytes that caches and memory exchange
AHEAD = 4096  # bytes that reads are fetched ahead: about what memory delivers while it is asked for one line
_PAST = "!0 = !{i32 1}"
STREAMS = 4  # pointers of a loop that are fetched ahead; beyond, the asking costs more than it saves


class StreamEmitter(Writer):
    """Emits what goes past the caches."""

    def plain_loop(
        self,
        body: Block,
        start: str,
        stop: str,
        step: int | str,
        carried: list[str],
        lanes: int,
        linear: bool = False,
        last: str = "",
    ) -> list[str]:
        """A loop; what it carries at the end."""
        raise NotImplementedError

    @property
    def streams(self) -> bool:
        """Whether the kernel goes through more memory than the caches hold."""
        return self.kernel.level == "logical" and bool(self.kernel.attributes.get("streams"))

    def fetch_ahead(self, operation: Operation, address: str, nbytes: int) -> None:
        """Ask for what a vector load will want some turns later."""
        self.fetched.add(operation)
        if len(self.fetched) > STREAMS:
            return
        self.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
        for start in range(0, nbytes, LINE):
            later = self.line(f"getelementptr i8, ptr {address}, i64 {AHEAD + start}")
            self.do(f"call void @llvm.prefetch.p0(ptr {later}, i32 0, i32 3, i32 1)")

    def store_of_lines(self, operation: Operation, address: str, align: int) -> tuple[int, str]:
        """How a store that may fill whole lines is written: what its address is a multiple of, and its notes."""
        if not self.writing_past:
            self.line_stores[operation] = address
            return align, ""
        if not self.metadata or self.metadata[-1] != _PAST:
            self.metadata.append(_PAST)
        return LINE, ", !nontemporal !0"

    def stream_loop(self, body: Block, start: str, stop: str, lanes: int, last: str) -> None:
        """Vectors of elements from `start` to `stop`, the last one at `last`. Running a turn twice changes nothing.

        The first turn writes as ever and finds out how far it is to a whole line. Where all pointers agree on that, the
        inner loop goes on from there past the caches; the rest is written as ever again.
        """
        kind = scalar_type(self.kernel.index_dtype)
        self.line_stores = dict.fromkeys(_widest_stores(body, lanes), "")
        number = self.fresh_number()
        head, inside, inner, after = (f"{name}{number}" for name in ("head", "body", "lines", "after"))
        latch = f"latch{number}"
        before = self.label
        self.lines.append(f"  br label %{head}")
        self.start_label(head)
        index = self.name()
        slot = len(self.lines)
        self.lines.append("")
        more = self.line(f"icmp slt {kind} {index}, {stop}")
        self.lines.append(f"  br i1 {more}, label %{inside}, label %{after}")
        self.start_label(inside)
        below = self.line(f"icmp slt {kind} {index}, {last}")
        at = self.line(f"select i1 {below}, {kind} {index}, {kind} {last}")
        self.environment[body.parameters[0]] = Item(at, lanes, 1)
        self.block(body)
        following = self.line(f"add nsw {kind} {index}, {lanes}")
        near, agreed = self._distance(kind)
        first = self.line(f"icmp eq {kind} {index}, {start}")
        go = self.line(f"and i1 {first}, {agreed}")
        ended = self.label
        self.lines.append(f"  br i1 {go}, label %{inner}, label %{latch}")
        self.start_label(inner)
        near = self.line(f"add nsw {kind} {index}, {near}")
        beyond = self.line(f"add nsw {kind} {last}, 1")
        self.writing_past = self.wrote_past = True
        self.plain_loop(body, near, beyond, lanes, [], lanes, linear=True)
        self.writing_past = False
        # as many whole vectors as were written
        room = self.line(f"sub nsw {kind} {last}, {near}")
        room = self.line(f"add nsw {kind} {room}, {lanes}")
        room = self.line(f"and {kind} {room}, {-lanes}")
        done = self.line(f"add nsw {kind} {near}, {room}")
        wrote = self.label
        self.lines.append(f"  br label %{latch}")
        self.start_label(latch)
        turn = self.line(f"phi {kind} [ {following}, %{ended} ], [ {done}, %{wrote} ]")
        self.lines[slot] = f"  {index} = phi {kind} [ {start}, %{before} ], [ {turn}, %{latch} ]"
        self.lines.append(f"  br label %{head}")
        self.start_label(after)
        self.line_stores = {}

    def _distance(self, kind: str) -> tuple[str, str]:
        """Elements from the stores' addresses to the next whole line, and whether all of them agree on it."""
        addresses = [self.line(f"ptrtoint ptr {address} to i64") for address in self.line_stores.values()]
        (pointer, *_) = self.line_stores
        size = pointer.operands[0].type.dtype.itemsize  # type: ignore[union-attr]
        differing = self.line(f"and i64 {addresses[0]}, {size - 1}")
        for address in addresses[1:]:
            other = self.line(f"xor i64 {address}, {addresses[0]}")
            differing = self.line(f"or i64 {differing}, {other}")
        differing = self.line(f"and i64 {differing}, {LINE - 1}")
        agreed = self.line(f"icmp eq i64 {differing}, 0")
        left = self.line(f"sub i64 0, {addresses[0]}")
        left = self.line(f"and i64 {left}, {LINE - 1}")
        left = self.line(f"lshr i64 {left}, {size.bit_length() - 1}")
        return (left if kind == "i64" else self.line(f"trunc i64 {left} to {kind}")), agreed

    @staticmethod
    def fills_lines(body: Block, lanes: int) -> bool:
        """Whether a turn writes whole lines."""
        return bool(_widest_stores(body, lanes))

    def finish_streams(self) -> None:
        """Before a kernel ends: wait for what was written past the caches."""
        if self.wrote_past:
            self.declare("llvm.x86.sse.sfence", "void", [])
            self.do("call void @llvm.x86.sse.sfence()")


def _widest_stores(body: Block, lanes: int) -> list[Operation]:
    """The stores of element after element that fill whole lines in a turn, those of the largest elements."""
    steps = index_steps(body.operations, body.parameters[0])
    found = [o for o in body.operations if o.opcode == "store" and steps.get(o.operands[1]) == 1]
    sizes = [o.operands[0].type.dtype.itemsize for o in found]  # type: ignore[union-attr]
    widest = max(sizes, default=0)
    if not widest or widest * lanes % LINE:
        return []
    return [o for o, size in zip(found, sizes, strict=True) if size == widest]
