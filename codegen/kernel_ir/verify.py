"""The verifier: nothing that breaks a rule of kernel IR reaches code generation.

In: a kernel at either level, before or after any pass. Out: nothing, or a `KernelError` that names the kernel, the
operation as it stands in the kernel's text, and the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np

from weft.codegen.kernel_ir.operation import STRUCTURAL, Block, Kernel, Operation, Pointer, Type, Value
from weft.codegen.kernel_ir.text import print_operation, show_type
from weft.codegen.ops import accumulators, find_op, resolve_dtypes

# Roles of loops at each level: threads have been given their share of parallel loops and folds.
ROLES = {"logical": ("parallel", "reduce", "scan", "serial"), "threaded": ("scan", "serial")}
THREADED = frozenset(
    {"thread_index", "block_index", "block_size", "grid_size", "barrier", "shared", "local", "shuffle_xor", "atomic"}
)
FOLDS = frozenset(
    {
        "add",
        "multiply",
        "minimum",
        "maximum",
        "fmin",
        "fmax",
        "logical_xor",
        "logical_and",
        "logical_or",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "argmin",
        "argmax",
    }
)
BOOL = np.dtype(bool)


class KernelError(ValueError):
    """A kernel breaks a rule; the message names kernel, operation and rule."""


def verify_kernel(kernel: Kernel) -> None:
    """Check every rule. Raises KernelError where `kernel` breaks one."""
    verifier = _Verifier(kernel)
    if kernel.index_dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
        verifier.fail(None, f"an index is int32 or int64, not {kernel.index_dtype}")
    if kernel.level not in ROLES:
        verifier.fail(None, f"a kernel's level is one of {', '.join(ROLES)}, not {kernel.level}")
    for parameter in kernel.parameters:
        if not parameter.value.name.isidentifier():
            verifier.fail(None, f"a parameter is called {parameter.value.name!r}: names are identifiers")
        verifier.define(None, (parameter.value,))
    verifier.block(kernel.body, False)


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.defined: set[Value] = set()  # everywhere
        self.names: set[str] = set()
        self.visible: list[set[Value]] = [set()]  # in this block and those around it
        self.roles: list[str] = []  # of the loops around
        self.writable = {p.value for p in kernel.parameters if p.writable}
        self.zeros: set[Value] = set()

    def fail(self, operation: Operation | None, rule: str) -> NoReturn:
        if operation is None:
            raise KernelError(f"kernel {self.kernel.name}: {rule}")
        types = ", ".join(show_type(v.type) for v in operation.operands)
        text = print_operation(self.kernel, operation)
        raise KernelError(f"kernel {self.kernel.name}: {rule}, in '{text}' on ({types})")

    def require(self, condition: bool, operation: Operation, rule: str) -> None:
        """Fail unless `condition` holds."""
        if not condition:
            self.fail(operation, rule)

    def define(self, operation: Operation | None, values: tuple[Value, ...]) -> None:
        """Note that values are defined here, once and with names of their own."""
        for value in values:
            if value in self.defined or value.name in self.names:
                self.fail(operation, f"%{value.name} is defined twice")
            self.defined.add(value)
            self.names.add(value.name)
            self.visible[-1].add(value)

    # -- blocks ---------------------------------------------------------------------------

    def block(self, block: Block, ends: bool) -> Operation | None:
        """Check a block; its `yield`."""
        last = None
        for operation in block.operations:
            if last is not None:
                self.fail(operation, "an operation after the yield that ends its region")
            for value in operation.operands:
                if not any(value in scope for scope in self.visible):
                    self.fail(operation, f"%{value.name} is used where it is not defined")
            if operation.opcode == "yield":
                self.require(ends, operation, "a yield outside a region")
                last = operation
                continue
            self.operation(operation)
            self.define(operation, operation.results)
        self._parallel_alone(block)
        return last

    def _parallel_alone(self, block: Block) -> None:
        """A parallel loop is cut into chunks that run at once: nothing with an effect may stand beside it."""
        loops = [o for o in block.operations if o.opcode == "for" and o.attributes.get("role") == "parallel"]
        if loops and any(o.regions or o.opcode in ("store", "atomic") for o in block.operations if o is not loops[0]):
            self.fail(loops[0], "loops, stores or an if beside a parallel loop")

    def region(self, o: Operation, number: int, parameters: list[Type], yields: list[Type]) -> None:
        """Check a region's parameters, what is in it, and what it yields."""
        region = o.regions[number]
        if [v.type for v in region.parameters] != parameters:
            self.fail(o, f"its region takes ({', '.join(show_type(t) for t in parameters)})")
        self.visible.append(set())
        self.define(o, region.parameters)
        end = self.block(region, True)
        self.visible.pop()
        if end is None:
            self.fail(o, "a region ends without a yield")
        if [v.type for v in end.operands] != yields:
            self.fail(o, f"its region yields ({', '.join(show_type(t) for t in yields)})")

    # -- operations -----------------------------------------------------------------------

    def operation(self, o: Operation) -> None:
        """Check one operation with everything inside it."""
        if o.opcode == "if":
            self.require(len(o.operands) == 1 and len(o.regions) == 2, o, "an if has a condition and two regions")
        if o.opcode in THREADED and self.kernel.level != "threaded":
            self.fail(o, "threads exist at the threaded level only")
        shape = _SHAPES.get(o.opcode)
        if shape is not None and (len(o.operands), len(o.results), len(o.regions)) != shape:
            self.fail(o, f"{o.opcode} has {shape[0]} operands, {shape[1]} results and {shape[2]} regions")
        rule = _RULES.get(o.opcode)
        if rule is not None:
            rule(self, o)
        elif o.opcode in STRUCTURAL:
            self.fail(o, "an operation without a rule")
        else:
            self.row(o)

    def constant(self, o: Operation) -> None:
        value, kind = o.attributes.get("value"), o.results[0].type
        if not isinstance(value, np.generic) or value.dtype != kind:
            self.fail(o, f"its value is a NumPy scalar of dtype {show_type(kind)}")
        if kind == self.kernel.index_dtype and value == 0:
            self.zeros.add(o.results[0])

    def cast(self, o: Operation) -> None:
        self.require(
            all(isinstance(v.type, np.dtype) for v in (*o.operands, *o.results)), o, "only scalars can be cast"
        )

    def access(self, o: Operation) -> None:
        pointer, index, *values = o.operands
        kind = pointer.type
        if not isinstance(kind, Pointer):
            self.fail(o, "the first operand is a pointer")
        if index.type != self.kernel.index_dtype:
            self.fail(o, f"an index is {self.kernel.index_dtype}")
        if any(v.type != kind.dtype for v in (*values, *o.results)):
            self.fail(o, f"a value of another dtype than the pointer's, {kind.dtype}")
        if o.opcode != "load" and kind.space == "global" and pointer not in self.writable:
            self.fail(o, f"%{pointer.name} is not writable")
        if o.opcode == "atomic" and o.attributes.get("kind") not in (FOLDS - {"argmin", "argmax"}) | {"exchange"}:
            self.fail(o, "an atomic's kind is a fold's name or exchange")

    def branch(self, o: Operation) -> None:
        self.require(o.operands[0].type == BOOL, o, "a condition is a bool")
        for number in range(2):
            self.region(o, number, [], [v.type for v in o.results])

    def loop(self, o: Operation) -> None:
        role, carried = o.attributes.get("role"), [v.type for v in o.results]
        roles = ROLES[self.kernel.level]
        self.require(role in roles, o, f"at the {self.kernel.level} level a loop's role is one of {', '.join(roles)}")
        lanes, index = o.attributes.get("lanes", 0), self.kernel.index_dtype
        # a vectorised fold has the accumulators' identities too, and a region that combines two sets of them
        times = 2 if lanes and carried else 1
        expected = [index, index, *carried * times] + [index] * bool(o.attributes.get("step_from"))
        if [v.type for v in o.operands] != expected:
            self.fail(o, f"it takes ({', '.join(show_type(t) for t in expected)})")
        step = o.attributes.get("step", 1)
        self.require(isinstance(step, int) and step > 0, o, "a step is a positive number")
        self.require(isinstance(lanes, int) and lanes >= 0, o, "lanes are a number")
        self.require(len(o.regions) == times, o, f"it has {times} regions")
        if role == "parallel":
            self.require(not carried, o, "a parallel loop carries nothing from turn to turn")
            self.require(set(self.roles) <= {"parallel"}, o, "a parallel loop inside a loop that is not")
            self.require(o.operands[0] in self.zeros, o, "a parallel loop starts at the constant 0")
        self.combine(o, carried)
        self.roles.append(str(role))
        self.region(o, 0, [index, *carried], carried)
        self.roles.pop()
        if times == 2:
            self.region(o, 1, carried * 2, carried)

    def combine(self, o: Operation, carried: list[Type]) -> None:
        names = o.attributes.get("combine", ())
        for name in names:
            self.require(name in FOLDS, o, f"no fold is called {name}")
        if o.attributes["role"] != "reduce":
            self.require(not names, o, "only a reduce loop combines")
        elif sum(accumulators(name) for name in names) != len(carried):
            self.fail(o, f"{', '.join(names) or 'no fold'} for {len(carried)} carried values")

    def place(self, o: Operation) -> None:
        self.require(o.results[0].type == self.kernel.index_dtype, o, f"an index is {self.kernel.index_dtype}")
        self.require(o.attributes.get("axis", 0) in (0, 1, 2), o, "an axis is 0, 1 or 2")

    def array(self, o: Operation) -> None:
        kind = o.results[0].type
        if not isinstance(kind, Pointer) or kind.space != o.opcode:
            self.fail(o, f"its result is a pointer to {o.opcode} memory")
        count = o.attributes.get("count")
        self.require(isinstance(count, int) and count > 0, o, "the count is a positive number")

    def shuffle(self, o: Operation) -> None:
        self.require(isinstance(o.operands[0].type, np.dtype), o, "only scalars can be shuffled")
        self.require(o.results[0].type == o.operands[0].type, o, "its result is of another dtype")
        self.require(o.attributes.get("mask") in (1, 2, 4, 8, 16), o, "a mask is 1, 2, 4, 8 or 16")

    def nothing(self, o: Operation) -> None:
        """No rule but its shape."""

    def row(self, o: Operation) -> None:
        try:
            row = find_op(o.opcode)
        except KeyError:
            self.fail(o, "no such operation")
        if len(o.operands) != row.arity or len(o.results) != 1:
            self.fail(o, f"{row.name} takes {row.arity} operands and gives one result")
        kinds = tuple(v.type for v in o.operands)
        result = o.results[0].type
        if not all(isinstance(k, np.dtype) for k in (*kinds, result)):
            self.fail(o, "operands and results of a row are scalars")
        try:
            loop, given = resolve_dtypes(row, kinds)  # type: ignore[arg-type]
        except TypeError as error:
            self.fail(o, str(error))
        if (*loop, given) != (*kinds, result) and not _is_own_loop(row.name, kinds, result):
            self.fail(o, f"the loop for these operands is ({', '.join(d.name for d in loop)}) -> {given.name}")


def _is_own_loop(name: str, kinds: tuple[object, ...], result: object) -> bool:
    # NumPy's table sends these through other dtypes, but what they do to the bits is the same
    return name in ("ldexp", "_population") and result == kinds[0]


# Operands, results and regions of those that always have as many.
_SHAPES = {
    "constant": (0, 1, 0),
    "cast": (1, 1, 0),
    "load": (2, 1, 0),
    "store": (3, 0, 0),
    "thread_index": (0, 1, 0),
    "block_index": (0, 1, 0),
    "block_size": (0, 1, 0),
    "grid_size": (0, 1, 0),
    "barrier": (0, 0, 0),
    "shared": (0, 1, 0),
    "local": (0, 1, 0),
    "shuffle_xor": (1, 1, 0),
    "atomic": (3, 1, 0),
}
_RULES: dict[str, Callable[[_Verifier, Operation], None]] = {
    "constant": _Verifier.constant,
    "cast": _Verifier.cast,
    "load": _Verifier.access,
    "store": _Verifier.access,
    "atomic": _Verifier.access,
    "if": _Verifier.branch,
    "for": _Verifier.loop,
    "thread_index": _Verifier.place,
    "block_index": _Verifier.place,
    "block_size": _Verifier.place,
    "grid_size": _Verifier.place,
    "barrier": _Verifier.nothing,
    "shared": _Verifier.array,
    "local": _Verifier.array,
    "shuffle_xor": _Verifier.shuffle,
}
