"""Splitting of kernels at their synchronization points.

In: a threaded kernel with synchronization points that all threads of a block, or of a branch, reach together. Out: a
list of steps for each block of operations that contains them: runs, synchronization points, and operations executed
once for all threads (common values, and the control flow around synchronization points). Invariant: between two
synchronization points the order of the threads does not matter. A value that one run computes and another needs is
recorded as passing between them, or cheap to recompute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from weft.codegen.kernel_ir.operation import STRUCTURAL, SYNCHRONIZATION, Block, Kernel, Operation, Value, program_order
from weft.codegen.ops.op_table import find_op
from weft.codegen.passes.find_common_loops import find_common_loops
from weft.codegen.passes.find_uniform import Uniformity, find_uniform
from weft.codegen.passes.thread_steps import innermost_axis

# Synchronization points at which runs can be split. Warp operations qualify only if their mask names all lanes.
_BLOCK = frozenset({"barrier", "barrier_vote"})
WARP = frozenset({"warp_barrier", "shuffle", "shuffle_xor", "vote", "warp_reduce"})
# Operations without side effects that are not in the op table (see `is_pure`).
_PURE = frozenset(
    {"constant", "cast", "offset", "reinterpret", "shared", "dynamic_shared", "table", "block_index", "block_size"}
    | {"grid_size", "thread_index", "lane_index"}
)
_CHEAP = 12  # maximum cost of a value that is recomputed instead of stored
FULL = 0xFFFFFFFF


@dataclass(eq=False)
class Run:
    """The operations between two synchronization points, which each thread executes independently.

    A run begins with the results of the synchronization points in `receives`, and ends with the contributions to the
    synchronization points in `sends`.
    """

    operations: list[Operation] = field(default_factory=list)
    receives: list[Operation] = field(default_factory=list)
    sends: list[Operation] = field(default_factory=list)
    again: bool = False  # whether the run may execute more than once per block
    branch: Branch | None = None  # the innermost branch, run in step, that only some threads take
    late: bool = False  # whether threads may have left the kernel before

    def needed(self) -> Iterator[Value]:
        """Yield the values that the code between two synchronization points uses.

        At its start, a run reads the contributions of the threads from arrays. Of the operands of the preceding
        synchronization point, the run therefore uses only the lane of a shuffle.
        """
        for o in self.receives:
            yield from o.operands[2:]
        for o in program_order(self.operations):
            yield from o.operands
        for o in self.sends:
            yield from o.operands

    def everything(self) -> Iterator[Operation]:
        """Yield all operations of this section of code, including nested operations and the synchronization points before and after it."""
        yield from self.receives
        yield from program_order(self.operations)
        yield from self.sends


Step = Run | Operation
Branch = tuple[Operation, int]  # an `if` and the number of its region


@dataclass
class BarrierSplit:
    """A kernel split into steps at its synchronization points.

    Attributes
    ----------
    steps : dict
        Steps of each block of operations that is executed once for all threads.
    common : set of Value
        Pointers to `local` memory that all threads of the block share.
    crossing : set of Value
        Values that differ between threads, and that one run computes and stores for another run.
    maker : dict
        Value of a run -> the operation that computes it. Values not in `crossing` are recomputed where they are needed.
    branches : dict
        Synchronization point, or operation that contains one -> the innermost branch around it that only some threads
        take.
    strict : set of Operation
        Synchronization points in such branches that all lanes of a warp must reach if any lane does.
    in_step : set of Operation
        Every `if` around synchronization points whose condition differs between threads.
    kept : set of Value
        Results of `local` whose contents outlive a run.
    single : set of Value
        Results of `local` with one element that is only loaded and stored.
    axis : int
        The axis of the block over which the innermost loop over its threads runs.
    """

    uniform: Uniformity
    axis: int = 0
    steps: dict[Block, list[Step]] = field(default_factory=dict)
    common: set[Value] = field(default_factory=set)
    crossing: set[Value] = field(default_factory=set)
    maker: dict[Value, Operation] = field(default_factory=dict)
    branches: dict[Operation, Branch | None] = field(default_factory=dict)
    strict: set[Operation] = field(default_factory=set)
    in_step: set[Operation] = field(default_factory=set)
    kept: set[Value] = field(default_factory=set)
    single: set[Value] = field(default_factory=set)
    local_operations: dict[Value, Operation] = field(default_factory=dict)  # result of `local` -> the operation
    # run -> the first operation that accesses each thread-local variable
    _first: dict[Run, dict[Value, Operation]] = field(default_factory=dict)

    def runs(self) -> list[Run]:
        """Return all runs (sections of code between synchronization points) of the kernel."""
        return [step for steps in self.steps.values() for step in steps if isinstance(step, Run)]

    def touched(self, run: Run) -> list[Value]:
        """Return the thread-local variables that a run (code between barriers) accesses."""
        found: dict[Value, None] = {}
        for o in run.everything():
            for value in o.operands:
                root = self.uniform.roots.get(value)
                if root is not None and root not in self.common:
                    found[root] = None
        return list(found)

    def begins_with_store(self, run: Run, root: Value) -> bool:
        """Return whether a run (code between barriers) always stores to the variable `root` before any other access.

        Also return True if the run does not access the variable.
        """
        if run not in self._first:
            first = self._first[run] = {}
            for o in run.operations:
                for value in (v for inner in program_order([o]) for v in inner.operands):
                    if value in self.uniform.roots:
                        first.setdefault(self.uniform.roots[value], o)
        return root not in self._first[run] or self._first[run][root].opcode == "store"


def split_at_barriers(kernel: Kernel) -> BarrierSplit | None:
    """Split a kernel at its synchronization points, or return None if that is impossible.

    It is impossible, for example, if threads may diverge at a block-wide barrier, or if the mask of a warp operation is
    not known to contain all lanes.
    """
    uniform = of_block = find_uniform(kernel)
    if kernel.attributes.get("in_step") == "grid":
        of_block = find_uniform(replace(kernel, attributes={**kernel.attributes, "in_step": "block"}))
    if not all(_can_split_at(o, of_block, kernel) for o in program_order(kernel.body.operations)):
        return None
    axis = innermost_axis(kernel, uniform)
    loops = find_common_loops(kernel, uniform, axis)
    for common in (loops, []) if loops else ([],):
        splitter = _Splitter(kernel, uniform, axis)
        if splitter.mark(common):
            return _with_shared_variables(kernel, splitter.split(), common)
    return None


def _with_shared_variables(kernel: Kernel, made: BarrierSplit, loops: list[Operation]) -> BarrierSplit:
    """Improve `made`, a kernel that was split at its barriers: threads share each variable that has the same value in
    all of them.

    This concerns only variables that outlive a run (the code between two barriers). Such a variable, for example the
    distance in a scan, then needs no array with one element per thread. If there is no such variable, or if the new
    split has more runs, return `made`, the split with separate variables.
    """
    shared = [v for v in made.kept if v in made.single and v not in made.uniform.varying]
    splitter = _Splitter(kernel, made.uniform, made.axis)
    if not shared or not splitter.mark(loops, shared):
        return made
    found = splitter.split()
    return found if len(found.runs()) <= len(made.runs()) else made


def is_pure(operation: Operation) -> bool:
    """Return whether an operation is pure: it has no side effects, and its repetition gives the same result.

    The result may depend on the operands, the thread and the launch.
    """
    return operation.opcode in _PURE or operation.opcode not in STRUCTURAL


def _can_split_at(o: Operation, uniform: Uniformity, kernel: Kernel) -> bool:
    if o.opcode not in SYNCHRONIZATION:
        return True
    if o.opcode not in _BLOCK | WARP or (o.opcode in _BLOCK and o in uniform.apart):
        return False
    if o.opcode in WARP and o.opcode != "shuffle_xor":
        return _is_full(o.operands[0], kernel)
    return True


def _is_full(mask: Value, kernel: Kernel) -> bool:
    for o in program_order(kernel.body.operations):
        if mask in o.results:
            if o.opcode == "cast":
                return _is_full(o.operands[0], kernel)
            return o.opcode == "constant" and int(o.attributes["value"]) & FULL == FULL
    return False


class _Splitter:
    """Algorithm that divides a kernel into code that each thread executes and code that runs once for all threads."""

    def __init__(self, kernel: Kernel, uniform: Uniformity, axis: int) -> None:
        self.kernel = kernel
        self.uniform = uniform
        self.made = BarrierSplit(uniform, axis)
        self.around: dict[Operation, tuple[Operation, ...]] = {}  # operation -> the operations that enclose it
        self.maker: dict[Value, Operation] = {}  # the operation of each result and region parameter
        self.stores: dict[Value, list[Operation]] = {}  # stores to each `local`
        self.once: set[Operation] = set()  # operations with regions that are executed once for all threads
        self.loads: set[Operation] = set()  # loads from shared and global memory that are executed once for all threads
        self.needed: set[Value] = set()
        self.outside: set[Value] = {p.value for p in kernel.parameters}  # values that are available outside of runs
        self.fine = True
        self._index(kernel.body, ())

    def _index(self, block: Block, around: tuple[Operation, ...]) -> None:
        for o in block.operations:
            self.around[o] = around
            self.maker.update(dict.fromkeys(o.results, o))
            if o.opcode == "local":
                self.made.local_operations[o.results[0]] = o
            if o.opcode == "store" and o.operands[0] in self.uniform.roots:
                self.stores.setdefault(self.uniform.roots[o.operands[0]], []).append(o)
            for region in o.regions:
                self.maker.update(dict.fromkeys(region.parameters, o))
                self._index(region, (*around, o))

    # -- operations that are executed once ------------------------------------------------------

    def mark(self, loops: list[Operation], variables: Iterable[Value] = ()) -> bool:
        """Mark operations that execute once for all threads, or return False if that is impossible.

        The marked operations are those around synchronization points, the loops in `loops`, the stores to
        `variables`, and everything on which these depend.
        """
        for variable in variables:
            self.share(variable)
        for loop in loops:
            self.mark_enclosing((*self.around[loop], loop))
        everything = list(program_order(self.kernel.body.operations))
        for o in everything:
            if o.opcode in SYNCHRONIZATION:
                self.mark_enclosing(self.around[o])
        size = -1
        while size != len(self.once):
            size = len(self.once)
            for o in everything:
                if o.opcode != "leave" or (scope := self.target(o)) not in self.once:
                    continue
                if self.leaves_together(o, scope):
                    self.mark_enclosing(self.around[o])
                elif o.attributes["label"] != self.uniform.exit:
                    return False  # some threads would skip a synchronization point and continue after it
        together = {*self.once, *self.loads, *(o for o in everything if o.opcode in SYNCHRONIZATION)}
        for variable in self.made.common:
            together.update(self.stores.get(variable, ()))
        return self.fine and all(self.in_step(o) for o in together)

    def target(self, leave: Operation) -> Operation:
        label = leave.attributes["label"]
        return next(o for o in reversed(self.around[leave]) if o.opcode == "scope" and o.attributes["label"] == label)

    def leaves_together(self, leave: Operation, scope: Operation) -> bool:
        """Return whether a jump out of a scope is uniform: either all threads in the scope execute the jump, or none of them does."""
        apart = self.uniform.apart
        return set(apart.get(leave, ())) <= set(apart.get(scope, ()))

    def in_step(self, o: Operation) -> bool:
        """Return whether all threads that execute an operation reach it together.

        Only enclosing branches in `BarrierSplit.in_step` may separate the threads.
        """
        inside = set(self.around[o])
        return all(cause in self.made.in_step and cause in inside for cause in self.uniform.apart.get(o, ()))

    def mark_enclosing(self, around: tuple[Operation, ...]) -> None:
        """Record that all threads of a block execute the control-flow operations in the tuple `around` together."""
        for o in around:
            if o in self.once:
                continue
            self.once.add(o)
            if self.uniform.differs(o.results):
                self.fine = False
            if o.opcode == "if" and self.uniform.differs(o.operands):
                self.made.in_step.add(o)
                self.fine = self.fine and not o.results
            elif o.opcode in ("if", "for"):
                if self.uniform.differs(o.operands):
                    self.fine = False
                for value in o.operands:
                    self.mark_needed(value)
                for region in o.regions:
                    for value in region.operations[-1].operands:
                        self.mark_needed(value)

    def mark_needed(self, value: Value) -> None:
        """Mark a value as needed by code that is executed once for all threads. Also mark all values on which it depends."""
        stack = [value]
        while stack:
            value = stack.pop()
            maker = self.maker.get(value)
            if value in self.needed or maker is None:
                continue
            self.needed.add(value)
            if maker.regions:
                self.mark_enclosing((*self.around[maker], maker))
            elif maker.opcode not in SYNCHRONIZATION:
                stack += maker.operands
                self.mark_maker(maker)

    def mark_maker(self, maker: Operation) -> None:
        """Mark the operation that computes a needed value. A marked load will execute only once. An operation with side effects cannot be marked."""
        root = self.uniform.roots.get(maker.operands[0]) if maker.opcode == "load" else None
        if root is not None:
            self.share(root)
        elif maker.opcode == "load":
            self.loads.add(maker)
            self.mark_enclosing(self.around[maker])
        elif not is_pure(maker) and maker.opcode != "local":
            self.fine = False

    def share(self, root: Value) -> None:
        """Record that all threads of a block share the variable `root`, so that stores to it execute only once."""
        if root in self.made.common:
            return
        self.made.common.add(root)
        self.fine = self.fine and root not in self.uniform.varying
        for store in self.stores.get(root, ()):
            for operand in store.operands:
                self.mark_needed(operand)
            self.mark_enclosing(self.around[store])

    # -- runs -----------------------------------------------------------------------------------

    def split(self) -> BarrierSplit:
        """Divide the kernel into steps, and find the values that are passed between the steps."""
        self.cut(self.kernel.body, False)
        self.find_strict()
        _Flow(self.made).find(self.maker)
        return self.made

    def is_executed_once(self, o: Operation) -> bool:
        """Return whether an operation without regions is executed once for all threads."""
        if any(v not in self.outside for v in o.operands):
            return False
        roots = self.uniform.roots
        if o.opcode in ("load", "store"):
            root = roots.get(o.operands[0])
            return root in self.made.common if root is not None else o in self.loads
        if o.opcode == "local":
            return o.results[0] in self.made.common
        if o.opcode == "leave":
            return self.leaves_together(o, self.target(o))
        return is_pure(o) and not self.uniform.differs(o.results)

    def cut(self, block: Block, again: bool, branch: Branch | None = None) -> None:
        """Divide a block of operations into steps. Successive operations that each thread executes form one step. Any other operation is its own step."""
        steps: list[Step] = []
        run: Run | None = None
        for o in block.operations:
            if o.opcode == "yield":
                break
            late = o in self.uniform.late
            if o.opcode in SYNCHRONIZATION or o in self.once:
                self.made.branches[o] = branch
                if o in self.made.in_step or o.opcode in SYNCHRONIZATION - {"barrier", "warp_barrier"}:
                    run = run or Run(again=again, branch=branch, late=late)
                    run.sends.append(o)
                steps += [run, o] if run is not None else [o]
                run = None
                if o.opcode in _BLOCK or o in self.once:
                    self.outside.update(o.results)
                elif o.results:
                    run = Run(receives=[o], again=again, branch=branch, late=late)
                for k, region in enumerate(o.regions):
                    self.outside.update(region.parameters)
                    inner = (o, k) if o in self.made.in_step else branch
                    self.cut(region, again or o.opcode in ("repeat", "for"), inner)
            elif self.is_executed_once(o):
                if run is not None and self.conflicts(o, run):
                    steps.append(run)
                    run = None
                steps.append(o)
                self.outside.update(o.results)
            else:
                run = run or Run(again=again, branch=branch, late=late)
                run.late = run.late or late
                run.operations.append(o)
        if run is not None:
            steps.append(run)
        self.made.steps[block] = steps

    def find_strict(self) -> None:
        """Find which synchronization points in branches must be reached by all lanes of a warp or by none."""
        order = list(program_order(self.kernel.body.operations))
        last = max((k for k, o in enumerate(order) if o.opcode in SYNCHRONIZATION), default=-1)
        for o, branch in self.made.branches.items():
            if branch is None or o.opcode not in SYNCHRONIZATION:
                continue
            outer = next(other for other in self.around[o] if other in self.made.in_step)
            inside = list(program_order([outer]))
            again = any(other.opcode in ("repeat", "for") for other in self.around[outer])
            others = any(
                other.opcode in SYNCHRONIZATION for other in program_order(outer.regions[1 - branch[1]].operations)
            )
            if again or others or order.index(outer) + len(inside) <= last:
                self.made.strict.add(o)

    def conflicts(self, o: Operation, run: Run) -> bool:
        """Return whether the operation `o` must stay after a run (the code between two barriers), because moving it before the run could change results."""
        if o.opcode == "leave":
            return True
        inside = list(run.everything())
        if o.opcode == "store":
            root = self.uniform.roots[o.operands[0]]
            return any(self.uniform.roots.get(v) is root for other in inside for v in other.operands)
        if o.opcode == "load" and o in self.loads:
            orders = ("store", "atomic", "atomic_cas", "call", "fence")
            return any(other.opcode in orders or other.attributes.get("volatile") for other in inside)
        return False


class _Flow:
    """Finder of the values that are computed before a barrier and used after it."""

    def __init__(self, made: BarrierSplit) -> None:
        self.made = made
        self.roots = made.uniform.roots
        self.run_of: dict[Value, Run] = {}
        for run in made.runs():
            for o in (*run.receives, *run.operations):
                self.run_of.update(dict.fromkeys(o.results, run))
                made.maker.update(dict.fromkeys(o.results, o))
        self.costs: dict[Value, int | None] = {}

    def find(self, values: Iterable[Value]) -> None:
        """Find the values and the memory that are used on both sides of a barrier. `values` is in program order."""
        for value in values:  # in program order, so that chains of any length need no recursion
            self.cost(value)
        for run in self.made.runs():
            for value in run.needed():
                maker_run = self.run_of.get(value)
                if maker_run is not None and maker_run is not run and self.cost(value) is None:
                    self.made.crossing.add(value)
        self.memory()

    def cost(self, value: Value) -> int | None:
        """Return the cost of recomputing a value, or None if that is impossible or too expensive."""
        if value not in self.run_of or value in self.made.local_operations:
            return 0
        if value not in self.costs:
            maker = self.made.maker[value]
            total: int | None = None
            if is_pure(maker):
                total = find_op(maker.opcode).cost if maker.opcode not in STRUCTURAL else 1
                for operand in maker.operands:
                    part = self.cost(operand)
                    total = None if part is None or total is None else total + part
            self.costs[value] = total if total is not None and total <= _CHEAP else None
        return self.costs[value]

    def memory(self) -> None:
        """Find the local memory that must be kept across barriers."""
        direct: dict[Value, bool] = {}
        touched: dict[Value, list[Run]] = {}
        for run in self.made.runs():
            for o in run.everything():
                for k, value in enumerate(o.operands):
                    root = self.roots.get(value)
                    if root is None or root in self.made.common:
                        continue
                    plain = k == 0 and o.opcode in ("load", "store") and value is root
                    direct[root] = direct.get(root, True) and plain
                    if run not in touched.setdefault(root, []):
                        touched[root].append(run)
        for root, runs in touched.items():
            if direct[root] and self.made.local_operations[root].attributes["count"] == 1:
                self.made.single.add(root)
            alone = len(runs) == 1 and not runs[0].again
            if not alone and not (root in self.made.single and all(self.made.begins_with_store(r, root) for r in runs)):
                self.made.kept.add(root)
