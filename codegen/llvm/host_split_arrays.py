"""Arrays with one element per thread, for loops over threads.

In: requests for arrays during emission. Out: their addresses, computed at the start of the entry function. Invariant:
an array begins at a multiple of 64 bytes. `linear` is the number of the current thread.

Blocks that run in step form groups. The arrays and the shared memory of a group of several blocks fit in the L2 cache.
If a kernel has neither, all blocks of a call form one group.
"""

from __future__ import annotations

from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer, Value
from weft.codegen.llvm.emit import Emitter, memory_type
from weft.codegen.llvm.host_grid import GROUP, GridDialect
from weft.codegen.passes.split_at_barriers import WARP, BarrierSplit, Branch
from weft.codegen.passes.thread_steps import ThreadSteps

IN_CACHE = 1 << 17  # maximum bytes of the arrays and the shared memory of a group of several blocks
PADDING = 1 << 8  # bytes before the first array and after the last one, for values of 32 lanes
NOTE = f", !llvm.access.group {GROUP}"


def memory_of(value: Value) -> tuple[str, int]:
    """Return the LLVM type in which an array stores a value, and the size of the type in bytes."""
    if isinstance(value.type, Pointer):
        return "ptr", 8
    return memory_type(value.type), value.type.itemsize


class ArrayEmitter(Emitter):
    """Emitter of arrays that have one element per thread of a block or of a group of blocks."""

    dialect: GridDialect

    def __init__(self, kernel: Kernel, dialect: GridDialect, split: BarrierSplit) -> None:
        super().__init__(kernel, dialect)
        self.split = split
        self.steps = ThreadSteps(kernel, split.uniform, split.axis)
        self.grid_in_step = kernel.attributes.get("in_step") == "grid"
        self.threads = ""  # number of threads that run in step: in a block, or in a group of blocks, i64
        self.block_threads = ""  # number of threads in a block, i64
        self.arrays: list[tuple[str, int]] = []  # name, bytes per thread
        self.shared: list[tuple[Operation, str, str]] = []  # of blocks in step: operation, array, bytes per block
        self.constants = kernel.constants()
        self.kept: dict[Value, str] = {}  # value or `local` -> its array
        self.contributions: dict[Operation, str] = {}  # synchronization point -> array of the threads' contributions
        # synchronization point -> arrays of the results for the warps
        self.stored_results: dict[Operation, list[str]] = {}
        self.own: dict[Value, str] = {}  # `local` -> memory that the threads use one after another
        self.masks: dict[Branch, str] = {}  # branch -> one byte per thread: whether the thread takes the branch
        # branch -> start and end of a range of whole warps that contains all threads that take the branch, i64
        self.ranges: dict[Branch, tuple[str, str]] = {}
        self.sites: list[str] = []  # names of the synchronization points that may fail
        self.gone = ""  # one byte per thread: whether the thread has left the kernel
        self.block_number = ""  # i64
        self.linear = ""  # number of the current thread, i64
        self.here: set[Value] = set()  # values that are available in the open run

    def array(self, bytes_each: int) -> str:
        """Reserve an array with `bytes_each` bytes per thread, and return the name of its pointer."""
        name = f"%array{len(self.arrays)}"
        self.arrays.append((name, bytes_each))
        return name

    def array_of(self, value: Value, bytes_each: int) -> str:
        """Return the array that holds a value or variable of each thread.

        The first call for a value reserves the array.
        """
        if value not in self.kept:
            self.kept[value] = self.array(bytes_each)
        return self.kept[value]

    def _arena(self) -> str:
        """Return the code that allocates all arrays of a kernel in one piece of memory.

        If blocks run in step, the code also computes the size of a group.
        """
        before, self.lines = self.lines, []
        threads = self._group() if self.grid_in_step else self.threads
        if self.arrays or self.shared:
            self.declarations["malloc"] = "declare noalias ptr @malloc(i64)"
            many = self.line(f"and i64 {self.line(f'add nuw nsw i64 {threads}, 63')}, -64")
            parts = [(name, self.line(f"mul nuw nsw i64 {many}, {size}")) for name, size in self.arrays]
            parts += [(name, self.line(f"mul nuw nsw i64 %group, {size}")) for _, name, size in self.shared]
            ends = [str(63 + PADDING)]
            for _, size in parts:
                ends.append(self.line(f"add nuw nsw i64 {ends[-1]}, {size}"))
            self.do(f"%arena = call ptr @malloc(i64 {self.line(f'add nuw nsw i64 {ends[-1]}, {PADDING}')})")
            address = self.line("ptrtoint ptr %arena to i64")
            for (name, _), end in zip(parts, ends, strict=False):
                start = self.line(f"and i64 {self.line(f'add i64 {address}, {end}')}, -64")
                offset = self.line(f"sub nuw nsw i64 {start}, {address}")
                self.do(f"{name} = getelementptr inbounds i8, ptr %arena, i64 {offset}")
        text, self.lines = "\n".join(self.lines), before
        return text

    def _group(self) -> str:
        """Emit code that computes how many blocks run together as a group. Return the LLVM name of the group's thread count.

        A group is a single block if a warp could contain threads of two blocks.
        """
        blocks = self.line("sub nuw nsw i64 %end, %begin")
        total = self.line(f"mul nuw nsw i64 {self.block_threads}, {sum(size for _, size in self.arrays)}")
        for _, _, size in self.shared:
            total = self.line(f"add nuw nsw i64 {total}, {size}")
        fits = self.line(f"udiv i64 {IN_CACHE}, {self.call('llvm.umax.i64', 'i64', [('i64', total), ('i64', '1')])}")
        if self.split.strict or any(o.opcode in WARP for o in self.kernel.walk()):
            whole = self.line(f"icmp eq i64 {self.line(f'and i64 {self.block_threads}, 31')}, 0")
            fits = self.line(f"select i1 {whole}, i64 {fits}, i64 1")
        fits = self.call("llvm.umax.i64", "i64", [("i64", fits), ("i64", "1")])
        if not (self.arrays or self.shared):
            fits = blocks
        self.do(f"%group = call i64 @llvm.umin.i64(i64 {fits}, i64 {blocks})")
        self.declare("llvm.umin.i64", "i64", ["i64", "i64"])
        return self.line(f"mul nuw nsw i64 %group, {self.block_threads}")

    def reserve_shared_arrays(self) -> None:
        """Reserve shared memory for each block of a group."""
        for o in self.kernel.walk():
            if o.opcode == "shared":
                self.dialect.shared.append(o)
                size = str(-(-o.attributes["count"] * o.results[0].element.itemsize // 64) * 64)
            elif o.opcode == "dynamic_shared" and all(other.opcode != o.opcode for other, _, _ in self.shared):
                size = self.line(f"and i64 {self.line(f'add nuw nsw i64 {self.dialect.shared_bytes}, 63')}, -64")
            else:
                continue
            self.shared.append((o, f"%shared{len(self.shared)}", size))

    def slot(self, array: str, kind: str, number: str = "", count: int = 1) -> str:
        """Emit code that computes the address of a thread's `count` elements in `array`.

        `number` is the thread's number, by default that of the current thread.
        """
        index = number or self.linear
        if count != 1:
            index = self.line(f"mul nuw nsw i64 {index}, {count}")
        return self.line(f"getelementptr inbounds {kind}, ptr {array}, i64 {index}")

    def load_value(self, value: Value, array: str, number: str = "") -> str:
        """Emit a load of a thread's value from `array`, an array that contains one element for each thread.

        `number` is the thread's number, by default that of the current thread.
        """
        kind, size = memory_of(value)
        text = self.line(f"load {kind}, ptr {self.slot(array, kind, number)}, align {size}{NOTE}")
        return text if isinstance(value.type, Pointer) else self.as_value(text, value.type, 0)

    def store_value(self, value: Value, array: str) -> None:
        """Emit a store of a value to the current thread's element of `array`."""
        (kind, size), text = memory_of(value), self.scalar_of(value)
        text = text if isinstance(value.type, Pointer) else self.as_memory(text, value.type, 0)
        self.do(f"store {kind} {text}, ptr {self.slot(array, kind)}, align {size}{NOTE}")

    def load_byte(self, array: str, thread: str = "", note: str = "") -> str:
        """Emit a load of a thread's byte from `array`, an array that contains one byte for each thread."""
        return self.line(f"load i8, ptr {self.slot(array, 'i8', thread)}, align 1{note}")

    def clear(self, address: str, nbytes: str, byte: int = 0) -> None:
        """Emit code that sets bytes of memory to a value."""
        self.call("llvm.memset.p0.i64", "void", [("ptr", address), ("i8", str(byte)), ("i64", nbytes), ("i1", "false")])
