"""Analysis of uniform values, which are the same in all threads of a block.

In: a threaded kernel. Out: the values and the local variables that may differ between threads, and the operations that
not all threads of the block reach together. Invariant: every other value is the same in each thread that reaches it. If
the blocks run in step too (kernel attribute `in_step` is "grid"), the same holds for the threads of the grid, and
pointers to shared memory differ. A load from shared or global memory is uniform if its address is, because a read
during another thread's write is a data race. Exceptions are volatile loads, and loads after some threads may have left
the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.codegen.kernel_ir.operation import SYNCHRONIZATION, Block, Kernel, Operation, Value, program_order

# Operations whose results differ between threads even for uniform operands.
_OWN = frozenset({"thread_index", "lane_index", "atomic", "atomic_cas", "call", "clock", "assembly", *SYNCHRONIZATION})
# Operations whose results differ between the blocks of a grid.
_OF_BLOCK = frozenset({"block_index", "shared", "dynamic_shared"})
Causes = tuple[Operation, ...]
_SHARED_RESULT = frozenset({"barrier_vote"})  # synchronization points that give all threads the same result


@dataclass
class Uniformity:
    """The result of `find_uniform`: what may differ between the threads of a block. Everything else is uniform (the same in all threads).

    Attributes
    ----------
    varying : set of Value
        Values that may differ, and pointers to local memory whose contents may.
    roots : dict
        Pointer into local memory -> the result of the `local` that it comes from.
    apart : dict
        Operations that some threads of the block may skip before they continue with the other threads -> the causes:
        the operations whose condition differs between threads, or the `leave` operations, outermost first.
    late : set of Operation
        Operations that some threads may never reach, since they have left the kernel.
    exit : str or None
        Label of the scope that encloses the whole kernel. A thread that leaves it has ended.
    returns : bool
        Whether a thread may leave the kernel before the others.
    """

    varying: set[Value] = field(default_factory=set)
    roots: dict[Value, Value] = field(default_factory=dict)
    apart: dict[Operation, Causes] = field(default_factory=dict)
    late: set[Operation] = field(default_factory=set)
    exit: str | None = None
    returns: bool = False
    # Variable -> the branches that enclose all its uses. Threads that take them together may share the variable.
    common_branches: dict[Value, frozenset[Operation]] = field(default_factory=dict)

    def differs(self, values: Iterable[Value]) -> bool:
        """Return whether any of `values` may differ between the threads of a block."""
        return any(v in self.varying for v in values)


def find_uniform(kernel: Kernel) -> Uniformity:
    """Determine which values are uniform, that is, the same in all threads of a block. The returned object lists the values that may differ.

    Also find the operations that not all threads reach together. The analysis iterates to a fixed point.
    """
    found = Uniformity(exit=_exit(kernel))
    own = _OWN | _OF_BLOCK if kernel.attributes.get("in_step") == "grid" else _OWN
    for operation in program_order(kernel.body.operations):
        if operation.opcode == "local":
            found.roots[operation.results[0]] = operation.results[0]
        elif operation.opcode in ("offset", "reinterpret") and operation.operands[0] in found.roots:
            found.roots[operation.results[0]] = found.roots[operation.operands[0]]
    found.common_branches = _find_common_branches(kernel.body)
    before = -1
    while before != len(found.varying):
        before = len(found.varying)
        found.apart.clear()
        found.late.clear()
        _Walk(found, own).block(kernel.body, (), False)
    return found


def _exit(kernel: Kernel) -> str | None:
    rest = [o for o in kernel.body.operations if o.opcode != "yield"]
    if not rest or rest[-1].opcode != "scope":
        return None
    label: str = rest[-1].attributes["label"]
    named = [o for o in kernel.walk() if o.opcode == "scope" and o.attributes["label"] == label]
    return label if len(named) == 1 else None


def _find_common_branches(body: Block) -> dict[Value, frozenset[Operation]]:
    accesses: dict[Value, list[tuple[tuple[Operation, int], ...]]] = {}
    other: set[Value] = set()

    def visit(block: Block, around: tuple[tuple[Operation, int], ...]) -> None:
        for o in block.operations:
            if o.opcode == "local":
                accesses.setdefault(o.results[0], [])
            for k, value in enumerate(o.operands):
                if value in accesses:
                    accesses[value].append(around)
                    if k or o.opcode not in ("load", "store"):
                        other.add(value)
            for k, region in enumerate(o.regions):
                visit(region, (*around, (o, k)))

    visit(body, ())
    reads: dict[Block, set[Value]] = {}
    variables_read_first(body, reads)
    common_branches: dict[Value, frozenset[Operation]] = {}
    for variable, paths in accesses.items():
        if variable in other or not paths:
            continue
        shared = [step for step, *rest in zip(*paths, strict=False) if all(step == r for r in rest)]
        # the value that an earlier execution left may differ: the branch must write before it reads
        common_branches[variable] = frozenset(
            o for o, k in shared if o.opcode == "if" and variable not in reads[o.regions[k]]
        )
    return common_branches


def variables_read_first(block: Block, found: dict[Block, set[Value]]) -> set[Value]:
    """Return the variables that a block may load before it stores to them.

    Add the variables of this block, and of each block inside it, to `found`.
    """
    written: set[Value] = set()
    read = found[block] = set()
    for o in block.operations:
        if o.opcode == "load" and o.operands[0] not in written:
            read.add(o.operands[0])
        elif o.opcode == "store":
            written.add(o.operands[0])
        for region in o.regions:
            read |= variables_read_first(region, found) - written
    return read


class _Walk:
    """One traversal of the kernel during the analysis.

    Methods return the labels of scopes that some threads leave while others continue, with the `leave` operations.
    """

    def __init__(self, found: Uniformity, own: frozenset[str]) -> None:
        self.found = found
        self.own = own
        self.entered: dict[str, Causes] = {}  # label of an enclosing scope -> the causes of divergence at its start

    def block(self, block: Block, apart: Causes, late: bool) -> dict[str, Operation]:
        gone: dict[str, Operation] = {}
        for operation in block.operations:
            inner, has_left = self.after_exit(gone, apart, late)
            gone |= self.operation(operation, inner, has_left)
        return gone

    def after_exit(self, gone: dict[str, Operation], apart: Causes, late: bool) -> tuple[Causes, bool]:
        """Return the state for the code after an exit: the operations at which threads may have diverged, and whether
        some threads may have left the kernel.
        """
        elsewhere = tuple(o for label, o in gone.items() if label != self.found.exit and o not in apart)
        return (*apart, *elsewhere), late or self.found.exit in gone

    def operation(self, o: Operation, apart: Causes, late: bool) -> dict[str, Operation]:
        found = self.found
        if apart:
            found.apart[o] = apart
        if late:
            found.late.add(o)
        match o.opcode:
            case "scope":
                self.entered[o.attributes["label"]] = apart
                gone = self.block(o.regions[0], apart, late)
                gone.pop(o.attributes["label"], None)
                return gone
            case "repeat":
                return self.repeated_region(o.regions[0], apart, late)
            case "if":
                return self.branch(o, apart, late)
            case "for":
                return self.loop(o, apart, late)
            case "leave":
                if set(apart) <= set(self.entered[o.attributes["label"]]):
                    return {}  # the threads in the scope leave it together
                found.returns = found.returns or o.attributes["label"] == found.exit
                return {o.attributes["label"]: o}
            case "store":
                self.store(o, apart)
            case "load":
                root = found.roots.get(o.operands[0])
                own = root is None and (late or bool(o.attributes.get("volatile")))
                if own or found.differs(o.operands) or root in found.varying:
                    found.varying.update(o.results)
            case name if name in self.own:
                if name not in _SHARED_RESULT:
                    found.varying.update(o.results)
                # the contents of memory with an escaping address are unknown
                found.varying.update(found.roots[v] for v in o.operands if v in found.roots)
            case _:
                if found.differs(o.operands):
                    found.varying.update(o.results)
        return {}

    def repeated_region(self, region: Block, apart: Causes, late: bool) -> dict[str, Operation]:
        """Analyze the body of a loop. If some threads may leave the loop early, analyze the body again for later iterations without these threads."""
        gone = self.block(region, apart, late)
        if gone:
            inner, has_left = self.after_exit(gone, apart, late)
            gone |= self.block(region, inner, has_left)
        return gone

    def branch(self, o: Operation, apart: Causes, late: bool) -> dict[str, Operation]:
        found = self.found
        split = found.differs(o.operands)
        gone: dict[str, Operation] = {}
        for region in o.regions:
            gone |= self.block(region, (*apart, o) if split else apart, late)
        for k, value in enumerate(o.results):
            if split or any(found.differs(_yielded(region)[k : k + 1]) for region in o.regions):
                found.varying.add(value)
        return gone

    def loop(self, o: Operation, apart: Causes, late: bool) -> dict[str, Operation]:
        found = self.found
        region = o.regions[0]
        count = len(o.results)
        bounds = (*o.operands[:2], *o.operands[2 + count :])
        split = found.differs(bounds)
        if found.differs((o.operands[0], *o.operands[2 + count :])):
            found.varying.add(region.parameters[0])
        for k, value in enumerate(o.results):
            if found.differs((o.operands[2 + k], *_yielded(region)[k : k + 1])):
                found.varying.add(region.parameters[1 + k])
            if split or region.parameters[1 + k] in found.varying:
                found.varying.add(value)
        return self.repeated_region(region, (*apart, o) if split else apart, late)

    def store(self, o: Operation, apart: Causes) -> None:
        root = self.found.roots.get(o.operands[0])
        if root is None:
            return
        common = self.found.common_branches.get(root, frozenset())
        if self.found.differs(o.operands) or any(cause not in common for cause in apart):
            self.found.varying.add(root)


def _yielded(region: Block) -> tuple[Value, ...]:
    last = region.operations[-1] if region.operations else None
    return last.operands if last is not None and last.opcode == "yield" else ()
