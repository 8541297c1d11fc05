"""Which values are the same in all threads of a block, and where its threads may be apart.

In: a threaded kernel. Out: the values and the local memory that may differ between threads; the operations that not
all threads of the block reach together. Always true: what is not named here is the same in every thread that gets there.
A load from shared or global memory counts as the same where its address is: threads that read while another writes
have a race.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.codegen.kernel_ir.operation import MEETINGS, Block, Kernel, Operation, Value
from weft.codegen.passes.index_steps import program_order

# Results that are a thread's own, whatever the operands are.
_OWN = frozenset({"thread_index", "lane_index", "atomic", "atomic_cas", "call", "clock", "assembly", *MEETINGS})
_SHARED_RESULT = frozenset({"barrier_vote"})  # ... of the meetings the one that tells all threads the same


@dataclass
class Uniformity:
    """What was found.

    Attributes
    ----------
    varying : set of Value
        Values that may differ, and pointers to local memory whose contents may.
    roots : dict
        Pointer into local memory -> the result of the `local` that it comes from.
    apart : set of Operation
        Operations that some threads of the block may pass by, while they go on elsewhere and come back.
    late : set of Operation
        Operations that some threads may never reach, since they have left the kernel.
    exit : str or None
        Label of the scope that is all of the kernel: who leaves it has ended.
    returns : bool
        Whether a thread may leave the kernel before the others.
    """

    varying: set[Value] = field(default_factory=set)
    roots: dict[Value, Value] = field(default_factory=dict)
    apart: set[Operation] = field(default_factory=set)
    late: set[Operation] = field(default_factory=set)
    exit: str | None = None
    returns: bool = False

    def differs(self, values: Iterable[Value]) -> bool:
        """Whether any of these may differ between threads."""
        return any(v in self.varying for v in values)


def find_uniform(kernel: Kernel) -> Uniformity:
    """Look until nothing more is found to differ."""
    found = Uniformity(exit=_exit(kernel))
    for operation in program_order(kernel.body.operations):
        if operation.opcode == "local":
            found.roots[operation.results[0]] = operation.results[0]
        elif operation.opcode in ("offset", "reinterpret") and operation.operands[0] in found.roots:
            found.roots[operation.results[0]] = found.roots[operation.operands[0]]
    before = -1
    while before != len(found.varying):
        before = len(found.varying)
        found.apart.clear()
        found.late.clear()
        _Walk(found).block(kernel.body, False, False)
    return found


def _exit(kernel: Kernel) -> str | None:
    rest = [o for o in kernel.body.operations if o.opcode != "yield"]
    if not rest or rest[-1].opcode != "scope":
        return None
    label: str = rest[-1].attributes["label"]
    named = [o for o in kernel.walk() if o.opcode == "scope" and o.attributes["label"] == label]
    return label if len(named) == 1 else None


class _Walk:
    """One walk through the kernel. Methods give the labels that some threads leave for, while others go on."""

    def __init__(self, found: Uniformity) -> None:
        self.found = found

    def block(self, block: Block, apart: bool, late: bool) -> set[str]:
        gone: set[str] = set()
        for operation in block.operations:
            left = self.found.exit in gone
            elsewhere = len(gone) > left
            gone |= self.operation(operation, apart or elsewhere, late or left)
        return gone

    def operation(self, o: Operation, apart: bool, late: bool) -> set[str]:
        found = self.found
        if apart:
            found.apart.add(o)
        if late:
            found.late.add(o)
        match o.opcode:
            case "scope":
                return self.block(o.regions[0], apart, late) - {o.attributes["label"]}
            case "repeat":
                return self.again(o.regions[0], apart, late)
            case "if":
                return self.branch(o, apart, late)
            case "for":
                return self.loop(o, apart, late)
            case "leave":
                if not apart:
                    return set()
                found.returns = found.returns or o.attributes["label"] == found.exit
                return {o.attributes["label"]}
            case "store":
                self.store(o, apart)
            case "load":
                root = found.roots.get(o.operands[0])
                own = root is None and (late or bool(o.attributes.get("volatile")))
                if own or found.differs(o.operands) or root in found.varying:
                    found.varying.update(o.results)
            case name if name in _OWN:
                if name not in _SHARED_RESULT:
                    found.varying.update(o.results)
                # memory whose address is given away is no longer known
                found.varying.update(found.roots[v] for v in o.operands if v in found.roots)
            case _:
                if found.differs(o.operands):
                    found.varying.update(o.results)
        return set()

    def again(self, region: Block, apart: bool, late: bool) -> set[str]:
        """What runs again: who has left on the way is missing from the start."""
        gone = self.block(region, apart, late)
        if gone:
            left = self.found.exit in gone
            gone |= self.block(region, apart or len(gone) > left, late or left)
        return gone

    def branch(self, o: Operation, apart: bool, late: bool) -> set[str]:
        found = self.found
        split = found.differs(o.operands)
        gone: set[str] = set()
        for region in o.regions:
            gone |= self.block(region, apart or split, late)
        for k, value in enumerate(o.results):
            if split or any(found.differs(_yielded(region)[k : k + 1]) for region in o.regions):
                found.varying.add(value)
        return gone

    def loop(self, o: Operation, apart: bool, late: bool) -> set[str]:
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
        return self.again(region, apart or split, late)

    def store(self, o: Operation, apart: bool) -> None:
        root = self.found.roots.get(o.operands[0])
        if root is not None and (apart or self.found.differs(o.operands)):
            self.found.varying.add(root)


def _yielded(region: Block) -> tuple[Value, ...]:
    last = region.operations[-1] if region.operations else None
    return last.operands if last is not None and last.opcode == "yield" else ()
