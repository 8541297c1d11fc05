"""Explicit kernels on the host, threads as loops: one loop over the threads of a block for every run between meetings.

In: a kernel after the passes, and how it is split. Out: the text of a module. Always true: a value that crosses from one
run to another lies in an array with an element a thread, written where it is computed; a variable that outlives a
run is read from its array when a run begins and written back when it ends.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from weft.codegen.kernel_ir.operation import MEETINGS, Block, Kernel, Operation, Pointer, Value
from weft.codegen.llvm.emit import Emitter, Item, memory_type, scalar_type
from weft.codegen.llvm.emit_memory import array_alignment
from weft.codegen.llvm.host_exchange import (
    fold_halves,
    fold_next,
    folded_type,
    from_folded,
    source_lane,
    to_folded,
)
from weft.codegen.llvm.host_grid import GROUP, GridDialect, counted, finish, thread_loops
from weft.codegen.passes.split_at_meetings import Run, Split
from weft.codegen.target import Target

NOTE = f", !llvm.access.group {GROUP}"


class SplitEmitter(Emitter):
    """Emits steps where there are any, else operations one after another."""

    dialect: GridDialect

    def __init__(self, kernel: Kernel, dialect: GridDialect, split: Split) -> None:
        super().__init__(kernel, dialect)
        self.split = split
        self.threads = ""  # of a block, i64
        self.arrays: list[tuple[str, int]] = []  # name, bytes a thread
        self.kept: dict[Value, str] = {}  # value or `local` -> its array
        self.mail: dict[Operation, str] = {}  # meeting -> what threads bring
        self.told: dict[Operation, list[str]] = {}  # meeting -> what its warps are told
        self.own: dict[Value, str] = {}  # `local` -> memory that threads use in turn
        self.gone = ""  # a byte a thread: whether it has left the kernel
        self.linear = ""  # the thread's number, i64
        self.here: set[Value] = set()  # values of the run that is open

    # -- the module -----------------------------------------------------------------------------

    def emit(self) -> str:
        """The entry, and what it needs."""
        dialect = self.dialect
        dialect.begin(self)
        dialect.reserve_shared(self)
        self.metadata += ["!1 = distinct !{}", '!2 = !{!"llvm.loop.parallel_accesses", !1}']
        sizes = [dialect.read_slot(self, len(self.kernel.parameters) + 3 + axis) for axis in range(3)]
        plane = self.line(f"mul nuw nsw i64 {sizes[0]}, {sizes[1]}")
        self.threads = self.line(f"mul nuw nsw i64 {plane}, {sizes[2]}")
        at = len(self.lines)
        self.lines.append("")
        if self.split.uniform.returns and any(run.late for run in self.split.runs()):
            self.gone = self.array(1)
        with counted(self, "i64", "%begin", "%end") as block:
            dialect.place_block(self, block)
            if self.gone:
                self.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
                self.do(f"call void @llvm.memset.p0.i64(ptr {self.gone}, i8 0, i64 {self.threads}, i1 false)")
            self.block(self.kernel.body)
        if self.arrays:
            self.declare("free", "void", ["ptr"])
            self.do("call void @free(ptr %arena)")
            dialect.symbols |= {"malloc", "free"}
        self.lines[at] = self._arena()
        self.close_function("ret void")
        finish(self, dialect)
        return self.text()

    def array(self, bytes_each: int) -> str:
        """Memory with so many bytes a thread."""
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

    # -- steps ----------------------------------------------------------------------------------

    def block(self, block: Block) -> list[Value]:
        """Steps, or operations of a run."""
        steps = self.split.steps.get(block)
        if steps is None:
            return super().block(block)
        for step in steps:
            if isinstance(step, Run):
                self.run(step)
            elif step.opcode in MEETINGS:
                self.meet(step)
            else:
                self.operation(step)
        last = block.operations[-1] if block.operations else None
        return list(last.operands) if last is not None and last.opcode == "yield" else []

    def operation(self, operation: Operation) -> None:
        """One operation; `local` has its place, and what all threads have left is not begun again."""
        if operation.opcode == "local" and operation.results[0] in self.split.places:  # else it is a function's
            self.place(operation.results[0])
        elif operation.opcode == "repeat" and self.gone and operation.regions[0] in self.split.steps:
            self.repeat_while_any(operation)
        elif operation.opcode == "leave" and self.gone and self.linear and operation in self.split.uniform.apart:
            if operation.attributes["label"] == self.split.uniform.exit:
                self.do(f"store i8 1, ptr {self.slot(self.gone, 'i8')}, align 1")
            super().operation(operation)
        else:
            super().operation(operation)

    def place(self, root: Value) -> None:
        """Memory of a `local` that all threads have in common; a run places those of its own."""
        if root in self.split.common and root not in self.environment:
            self.local(self.split.places[root])

    def repeat_while_any(self, operation: Operation) -> None:
        """A `repeat` around meetings that ends when every thread has left the kernel."""
        number = self.fresh_number()
        exit_label = self.split.uniform.exit
        target = next(behind for label, behind in self.scopes if label == exit_label)
        self.do(f"br label %again{number}")
        self.start_label(f"again{number}")
        self.block(operation.regions[0])
        staying = self.alloca("i64", 8)
        self.do(f"store i64 0, ptr {staying}, align 8")
        with counted(self, "i64", "0", self.threads) as thread:
            byte = self.line(f"load i8, ptr {self.line(f'getelementptr inbounds i8, ptr {self.gone}, i64 {thread}')}")
            stays = self.line(f"zext i1 {self.line(f'icmp eq i8 {byte}, 0')} to i64")
            before = self.line(f"load i64, ptr {staying}, align 8")
            self.do(f"store i64 {self.line(f'add i64 {before}, {stays}')}, ptr {staying}, align 8")
        total = self.line(f"load i64, ptr {staying}, align 8")
        some = self.line(f"icmp ne i64 {total}, 0")
        self.do(f"br i1 {some}, label %again{number}, label %{target}")
        self.start_label(f"never{number}")

    # -- runs -----------------------------------------------------------------------------------

    def run(self, run: Run) -> None:
        """One run of every thread of the block."""
        number = self.fresh_number()
        with thread_loops(self, self.dialect):
            kind = scalar_type(self.kernel.index_dtype)
            linear = self.dialect.linear
            self.linear = linear if kind == "i64" else self.line(f"zext nneg i32 {linear} to i64")
            self.here = set()
            if self.gone and run.late:
                byte = self.line(f"load i8, ptr {self.slot(self.gone, 'i8')}, align 1{NOTE}")
                there = self.line(f"icmp eq i8 {byte}, 0")
                self.do(f"br i1 {there}, label %here{number}, label %done{number}")
                self.start_label(f"here{number}")
            touched = self.split.touched(run)
            for root in touched:
                self.open_variable(root, run)
            self.dialect.give_context(self)
            for operation in run.receives:
                self.receive(operation)
            self.obtain_all((*run.operations, *run.sends))
            self.scopes.append((self.split.uniform.exit or "", f"done{number}"))
            for operation in run.operations:
                self.operation(operation)
                self.keep(operation.results)
            for operation in run.sends:
                self.send(operation)
            for root in touched:
                self.close_variable(root, run)
            self.scopes.pop()
            self.do(f"br label %done{number}")
            self.start_label(f"done{number}")
            self.linear = ""

    def slot(self, array: str, kind: str, number: str = "", count: int = 1) -> str:
        """Where a thread's element of an array lies; without a number that of the thread of the run."""
        index = number or self.linear
        if count != 1:
            index = self.line(f"mul nuw nsw i64 {index}, {count}")
        return self.line(f"getelementptr inbounds {kind}, ptr {array}, i64 {index}")

    def open_variable(self, root: Value, run: Run) -> None:
        """Give a `local` its place in this run."""
        split = self.split
        dtype, count = self.element_type(root), split.places[root].attributes["count"]
        kind = memory_type(dtype)
        if root in split.kept and root not in split.single:
            array = self.kept.setdefault(root, "") or self.array(count * dtype.itemsize)
            self.kept[root] = array
            self.environment[root] = Item(self.slot(array, kind, count=count))
            return
        if root not in self.own:
            type_name = kind if count == 1 else f"[{count} x {kind}]"
            self.own[root] = self.alloca(type_name, array_alignment(dtype, count))
        place = self.own[root]
        self.environment[root] = Item(place)
        self.dialect.own.add(root)
        if count != 1:
            self.declare("llvm.lifetime.start.p0", "void", ["ptr"])
            self.do(f"call void @llvm.lifetime.start.p0(ptr {place})")
        elif not split.begins_with_store(run, root):
            text = "0.0" if dtype.kind == "f" else "0"
            if root in split.kept:
                array = self.kept.get(root) or self.array(dtype.itemsize)
                self.kept[root] = array
                text = self.line(f"load {kind}, ptr {self.slot(array, kind)}, align {dtype.itemsize}{NOTE}")
            self.do(f"store {kind} {text}, ptr {place}, align {dtype.itemsize}")

    def close_variable(self, root: Value, run: Run) -> None:
        """Keep a variable for the runs that follow."""
        split = self.split
        if root not in split.kept or root not in split.single:
            return
        if not any(o.opcode == "store" and o.operands[0] is root for o in run.everything()):
            return
        dtype = self.element_type(root)
        kind = memory_type(dtype)
        array = self.kept.get(root) or self.array(dtype.itemsize)
        self.kept[root] = array
        text = self.line(f"load {kind}, ptr {self.own[root]}, align {dtype.itemsize}")
        self.do(f"store {kind} {text}, ptr {self.slot(array, kind)}, align {dtype.itemsize}{NOTE}")

    # -- values of other runs -------------------------------------------------------------------

    def obtain_all(self, operations: Iterable[Operation]) -> None:
        """Make the values of other runs known that these operations use."""
        operations = list(operations)
        made = {v for o in operations for v in o.results}
        stack = list(reversed(operations))
        while stack:
            operation = stack.pop()
            for value in operation.operands:
                if value not in made:
                    self.obtain(value)
            for region in operation.regions:
                stack.extend(region.operations)

    def obtain(self, value: Value) -> None:
        """Make a value of another run known: read it, or compute it again."""
        maker = self.split.maker.get(value)
        if maker is None or value in self.here or value in self.split.places:
            return
        self.here.add(value)
        if value in self.split.crossing:
            kind, size = _memory(value)
            array = self.kept.get(value) or self.array(size)
            self.kept[value] = array
            text = self.line(f"load {kind}, ptr {self.slot(array, kind)}, align {size}{NOTE}")
            if not isinstance(value.type, Pointer) and value.type.kind == "b":
                text = self.line(f"trunc i8 {text} to i1")
            self.environment[value] = Item(text)
            return
        for operand in maker.operands:
            self.obtain(operand)
        super().operation(maker)

    def keep(self, values: Iterable[Value]) -> None:
        """Values of this run; those that cross are written down."""
        for value in values:
            self.here.add(value)
            if value not in self.split.crossing:
                continue
            kind, size = _memory(value)
            array = self.kept.get(value) or self.array(size)
            self.kept[value] = array
            text = self.scalar_of(value)
            if not isinstance(value.type, Pointer) and value.type.kind == "b":
                text = self.line(f"zext i1 {text} to i8")
            self.do(f"store {kind} {text}, ptr {self.slot(array, kind)}, align {size}{NOTE}")

    # -- meetings -------------------------------------------------------------------------------

    def send(self, operation: Operation) -> None:
        """Write down what the thread brings to a meeting."""
        value = operation.operands[0 if operation.opcode in ("shuffle_xor", "barrier_vote") else 1]
        kind, size = _memory(value)
        array = self.mail.get(operation) or self.array(size)
        self.mail[operation] = array
        text = self.scalar_of(value)
        if isinstance(value.type, np.dtype) and value.type.kind == "b":
            text = self.line(f"zext i1 {text} to i8")
        self.do(f"store {kind} {text}, ptr {self.slot(array, kind)}, align {size}{NOTE}")

    def there(self, operation: Operation, thread: str, gone: str = "") -> str:
        """Whether a thread takes part in a meeting (i1): it has not left before."""
        if operation not in self.split.uniform.late:
            return "true"
        byte = self.line(f"load i8, ptr {self.slot(gone or self.gone, 'i8', thread)}, align 1")
        return self.line(f"icmp eq i8 {byte}, 0")

    def meet(self, operation: Operation) -> None:
        """What is worked out when all have arrived."""
        match operation.opcode:
            case "barrier_vote":
                self.count_votes(operation)
            case "vote":
                self.collect_ballots(operation)
            case "warp_reduce":
                self.fold_warps(operation)
            case "shuffle" | "shuffle_xor" if operation in self.split.uniform.late:
                # who takes part is settled now: the run that takes the values may have threads that leave
                (array,) = self.tell(operation, (1,))
                self.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
                self.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {array}, ptr {self.gone}, i64 {self.threads}, i1 false)")
            case _:
                pass  # the end of the loop over the threads is all

    def count_votes(self, operation: Operation) -> None:
        """Votes of a block."""
        votes, members = self.alloca("i32", 4), self.alloca("i32", 4)
        for place in (votes, members):
            self.do(f"store i32 0, ptr {place}, align 4")
        with counted(self, "i64", "0", self.threads) as thread:
            vote = self.line(f"load i8, ptr {self.slot(self.mail[operation], 'i8', thread)}, align 1")
            takes_part = self.line(f"zext i1 {self.there(operation, thread)} to i32")
            counts = self.line(f"and i32 {self.line(f'zext i8 {vote} to i32')}, {takes_part}")
            self.increase(votes, counts)
            self.increase(members, takes_part)
        count = self.line(f"load i32, ptr {votes}, align 4")
        kind = operation.attributes["kind"]
        if kind != "count":
            whole = self.line(f"load i32, ptr {members}, align 4")
            held = self.line(f"icmp eq i32 {count}, {whole}" if kind == "and" else f"icmp ne i32 {count}, 0")
            count = self.line(f"zext i1 {held} to i32")
        self.set(operation, Item(count))

    def increase(self, place: str, by: str) -> None:
        """Add to a number in memory."""
        before = self.line(f"load i32, ptr {place}, align 4")
        self.do(f"store i32 {self.line(f'add i32 {before}, {by}')}, ptr {place}, align 4")

    def tell(self, operation: Operation, sizes: tuple[int, ...]) -> list[str]:
        """Arrays for what a meeting tells each warp."""
        if operation not in self.told:
            self.told[operation] = [self.array(size) for size in sizes]
        return self.told[operation]

    def collect_ballots(self, operation: Operation) -> None:
        """Bit k of a warp's ballot: what its lane k voted; bit k of its members: whether there is one."""
        arrays = self.tell(operation, (4, 4))
        with counted(self, "i64", "0", self.warps()) as warp:
            bits = [self.alloca("i32", 4), self.alloca("i32", 4)]
            for place in bits:
                self.do(f"store i32 0, ptr {place}, align 4")
            with self.lanes_of(warp) as (thread, lane):
                vote = self.line(f"load i8, ptr {self.slot(self.mail[operation], 'i8', thread)}, align 1")
                takes_part = self.line(f"zext i1 {self.there(operation, thread)} to i32")
                counts = self.line(f"and i32 {self.line(f'zext i8 {vote} to i32')}, {takes_part}")
                for place, bit in zip(bits, (counts, takes_part), strict=True):
                    self.increase(place, self.line(f"shl i32 {bit}, {lane}"))
            for array, place in zip(arrays, bits, strict=True):
                text = self.line(f"load i32, ptr {place}, align 4")
                self.do(f"store i32 {text}, ptr {self.slot(array, 'i32', warp)}, align 4")

    def fold_warps(self, operation: Operation) -> None:
        """The values of each warp in one: of a whole warp by halves, else from the lowest lane up."""
        dtype = operation.operands[1].type
        assert isinstance(dtype, np.dtype)
        name, wide = operation.attributes["kind"], folded_type(dtype)
        kind, size = scalar_type(wide), wide.itemsize
        (array,) = self.tell(operation, (dtype.itemsize,))

        def read(thread: str) -> str:
            place = self.slot(self.mail[operation], scalar_type(dtype), thread)
            return to_folded(self, self.line(f"load {scalar_type(dtype)}, ptr {place}, align {dtype.itemsize}"), dtype)

        with counted(self, "i64", "0", self.warps()) as warp:
            number = self.fresh_number()
            total, some, members = self.alloca(kind, size), self.alloca("i1", 1), self.alloca("i32", 4)
            first = self.line(f"shl nuw nsw i64 {warp}, 5")
            self.do(f"store i1 false, ptr {some}, align 1")
            self.do(f"store i32 0, ptr {members}, align 4")
            with self.lanes_of(warp) as (thread, _):
                self.increase(members, self.line(f"zext i1 {self.there(operation, thread)} to i32"))
            whole = self.line(f"icmp eq i32 {self.line(f'load i32, ptr {members}, align 4')}, 32")
            self.do(f"br i1 {whole}, label %whole{number}, label %part{number}")
            self.start_label(f"whole{number}")
            values = [read(self.line(f"add nuw nsw i64 {first}, {lane}")) for lane in range(32)]
            self.do(f"store {kind} {fold_halves(self, name, wide, values)}, ptr {total}, align {size}")
            self.do(f"br label %folded{number}")
            self.start_label(f"part{number}")
            with self.lanes_of(warp) as (thread, _):
                fold_next(self, name, wide, (total, some), read(thread), self.there(operation, thread))
            self.do(f"br label %folded{number}")
            self.start_label(f"folded{number}")
            text = from_folded(self, self.line(f"load {kind}, ptr {total}, align {size}"), dtype)
            place = self.slot(array, scalar_type(dtype), warp)
            self.do(f"store {scalar_type(dtype)} {text}, ptr {place}, align {dtype.itemsize}")

    def warps(self) -> str:
        """The number of warps of a block."""
        return self.line(f"lshr i64 {self.line(f'add nuw nsw i64 {self.threads}, 31')}, 5")

    def lanes_of(self, warp: str) -> _Lanes:
        """A loop over the threads of a warp."""
        return _Lanes(self, warp)

    def receive(self, operation: Operation) -> None:
        """What a thread takes from a meeting."""
        self.obtain_all([operation])
        match operation.opcode:
            case "vote":
                text = self.hear_vote(operation)
            case "warp_reduce":
                dtype = operation.results[0].type
                assert isinstance(dtype, np.dtype)
                text = self.hear(self.told[operation][0], scalar_type(dtype), dtype.itemsize)
            case _:
                text = self.hear_lane(operation)
        self.set(operation, Item(text))
        self.keep(operation.results)

    def hear(self, array: str, kind: str, size: int) -> str:
        """What the thread's warp was told."""
        warp = self.line(f"lshr i64 {self.linear}, 5")
        return self.line(f"load {kind}, ptr {self.slot(array, kind, warp)}, align {size}{NOTE}")

    def hear_vote(self, operation: Operation) -> str:
        """The result of `vote`."""
        ballots, members = self.told[operation]
        ballot = self.hear(ballots, "i32", 4)
        kind = operation.attributes["kind"]
        if kind == "ballot":
            return ballot
        none = self.line(f"icmp eq i32 {ballot}, 0")
        if kind == "any":
            return self.line(f"xor i1 {none}, true")
        every = self.line(f"icmp eq i32 {ballot}, {self.hear(members, 'i32', 4)}")
        return every if kind == "all" else self.line(f"or i1 {every}, {none}")

    def hear_lane(self, operation: Operation) -> str:
        """The result of a shuffle: the value of another lane if there is one, else the thread's own."""
        if operation.opcode == "shuffle_xor":
            value, other, mode, width = operation.operands[0], str(operation.attributes["mask"]), "xor", 32
        else:
            value, other = operation.operands[1], self.scalar_of(operation.operands[2])
            mode, width = operation.attributes["mode"], operation.attributes.get("width", 32)
        lane = self.line(f"and i32 {self.line(f'trunc i64 {self.linear} to i32')}, 31")
        source, inside = source_lane(self, mode, width, lane, other)
        away = self.line(f"sext i32 {self.line(f'sub i32 {source}, {lane}')} to i64")
        thread = self.line(f"add nsw i64 {self.linear}, {away}")
        exists = self.line(f"icmp ult i64 {thread}, {self.threads}")
        take = self.line(f"and i1 {inside}, {exists}")
        safe = self.line(f"select i1 {take}, i64 {thread}, i64 {self.linear}")
        if operation in self.split.uniform.late:
            there = self.there(operation, safe, self.told[operation][0])
            safe = self.line(f"select i1 {there}, i64 {safe}, i64 {self.linear}")
        kind, size = _memory(value)
        text = self.line(f"load {kind}, ptr {self.slot(self.mail[operation], kind, safe)}, align {size}{NOTE}")
        if isinstance(value.type, np.dtype) and value.type.kind == "b":
            return self.line(f"trunc i8 {text} to i1")
        return text


class _Lanes:
    """``with`` gives the number of a thread and its lane (i32), for every thread of a warp."""

    def __init__(self, emitter: SplitEmitter, warp: str) -> None:
        first = emitter.line(f"shl nuw nsw i64 {warp}, 5")
        behind = emitter.line(f"add nuw nsw i64 {first}, 32")
        few = emitter.line(f"icmp slt i64 {emitter.threads}, {behind}")
        stop = emitter.line(f"select i1 {few}, i64 {emitter.threads}, i64 {behind}")
        self.emitter = emitter
        self.loop = counted(emitter, "i64", first, stop)

    def __enter__(self) -> tuple[str, str]:
        thread = self.loop.__enter__()
        narrow = self.emitter.line(f"trunc i64 {thread} to i32")
        return thread, self.emitter.line(f"and i32 {narrow}, 31")

    def __exit__(self, *error: object) -> None:
        self.loop.__exit__(None, None, None)


def _memory(value: Value) -> tuple[str, int]:
    """How a value lies in an array: its LLVM type and its bytes."""
    if isinstance(value.type, Pointer):
        return "ptr", 8
    return memory_type(value.type), value.type.itemsize


def emit_split(kernel: Kernel, target: Target, split: Split) -> tuple[str, set[str]]:
    """LLVM text of a kernel whose threads are loops, and the outside symbols it calls."""
    dialect = GridDialect(target)
    text = SplitEmitter(kernel, dialect, split).emit()
    return text, dialect.symbols
