"""Emission of threaded kernels for the host CPU, as loops over threads.

In: a kernel after the passes, and its `BarrierSplit`. Out: the text of a module. Invariant: a value that passes from
one run (the code between two synchronization points) to another is in an array with one element per thread, written
where it is computed. Cheap values are recomputed instead. A variable that outlives a run is in such an array, too. If
possible, a run loads the variable from its array at the start and stores it at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext

from weft.codegen.kernel_ir.operation import SYNCHRONIZATION, Block, Kernel, Operation, Value
from weft.codegen.llvm.emit import Item, memory_type, scalar_type
from weft.codegen.llvm.emit_memory import array_alignment
from weft.codegen.llvm.host_bounds import first_multiple, thread_range
from weft.codegen.llvm.host_grid import GridDialect, Range, finish, range_loop, thread_loops
from weft.codegen.llvm.host_polls import BLOCK
from weft.codegen.llvm.host_private_arrays import PrivateArrays
from weft.codegen.llvm.host_scheduler import POISON
from weft.codegen.llvm.host_split_arrays import NOTE, memory_of
from weft.codegen.llvm.host_split_barriers import BarrierEmitter
from weft.codegen.passes.find_guards import GuardFinder, RunGuards
from weft.codegen.passes.find_merged_axis import can_merge_blocks
from weft.codegen.passes.index_steps import program_order
from weft.codegen.passes.split_at_barriers import BarrierSplit, Run
from weft.codegen.target import Target

LONGEST_STRIDE = 64  # maximum number of bytes between the accesses of adjacent threads of merged blocks
MOST_MERGED = 1 << 16  # approximate maximum number of threads of merged blocks, between two interrupt polls


class SplitEmitter(BarrierEmitter):
    """Emitter of a kernel that is split at its synchronization points into loops over threads."""

    def __init__(self, kernel: Kernel, dialect: GridDialect, split: BarrierSplit) -> None:
        super().__init__(kernel, dialect, split)
        self.blocks = "%begin", "%end"  # the blocks that run in step, or those of the call
        self.merges = False  # whether adjacent blocks run as one block in the open run
        if not self.grid_in_step and len(split.runs()) == 1:
            self.merges = self.merges_blocks(split.runs()[0])
        self.private = PrivateArrays(kernel)
        self.guards = GuardFinder(kernel, split)
        self.settled: dict[Value, bool] = {}  # comparisons whose results are the same in all threads of the open run

        axes = {o.attributes.get("axis", 0) for o in kernel.walk() if o.opcode == "thread_index"}
        self.one_row = split.axis == 0 and axes <= {0}  # whether a row of threads is probably the whole block
        self.span = ("0", "0")  # with merged blocks: the first position along the axis, and the one after the last

    # -- the module -----------------------------------------------------------------------------

    def emit(self) -> str:
        """Emit the module of a kernel, and return its LLVM text."""
        dialect = self.dialect
        dialect.begin(self)
        if not self.grid_in_step:
            dialect.reserve_shared(self)
        self.metadata += [
            "!1 = distinct !{}",
            '!2 = !{!"llvm.loop.parallel_accesses", !1}',
            '!3 = !{!"llvm.loop.interleave.count", i32 1}',
            '!4 = !{!"llvm.loop.unroll.disable"}',
        ]
        sizes = [dialect.read_slot(self, len(self.kernel.parameters) + 3 + axis) for axis in range(3)]
        plane = self.line(f"mul nuw nsw i64 {sizes[0]}, {sizes[1]}")
        self.block_threads = self.threads = self.line(f"mul nuw nsw i64 {plane}, {sizes[2]}")
        blocks = self.line("sub nuw nsw i64 %end, %begin")
        self.private.open(self, self.line(f"mul nuw nsw i64 {blocks}, {self.threads}"))
        if self.grid_in_step:
            self.reserve_shared_arrays()
        at = len(self.lines)
        self.lines.append("")
        if self.split.uniform.returns and any(run.late for run in self.split.runs()):
            self.gone = self.array(1)
        dialect.poll_interrupts(self)
        with self.next_group() if self.grid_in_step else self.next_block(self.merges) as block:
            self.block_number = block
            if dialect.target.schedule is not None and not self.grid_in_step:
                self.poison_shared()
            self.emit_threads()
        if self.sites:
            self.jump("ends")
        self.private.close(self)
        if self.arrays or self.shared:
            self.call("free", "void", [("ptr", "%arena")])
            dialect.symbols |= {"malloc", "free"}
        self.lines[at] = self._arena()
        self.close_function("ret void")
        finish(self, dialect)
        return self.text()

    def emit_threads(self) -> None:
        """Emit the kernel's body as loops over the threads of one block or of several blocks."""
        if self.gone:
            self.clear(self.gone, self.threads)
        self.block(self.kernel.body)
        self.polls.count(BLOCK)

    @contextmanager
    def next_group(self) -> Iterator[str]:
        """Context manager that emits a loop over groups of blocks, and yields the first block of a group."""
        with range_loop(self, "i64", "%begin", "%end", step=lambda: "%group") as first:
            behind = self.line(f"add nuw nsw i64 {first}, %group")
            end = self.call("llvm.umin.i64", "i64", [("i64", behind), ("i64", "%end")])
            self.blocks = first, end
            count = self.line(f"sub nuw nsw i64 {end}, {first}")
            self.threads = self.line(f"mul nuw nsw i64 {count}, {self.block_threads}")
            yield first

    @contextmanager
    def next_block(self, merges: bool) -> Iterator[str]:
        """Context manager that emits a loop over blocks, and yields the number of a block.

        The block indices are set in each iteration. `merges` states whether adjacent blocks run as one block.
        """
        count = "1"
        with range_loop(self, "i64", *self.blocks, step=lambda: count) as block:
            self.dialect.set_block_indices(self, block, self.split.axis)
            if merges:
                count = self.merge_blocks(block)
            yield block

    def merges_blocks(self, run: Run) -> bool:
        """Return whether a single loop over threads covers several blocks when it executes a run (the code between two
        barriers).

        Only blocks of user-written kernels are merged. If blocks do not run in step, `run` must be the only run, and
        its threads must not need arrays with one element per thread. Blocks that access memory with long strides are
        not merged, since a single block reuses cache lines as a tile does (``out[x, y] = a[y, x]``).
        """
        kernel, split = self.kernel, self.split
        user = bool(kernel.attributes.get("explicit")) and self.dialect.target.schedule is None
        if not user or run.branch is not None:
            return False
        if self.grid_in_step:
            operations = [*self.recomputed(run), *run.everything()]
        elif run.again or split.kept or split.crossing:
            return False
        else:
            operations = list(program_order(kernel.body.operations))
        if not can_merge_blocks(kernel, operations, split.axis):
            return False
        strides = self.steps.strides(run.everything())
        return not any(s == "symbolic" or (isinstance(s, int) and abs(s) > LONGEST_STRIDE) for s in strides)

    def recomputed(self, run: Run) -> list[Operation]:
        """Return the operations that a run (the code between two synchronization points) must recompute because it uses
        their results.

        The run recomputes their results. Operations whose results it loads from arrays are not included.
        """
        found: dict[Operation, None] = {}
        stack = [v for o in run.everything() for v in o.operands]
        while stack:
            value = stack.pop()
            maker = self.split.maker.get(value)
            if maker is not None and maker not in found and value not in self.split.crossing:
                found[maker] = None
                stack += maker.operands
        return list(found)

    def merge_blocks(self, block: str) -> str:
        """Emit code that computes how many adjacent blocks, starting with `block`, run together as one block.

        The blocks are adjacent along the axis of the innermost loop over threads. The block index along this axis
        becomes 0, and the thread index becomes the position in the grid. Blocks in step are merged only if they extend
        along no other axis, so that the threads keep their numbers.
        """
        axis, numbers = self.split.axis, self.dialect.numbers
        names = ("block_index", "grid_size", "block_size")
        first, extent, size = (self.widened(numbers[name, axis], "zext nneg") for name in names)
        most = self.line(f"add i64 {self.line(f'udiv i64 {MOST_MERGED}, {size}')}, 1")
        count = self.line(f"sub nuw nsw i64 {self.blocks[1]}, {block}")
        for other in (self.line(f"sub nuw nsw i64 {extent}, {first}"), most):
            count = self.call("llvm.umin.i64", "i64", [("i64", count), ("i64", other)])
        if self.grid_in_step:
            flat = self.line(f"icmp eq i64 {self.block_threads}, {size}")
            count = self.line(f"select i1 {flat}, i64 {count}, i64 1")
        ends = (first, self.line(f"add nuw nsw i64 {first}, {count}"))
        start, stop = (self.narrowed(self.line(f"mul nuw nsw i64 {end}, {size}")) for end in ends)
        self.span = start, stop
        numbers["block_index", axis] = "0"
        return count

    @contextmanager
    def each_thread(self, independent: bool, guards: RunGuards, taken: tuple[str, str] | None = None) -> Iterator[None]:
        """Context manager that emits loops over the threads of a block, or of several blocks that run together.

        `linear` is set to the number of the current thread. Threads outside the bounds of `guards` are skipped. If a
        row of threads is probably a whole block, threads outside `taken` are skipped, too. `taken` is None, or a range
        of thread numbers that contains all threads that take the branch around the run.
        """
        with self.next_block(self.merges) if self.grid_in_step else nullcontext("") as block:
            before = self.threads_before(block) if block else ""
            limits = None
            if guards.bounds or guards.multiples or self.merges or taken is not None:
                limits = self.limits_of(guards, taken, before)
            with thread_loops(self, self.dialect, self.split.axis, independent, limits) as linear:
                linear = self.widened(linear, "zext nneg")
                self.linear = self.line(f"add nsw i64 {before}, {linear}") if block else linear
                yield

    def threads_before(self, block: str) -> str:
        """Emit code that computes the number of threads in the blocks before `block` in a group of blocks.

        If blocks are merged, subtract the first thread index, which need not be 0. Also set the addresses of the
        block's shared memory.
        """
        number = self.line(f"sub nuw nsw i64 {block}, {self.blocks[0]}")
        for operation, array, size in self.shared:
            offset = self.line(f"mul nuw nsw i64 {number}, {size}")
            address = self.line(f"getelementptr inbounds i8, ptr {array}, i64 {offset}")
            if operation.opcode == "dynamic_shared":
                self.dialect.dynamic = address
            else:
                self.set(operation, Item(address))
        before = self.line(f"mul nuw nsw i64 {number}, {self.block_threads}")
        if not self.merges:
            return before
        return self.line(f"sub nsw i64 {before}, {self.widened(self.span[0], 'zext nneg')}")

    def limits_of(self, guards: RunGuards, taken: tuple[str, str] | None, before: str) -> Range:
        """Return a function that emits the bounds of a loop over thread indices. The loop omits threads that `guards` excludes.

        The function takes the axis of the loop, and returns the start, the stop and the step. `taken` is the range of thread
        numbers to which the loop is limited, or None. The number of a thread is `before` plus its number in the block.
        """

        def limits(axis: int) -> tuple[str, str, str]:
            outside, made = dict(self.environment), set[Value]()

            def compute(value: Value) -> str:
                maker = self.guards.makers.get(value)
                if maker is not None and value not in made:
                    made.add(value)
                    for operand in maker.operands:
                        compute(operand)
                    super(SplitEmitter, self).operation(maker)
                return self.scalar_of(value)

            along = [bound for bound in guards.bounds if bound.axis == axis]
            whole = "0", self.dialect.numbers["block_size", axis]
            threads = self.span if self.merges and axis == self.split.axis else whole
            start, stop = thread_range(self, along, threads, compute, self.guards.index.longest)
            if taken is not None and axis == 0 and self.one_row:
                start, stop = self.row_range(taken, before, start, stop)
            step = "1"
            if guards.multiples is not None and axis == self.split.axis:
                start, step = first_multiple(self, start, stop, guards.multiples, compute)
            self.environment = outside
            return start, stop, step

        return limits

    def row_range(self, taken: tuple[str, str], before: str, start: str, stop: str) -> tuple[str, str]:
        """Emit code that limits the range of x indices in the current row of threads.

        Of the indices from `start` to `stop`, those remain whose thread numbers are in the range `taken`.
        """
        kind, numbers = scalar_type(self.kernel.index_dtype), self.dialect.numbers
        y, z = numbers["thread_index", 1], numbers["thread_index", 2]
        plane = self.line(f"mul nuw nsw {kind} {z}, {numbers['block_size', 1]}")
        row = self.line(f"add nuw nsw {kind} {plane}, {y}")
        first = self.widened(self.line(f"mul nuw nsw {kind} {row}, {numbers['block_size', 0]}"), "zext nneg")
        first = self.line(f"add nsw i64 {before}, {first}") if before else first
        ends = [start, stop]
        for k, (end, word) in enumerate(zip(taken, ("smax", "smin"), strict=True)):
            index = self.narrowed(self.line(f"sub nsw i64 {end}, {first}"), "trunc")
            ends[k] = self.call(f"llvm.{word}.{kind}", kind, [(kind, ends[k]), (kind, index)])
        # (an empty range ends where it starts, so that both ends are at least 0)
        return ends[0], self.call(f"llvm.smax.{kind}", kind, [(kind, ends[1]), (kind, ends[0])])

    def poison_shared(self) -> None:
        """Emit code that overwrites the previous block's values in static shared memory."""
        for operation in self.dialect.shared:
            address, size = self.environment[operation.results[0]].text, operation.attributes["count"]
            size *= operation.results[0].element.itemsize
            self.clear(f"align 64 {address}", str(size), POISON)

    # -- steps ----------------------------------------------------------------------------------

    def block(self, block: Block) -> list[Value]:
        """Emit a block, which may contain synchronization points, and return the values that it yields."""
        steps = self.split.steps.get(block)
        if steps is None:
            return super().block(block)
        for step in steps:
            if isinstance(step, Run):
                self.run(step)
            elif step.opcode in SYNCHRONIZATION:
                self.combine_contributions(step)
            elif step in self.split.in_step:
                self.branch_in_step(step)
            else:
                self.operation(step)
        last = block.operations[-1] if block.operations else None
        return list(last.operands) if last is not None and last.opcode == "yield" else []

    def operation(self, operation: Operation) -> None:
        """Emit an operation that is not a synchronization point.

        A `leave` that exits the kernel records that the thread has left. A `repeat` with synchronization points ends
        when all its threads have left the kernel.
        """
        # a `local` outside `local_operations` belongs to a function
        if operation.results and operation.results[0] in self.settled:
            self.set(operation, Item("true" if self.settled[operation.results[0]] else "false"))
        elif operation.opcode == "local" and operation.results[0] in self.split.local_operations:
            # all threads of the block share a variable that is `common`
            if operation.results[0] in self.split.common and operation.results[0] not in self.environment:
                self.local(operation)
        elif operation.opcode == "atomic" and self.private.update(self, operation):
            pass
        elif operation.opcode == "repeat" and self.gone and operation.regions[0] in self.split.steps:
            self.repeat_while_any(operation)
        elif operation.opcode == "leave" and self.gone and self.linear:
            if operation.attributes["label"] == self.split.uniform.exit:
                self.do(f"store i8 1, ptr {self.slot(self.gone, 'i8')}, align 1")
            super().operation(operation)
        else:
            super().operation(operation)

    def repeat_while_any(self, operation: Operation) -> None:
        """Emit a loop that contains synchronization points. The loop repeats until all threads that entered it have returned from the kernel."""
        number = self.fresh_number()
        branch = self.split.branches[operation]
        self.jump(f"again{number}")
        self.block(operation.regions[0])
        self.polls.count(1)
        staying = self.variable("i32", "0")
        with range_loop(self, "i64", "0", self.threads) as thread:
            stays = self.line(f"icmp eq i8 {self.load_byte(self.gone, thread)}, 0")
            if branch is not None:
                taken = self.load_byte(self.masks[branch], thread)
                stays = self.line(f"and i1 {stays}, {self.line(f'icmp ne i8 {taken}, 0')}")
            self.increase(staying, self.line(f"zext i1 {stays} to i32"))
        some = self.line(f"icmp ne i32 {self.line(f'load i32, ptr {staying}, align 4')}, 0")
        self.fork(some, f"again{number}", f"never{number}", f"never{number}")

    def branch_in_step(self, operation: Operation) -> None:
        """Emit an `if` that contains synchronization points. Before each region, emit a branch that skips the region if no thread enters it."""
        for k, region in enumerate(operation.regions):
            if not self.split.steps[region]:
                continue
            self.find_range((operation, k))
            with self.when(self.line(f"icmp ne i64 {self.ranges[operation, k][1]}, 0")):
                self.block(region)

    # -- runs -----------------------------------------------------------------------------------

    def run(self, run: Run) -> None:
        """Emit the code between two synchronization points (a *run*) as loops over threads."""
        for operation in run.sends:
            if operation in self.split.in_step:
                self.clear_masks(operation)
        arrays = [root for root in self.split.touched(run) if root not in self.split.single]
        stores = (o for o in run.everything() if o.opcode == "store")
        # vector instructions that scatter elements are slower than single stores
        independent = self.steps.have_simple_strides(run.everything(), arrays) and "symbolic" not in self.steps.strides(
            stores
        )
        if self.grid_in_step:
            self.merges = self.merges_blocks(run)
        self.vectorizes = all(o.opcode not in ("atomic", "atomic_cas") for o in run.everything())
        self.guards.merged = self.split.axis if self.merges else None
        guards = self.guards.find(run, exits=bool(self.gone))
        for part in [guards] if guards.bounds or guards.multiples else self.guards.divide(run) or [guards]:
            self.settled = part.settled
            with self.each_thread(independent, part, self.ranges.get(run.branch) if run.branch else None):
                self.emit_thread(run, part, f"done{self.fresh_number()}")
        self.settled, self.vectorizes = {}, False

    def emit_thread(self, run: Run, guards: RunGuards, done: str) -> None:
        """Emit the code that one thread executes between two barriers. The code ends at the label `done`."""
        self.here = set()
        masks = [(self.gone, "eq")] if self.gone and run.late else []
        if run.branch is not None and not guards.entered:
            masks.append((self.masks[run.branch], "ne"))
        for k, (array, word) in enumerate(masks):
            there = self.line(f"icmp {word} i8 {self.load_byte(array, note=NOTE)}, 0")
            self.fork(there, f"{done}.{k}", done)
        touched = self.split.touched(run)
        for root in touched:
            self.open_variable(root, run)
        self.dialect.declare_context(self)
        for operation in run.receives:
            for value in operation.operands[2:]:
                self.make_available(value)
            self.load_result(operation)
            self.store_values(operation.results)
        self.make_all_available(run.operations)
        made = {v for o in run.operations for v in o.results}
        for value in (v for o in run.sends for v in o.operands if v not in made):
            self.make_available(value)
        self.scopes.append((self.split.uniform.exit or "", done))
        for operation in run.operations:
            self.operation(operation)
            self.store_values(operation.results)
        for operation in run.sends:
            self.store_contribution(operation)
        for root in touched:
            self.close_variable(root, run)
        self.scopes.pop()
        self.jump(done)
        self.linear = ""

    def open_variable(self, root: Value, run: Run) -> None:
        """Emit code that, after a barrier, creates or restores a thread's variable. The code up to the next barrier uses it."""
        split = self.split
        dtype, count = root.element, split.local_operations[root].attributes["count"]
        kind = memory_type(dtype)
        if root in split.kept and root not in split.single:
            array = self.array_of(root, count * dtype.itemsize)
            self.environment[root] = Item(self.slot(array, kind, count=count))
            return
        if root not in self.own:
            type_name = kind if count == 1 else f"[{count} x {kind}]"
            self.own[root] = self.alloca(type_name, array_alignment(dtype, count))
        address = self.own[root]
        self.environment[root] = Item(address)
        self.dialect.own.add(root)
        if count != 1:
            self.call("llvm.lifetime.start.p0", "void", [("ptr", address)])
        elif not split.begins_with_store(run, root):
            text = "zeroinitializer"
            if root in split.kept:
                address_of_kept = self.slot(self.array_of(root, dtype.itemsize), kind)
                text = self.line(f"load {kind}, ptr {address_of_kept}, align {dtype.itemsize}{NOTE}")
            self.do(f"store {kind} {text}, ptr {address}, align {dtype.itemsize}")

    def close_variable(self, root: Value, run: Run) -> None:
        """Emit code that saves a thread's variable at a barrier, so that the code after the barrier can load it.

        A variable is saved only if it may have changed and other code needs it. Variables that stay in their arrays need no store.
        """
        split = self.split
        if root not in split.kept or root not in split.single:
            return
        if not any(o.opcode == "store" and o.operands[0] is root for o in run.everything()):
            return
        dtype = root.element
        kind, array = memory_type(dtype), self.array_of(root, dtype.itemsize)
        text = self.line(f"load {kind}, ptr {self.own[root]}, align {dtype.itemsize}")
        self.do(f"store {kind} {text}, ptr {self.slot(array, kind)}, align {dtype.itemsize}{NOTE}")

    # -- values of other runs -------------------------------------------------------------------

    def make_all_available(self, operations: Iterable[Operation]) -> None:
        """If operands of `operations` are not available after a barrier, emit code that loads or recomputes them."""
        operations = list(operations)
        made = {v for o in operations for v in o.results}
        stack = list(reversed(operations))
        while stack:
            operation = stack.pop()
            for value in operation.operands:
                if value not in made:
                    self.make_available(value)
            for region in operation.regions:
                stack.extend(region.operations)

    def make_available(self, value: Value) -> None:
        """If `value` is not available after a barrier, emit code that loads it from an array or recomputes it."""
        maker = self.split.maker.get(value)
        if maker is None or value in self.here or value in self.split.local_operations:
            return
        self.here.add(value)
        if value in self.split.crossing:
            self.environment[value] = Item(self.load_value(value, self.array_of(value, memory_of(value)[1])))
            return
        for operand in maker.operands:
            self.make_available(operand)
        self.operation(maker)

    def store_values(self, values: Iterable[Value]) -> None:
        """Emit stores that save values across synchronization points. Values that are not needed after such a point are not stored."""
        for value in values:
            self.here.add(value)
            if value in self.split.crossing:
                self.store_value(value, self.array_of(value, memory_of(value)[1]))


def emit_split(kernel: Kernel, target: Target, split: BarrierSplit) -> tuple[str, set[str], list[str]]:
    """Emit a kernel as loops over its threads.

    Return the LLVM text, the external symbols that it calls, and the names of those synchronization points at which
    the code checks that no lanes of a warp are missing.
    """
    dialect = GridDialect(target)
    emitter = SplitEmitter(kernel, dialect, split)
    return emitter.emit(), dialect.symbols, emitter.sites
