"""Unrolling of reductions over few elements, such as color channels.

On a GPU, parallel loops over few elements are also unrolled.

In: a logical kernel, and the values of its index parameters in a launch. Out: the kernel with the attribute
``short``, alternating names and values of the parameters for which it is specialized. `unroll_loops` makes these
parameters constants and unrolls the loops over them, so that the enclosing loop can be vectorized.
Invariant: the reductions run from the first element to the last, and depend only on their length.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Value, program_order
from weft.codegen.passes.rewrite import Copier

# Maximum lengths of short loops. A kernel is compiled for each short length. On a GPU, several threads read longer
# rows.
SHORT, SHORT_ON_GPU = 8, 4


def describe_short_loops(kernel: Kernel, sizes: Mapping[str, int], on_gpu: bool) -> Kernel:
    """Set the attribute ``short`` of a kernel to the extents of the short loops to unroll, if there are any. Return the kernel."""
    short, roles = _limits(on_gpu)
    parameters = {p.value for p in kernel.parameters if p.value.name in sizes}
    # (examine only sizes that matter, so that plans for many sizes share a kernel)
    loops = [(outer, o) for outer, o in _inside(kernel.body) if _is_short(o, parameters, roles)]
    loops = [(outer, o) for outer, o in loops if sizes[o.operands[1].name] <= short]
    wanted = {o.operands[1] for outer, o in loops if o.attributes["role"] == "reduce" or _is_dense(outer, o, sizes)}
    if not wanted:
        return kernel
    factors = {v for o in kernel.walk() if o.opcode == "multiply" for v in o.operands if v in parameters} - wanted
    wanted |= {v for v in factors if sizes[v.name] <= short}
    known = tuple(x for v in sorted(wanted, key=lambda v: v.name) for x in (v.name, int(sizes[v.name])))
    return replace(kernel, attributes={**kernel.attributes, "short": known})


def _limits(on_gpu: bool) -> tuple[int, tuple[str, ...]]:
    """Return the maximum extent of loops to unroll, and their possible kinds, such as "reduce" for reductions."""
    return (SHORT_ON_GPU, ("reduce", "parallel")) if on_gpu else (SHORT, ("reduce",))


def _inside(block: Block, outer: Operation | None = None) -> Iterator[tuple[Operation, Operation]]:
    """Yield a pair (outer, loop) for each nested loop: the loop around it, and the loop itself."""
    for o in block.operations:
        if o.opcode == "for" and outer is not None:
            yield outer, o
        for region in o.regions:
            yield from _inside(region, o if o.opcode == "for" else outer)


def _is_dense(outer: Operation, loop: Operation, sizes: Mapping[str, int]) -> bool:
    """Return whether the nested loops `outer` and `loop` together access contiguous memory. Vectors can then span iterations of both loops."""
    index, extent = outer.regions[0].parameters[0], sizes[loop.operands[1].name]
    products = [o for o in program_order(outer.regions[0].operations) if o.opcode == "multiply" and index in o.operands]
    strides = [v for o in products for v in o.operands if v is not index]
    return all(v.name in sizes and sizes[v.name] == extent for v in strides)


def _is_short(operation: Operation, parameters: Container[Value], roles: Container[str]) -> bool:
    """Return whether an operation is a loop that could be short: an innermost loop of an allowed kind, with a kernel parameter as its extent."""
    if operation.opcode != "for" or operation.operands[1] not in parameters:
        return False
    plain = operation.attributes["role"] in roles and operation.attributes.get("step", 1) == 1
    return plain and not any(o.opcode == "for" for o in program_order(operation.regions[0].operations))


def unroll_loops(kernel: Kernel, on_gpu: bool = False) -> Kernel:
    """Return the kernel with its short loops unrolled."""
    given = kernel.attributes.get("short", ())
    if not given:
        return kernel
    values = dict(zip(given[::2], given[1::2], strict=True))
    return _Unroller(kernel, values, _limits(on_gpu)[1]).run()


class _Unroller(Copier):
    """Copier that unrolls the short loops of a kernel, given the values of some parameters."""

    def __init__(self, kernel: Kernel, values: Mapping[str, int], roles: Container[str]) -> None:
        super().__init__(KernelBuilder.after(kernel), {})
        self.kernel = kernel
        self.roles = roles
        self.known = {p.value: values[p.value.name] for p in kernel.parameters if p.value.name in values}

    def run(self) -> Kernel:
        self.copy(self.kernel.body.operations)
        return replace(self.kernel, body=self.builder.kernel.body)

    def new(self, value: Value) -> Value:
        """Return the counterpart of `value` in the new kernel. A parameter that is known at compile time has a constant as its counterpart."""
        return self.builder.constant(self.known[value]) if value in self.known else super().new(value)

    def operation(self, operation: Operation) -> None:
        """Copy an operation, or emit the iterations of a short loop one after another.

        If no load follows a store in the loop, the stores of all iterations come last, since no iteration reads what
        another iteration writes.
        """
        if len(self.builder.blocks) == 1 or not _is_short(operation, self.known, self.roles):
            self.emit_copy(operation)
            return
        (region,) = operation.regions
        index, *names = region.parameters
        carried, made = tuple(map(self.new, operation.operands))[2:], self.builder.block.operations
        before = len(made)
        for k in range(self.known[operation.operands[1]]):
            self.map[index] = self.builder.constant(k)
            self.map.update(zip(names, carried, strict=True))
            carried = self.copy(region.operations)
        self.map.update(zip(operation.results, carried, strict=True))
        inner = list(program_order(region.operations))
        stores = [o for o in inner if o.opcode == "store"]
        if stores and all(o in region.operations for o in stores):
            if all(o.opcode != "load" for o in inner[inner.index(stores[0]) :]):
                made[before:] = sorted(made[before:], key=lambda o: o.opcode == "store")
