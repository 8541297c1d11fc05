"""Arrays with one element per thread, for kernels whose threads run as loops. All arrays are allocated at once.

In: requests for arrays during emission. Out: their addresses, known at the start of the entry. Invariant: an array
begins at a multiple of 64 bytes. `linear` is the number of the current thread.
"""

from __future__ import annotations

from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer, Value
from weft.codegen.llvm.emit import Emitter, memory_type
from weft.codegen.llvm.host_grid import GROUP, GridDialect
from weft.codegen.passes.split_at_barriers import BarrierSplit, Branch
from weft.codegen.passes.thread_steps import ThreadSteps

NOTE = f", !llvm.access.group {GROUP}"


def memory_of(value: Value) -> tuple[str, int]:
    """Return the LLVM type with which a value is stored in an array, and the size of this type in bytes."""
    if isinstance(value.type, Pointer):
        return "ptr", 8
    return memory_type(value.type), value.type.itemsize


class ArrayEmitter(Emitter):
    """Emitter of a kernel's arrays with one element per thread."""

    dialect: GridDialect

    def __init__(self, kernel: Kernel, dialect: GridDialect, split: BarrierSplit) -> None:
        super().__init__(kernel, dialect)
        self.split = split
        self.steps = ThreadSteps(kernel, split.uniform, split.axis)
        self.grid_in_step = kernel.attributes.get("in_step") == "grid"
        self.threads = ""  # number of threads that run in step: in a block, or in all blocks of the call, i64
        self.block_threads = ""  # number of threads in a block, i64
        self.arrays: list[tuple[str, int]] = []  # name, bytes per thread
        self.kept: dict[Value, str] = {}  # value or `local` -> its array
        self.contributions: dict[Operation, str] = {}  # synchronization point -> array of the threads' contributions
        self.stored_results: dict[
            Operation, list[str]
        ] = {}  # synchronization point -> arrays of the results for the warps
        self.own: dict[Value, str] = {}  # `local` -> memory that the threads reuse in turn
        self.masks: dict[Branch, str] = {}  # branch -> one byte per thread: whether the thread takes the branch
        self.sites: list[str] = []  # names of the synchronization points that may fail
        self.gone = ""  # one byte per thread: whether the thread has left the kernel
        self.block_number = ""  # i64
        self.linear = ""  # position of the thread in the loops over the threads, i64
        self.here: set[Value] = set()  # values that are available in the open run

    def array(self, bytes_each: int) -> str:
        """Reserve an array with `bytes_each` bytes per thread. Return the name of its pointer."""
        name = f"%array{len(self.arrays)}"
        self.arrays.append((name, bytes_each))
        return name

    def _arena(self) -> str:
        if not self.arrays:
            return ""
        self.declarations["malloc"] = "declare noalias ptr @malloc(i64)"
        lines = [f"%many.up = add nuw nsw i64 {self.threads}, 63", "%many = and i64 %many.up, -64"]
        total = sum(size for _, size in self.arrays)
        lines += [f"%arena.bytes = mul nuw nsw i64 %many, {total}", "%arena = call ptr @malloc(i64 %arena.bytes)"]
        before = 0
        for name, size in self.arrays:
            lines.append(f"{name}.at = mul nuw nsw i64 %many, {before}")
            lines.append(f"{name} = getelementptr inbounds i8, ptr %arena, i64 {name}.at")
            before += size
        return "\n".join(f"  {line}" for line in lines)

    def slot(self, array: str, kind: str, number: str = "", count: int = 1) -> str:
        """Return the address of the element of thread `number` in an array, by default of the current thread."""
        index = number or self.linear
        if count != 1:
            index = self.line(f"mul nuw nsw i64 {index}, {count}")
        return self.line(f"getelementptr inbounds {kind}, ptr {array}, i64 {index}")
