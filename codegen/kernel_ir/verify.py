"""The verifier: nothing that breaks a rule of kernel IR reaches code generation."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from weft.codegen.kernel_ir.operation import STRUCTURAL, Block, Kernel, Operation, Pointer, Value
from weft.codegen.kernel_ir.text import show_type
from weft.codegen.ops import accumulators, find_op, resolve_dtypes

ROLES = ("parallel", "reduce", "scan", "serial")
THREADED = frozenset(
    {"thread_index", "block_index", "block_size", "grid_size", "barrier", "shared", "local", "shuffle_xor", "atomic"}
)


class KernelError(ValueError):
    """A kernel breaks a rule; the message names kernel, operation and rule."""


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.scopes: list[set[Value]] = [{p.value for p in kernel.parameters}]
        self.writable = {p.value for p in kernel.parameters if p.writable}

    def fail(self, operation: Operation | None, rule: str) -> NoReturn:
        what = ""
        if operation is not None:
            operands = ", ".join(f"%{v.name}: {show_type(v.type)}" for v in operation.operands)
            what = f", {operation.opcode}({operands})"
        raise KernelError(f"kernel {self.kernel.name}{what}: {rule}")

    def block(self, block: Block, ends: bool) -> Operation | None:
        """Check a block; its `yield`."""
        self.scopes.append(set(block.parameters))
        last = None
        for k, operation in enumerate(block.operations):
            for value in operation.operands:
                if not any(value in scope for scope in self.scopes):
                    self.fail(operation, f"%{value.name} is used before it is defined")
            if operation.opcode == "yield":
                if not ends or k != len(block.operations) - 1:
                    self.fail(operation, "a yield ends a region")
                last = operation
                continue
            self.operation(operation)
            self.scopes[-1].update(operation.results)
        self.scopes.pop()
        if ends and last is None:
            self.fail(None, "a region ends without yield")
        return last

    def operation(self, o: Operation) -> None:
        if o.opcode in THREADED and self.kernel.level != "threaded":
            self.fail(o, "threads exist at the threaded level only")
        match o.opcode:
            case "for":
                self.loop(o)
            case "if":
                if len(o.operands) != 1 or o.operands[0].type != np.dtype(bool) or len(o.regions) != 2:
                    self.fail(o, "an if takes one bool and two regions")
                for region in o.regions:
                    self.yields(o, region, [v.type for v in o.results])
            case "load" | "store" | "atomic":
                self.access(o)
            case "constant":
                if np.asarray(o.attributes["value"]).dtype != o.results[0].type:
                    self.fail(o, "the constant has another dtype than its result")
            case "cast":
                if not all(isinstance(v.type, np.dtype) for v in (*o.operands, *o.results)):
                    self.fail(o, "only scalars are cast")
            case name if name not in STRUCTURAL:
                self.row(o)

    def access(self, o: Operation) -> None:
        pointer, index, *values = o.operands
        if not isinstance(pointer.type, Pointer):
            self.fail(o, "the first operand is a pointer")
        if index.type != self.kernel.index_dtype:
            self.fail(o, f"the index has to be {self.kernel.index_dtype}")
        for value in (*values, *o.results):
            if value.type != pointer.type.dtype:
                self.fail(o, "the value's dtype is not the pointer's")
        if o.opcode != "load" and pointer.type.space == "global" and pointer not in self.writable:
            self.fail(o, f"%{pointer.name} is not writable")

    def loop(self, o: Operation) -> None:
        if o.attributes.get("role") not in ROLES:
            self.fail(o, f"a loop's role is one of {', '.join(ROLES)}")
        if any(v.type != self.kernel.index_dtype for v in o.operands[:2]):
            self.fail(o, f"the bounds have to be {self.kernel.index_dtype}")
        carried = [v.type for v in o.results]
        if [v.type for v in o.operands[2 : 2 + len(carried)]] != carried:
            self.fail(o, "initial and carried values differ in type")
        if o.attributes["role"] == "reduce" and carried:
            if sum(accumulators(name) for name in o.attributes["combine"]) != len(carried):
                self.fail(o, "`combine` does not name a fold for each carried value")
        if [v.type for v in o.regions[0].parameters] != [self.kernel.index_dtype, *carried]:
            self.fail(o, "the region's parameters are the index and the carried values")
        self.yields(o, o.regions[0], carried)

    def yields(self, o: Operation, region: Block, types: list[object]) -> None:
        end = self.block(region, True)
        assert end is not None
        if [v.type for v in end.operands] != types:
            self.fail(o, "the region yields other types than the operation's results")

    def row(self, o: Operation) -> None:
        try:
            row = find_op(o.opcode)
        except KeyError:
            self.fail(o, "no such operation")
        if len(o.operands) != row.arity:
            self.fail(o, f"it takes {row.arity} operands")
        kinds = tuple(v.type for v in o.operands)
        if any(isinstance(k, Pointer) for k in kinds):
            self.fail(o, "operands are scalars")
        try:
            loop, result = resolve_dtypes(row, kinds)  # type: ignore[arg-type]
        except TypeError as error:
            self.fail(o, str(error))
        same = all(_same(a, b) for a, b in zip((*loop, result), (*kinds, o.results[0].type), strict=True))  # type: ignore[arg-type]
        if not same and not _wider_loop(row.name, kinds):
            self.fail(o, f"the loop for these operands is {[d.name for d in loop]} -> {result.name}")


def _same(a: np.dtype, b: np.dtype) -> bool:
    return a == b


def _wider_loop(name: str, kinds: tuple[object, ...]) -> bool:
    # rows on integers that NumPy's table sends through a wider type, and bool folds, are exact as they are
    return name in ("ldexp", "add", "multiply", "minimum", "maximum", "_population") and len(set(kinds)) <= 2


def verify_kernel(kernel: Kernel) -> None:
    """Raise KernelError where `kernel` breaks a rule."""
    verifier = _Verifier(kernel)
    names = [p.value.name for p in kernel.parameters]
    if len(set(names)) != len(names):
        verifier.fail(None, "two parameters have the same name")
    verifier.block(kernel.body, False)
