"""Unroll reductions over a few elements: coordinates of points, channels of colours.

In: a logical kernel, and what its index parameters are in a launch. Out: the same kernel with the attribute ``short``, names
and values in turn of parameters that it is made for; and, from `unroll_folds`, those as constants and the folds over so few
elements as straight code, which leaves the loop around them to run in vectors. Invariant: the folds go from the first
element to the last, and depend on nothing but their length.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Value

# Elements that are few; a kernel is compiled for each length up to here. On a GPU longer rows are read by several threads.
SHORT, SHORT_ON_GPU = 8, 4


def describe_folds(kernel: Kernel, sizes: Mapping[str, int], on_gpu: bool) -> Kernel:
    """Return the kernel with the attribute ``short`` if it reduces few elements in each iteration of another loop."""
    short = SHORT_ON_GPU if on_gpu else SHORT
    parameters = {p.value for p in kernel.parameters if p.value.name in sizes}
    # (no size is looked at that nothing depends on: plans for many sizes have the others in common)
    wanted = {o.operands[1] for o in _inside(kernel.body) if _is_short(o, parameters)}
    wanted = {v for v in wanted if sizes[v.name] <= short}
    if not wanted:
        return kernel
    factors = {v for o in kernel.walk() if o.opcode == "multiply" for v in o.operands if v in parameters} - wanted
    wanted |= {v for v in factors if sizes[v.name] <= short}
    known = tuple(x for v in sorted(wanted, key=lambda v: v.name) for x in (v.name, int(sizes[v.name])))
    return replace(kernel, attributes={**kernel.attributes, "short": known})


def _inside(body: Block) -> list[Operation]:
    """Return loops that are inside others."""
    return [o for outer in body.operations for region in outer.regions for o in _loops(region)]


def _loops(block: Block) -> list[Operation]:
    found = [o for o in block.operations if o.opcode == "for"]
    return found + [o for outer in block.operations for region in outer.regions for o in _loops(region)]


def _is_short(operation: Operation, parameters: Container[Value]) -> bool:
    """Return whether one of these parameters is the number of elements that an operation reduces."""
    if operation.opcode != "for" or operation.operands[1] not in parameters:
        return False
    plain = operation.attributes["role"] == "reduce" and operation.attributes.get("step", 1) == 1
    return plain and not _loops(operation.regions[0])


def unroll_folds(kernel: Kernel) -> Kernel:
    """Return the kernel with its short reductions unrolled."""
    given = kernel.attributes.get("short", ())
    if not given:
        return kernel
    values = dict(zip(given[::2], given[1::2], strict=True))
    return _Unroller(kernel, values).run()


class _Unroller:
    """The rewriting of a kernel for known values of some parameters."""

    def __init__(self, kernel: Kernel, values: Mapping[str, int]) -> None:
        self.kernel = kernel
        self.builder = KernelBuilder(kernel.name, kernel.index_dtype)
        self.builder.after(kernel)
        self.known: dict[Value, int] = {}
        self.map: dict[Value, Value] = {}
        for p in kernel.parameters:
            if p.value.name in values:
                self.known[p.value] = values[p.value.name]

    def run(self) -> Kernel:
        """Return the new kernel."""
        self.block(self.kernel.body)
        return replace(self.kernel, body=self.builder.kernel.body)

    def block(self, block: Block) -> tuple[Value, ...]:
        """Copy the operations of a block into the open one and return its yields."""
        for operation in block.operations:
            operands = tuple(self.new(v) for v in operation.operands)
            if operation.opcode == "yield":
                return operands
            if _is_short(operation, self.known):
                self.unrolled(operation, operands)
            else:
                self.copied(operation, operands)
        return ()

    def new(self, value: Value) -> Value:
        """Return the replacement of a value; constants are emitted at their use, where passes see them."""
        return self.builder.constant(self.known[value]) if value in self.known else self.map.get(value, value)

    def unrolled(self, operation: Operation, operands: tuple[Value, ...]) -> None:
        """Write a reduction's iterations one after the other."""
        index, *names = operation.regions[0].parameters
        carried = operands[2:]
        for k in range(self.known[operation.operands[1]]):
            self.map[index] = self.builder.constant(k)
            self.map.update(zip(names, carried, strict=True))
            carried = self.block(operation.regions[0])
        self.map.update(zip(operation.results, carried, strict=True))

    def copied(self, operation: Operation, operands: tuple[Value, ...]) -> None:
        """Copy an operation with fresh results, since its block may be copied several times."""
        regions = []
        for region in operation.regions:
            parameters = tuple(self.builder.fresh(v.type) for v in region.parameters)
            self.map.update(zip(region.parameters, parameters, strict=True))
            block = Block(parameters)
            self.builder.blocks.append(block)
            ends = self.block(region)
            block.operations.append(Operation("yield", ends))
            self.builder.blocks.pop()
            regions.append(block)
        types = [v.type for v in operation.results]
        results = self.builder.emit(operation.opcode, operands, types, tuple(regions), **operation.attributes)
        self.map.update(zip(operation.results, results, strict=True))
