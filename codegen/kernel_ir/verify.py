"""The verifier of kernel IR.

In: a kernel at either level, before or after any pass. Out: nothing, or an `InvalidKernelError` that names the
kernel, the rule and, unless the kernel as a whole breaks the rule, the operation in the kernel's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NoReturn

import numpy as np

from weft.codegen.kernel_ir.dtypes import dtype_kind
from weft.codegen.kernel_ir.operation import (
    STRUCTURAL,
    SYNCHRONIZATION,
    Block,
    Function,
    Kernel,
    Operation,
    Pointer,
    Type,
    Value,
)
from weft.codegen.kernel_ir.signatures import KINDS, SIGNATURES, assembly_fault, attribute_fault, signature_fault
from weft.codegen.kernel_ir.text import print_operations, show_type
from weft.codegen.ops.op_table import accumulators, find_op, is_reduction, resolve_dtypes

# Loop roles allowed at each level. At the threaded level, parallel loops and reductions are already distributed over
# threads.
ROLES = {"logical": ("parallel", "reduce", "scan", "serial"), "threaded": ("scan", "serial")}
# Opcodes allowed at the logical level.
LOGICAL = frozenset(
    {"constant", "cast", "load", "store", "for", "if", "yield", "atomic", "transposed", "fetch", "local"}
)
BOOL = np.dtype(bool)


class InvalidKernelError(ValueError):
    """Raised if a kernel breaks a rule of kernel IR."""


def verify_kernel(kernel: Kernel) -> None:
    """Raise InvalidKernelError if a kernel breaks a rule of kernel IR."""
    verifier = _Verifier(kernel)
    if kernel.index_dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
        verifier.fail(None, f"the index dtype must be int32 or int64, not {kernel.index_dtype}")
    if kernel.level not in ROLES:
        verifier.fail(None, f"the level must be one of {', '.join(ROLES)}, not {kernel.level}")
    for parameter in kernel.parameters:
        name, kind = parameter.value.name, parameter.value.type
        if not name.isidentifier():
            verifier.fail(None, f"the name of a parameter must be an identifier, not {name!r}")
        verifier.define(None, (parameter.value,))
        inside = isinstance(kind, Pointer) and kind.space == "parameter"
        if inside != bool(parameter.by_value) or (inside and parameter.writable):
            rule = "must be read-only and have a size in bytes if and only if it is passed by value"
            verifier.fail(None, f"%{name} {rule}")
    verifier.block(kernel.body, False)
    for number, function in enumerate(kernel.functions):
        if not function.name.isidentifier() or function.name in (kernel.name, *verifier.functions):
            verifier.fail(None, f"the name of function {number} must be a unique identifier, not {function.name!r}")
        verifier.functions[function.name] = function
    for function in kernel.functions:
        verifier.function(function)
    verifier.calls()
    device = kernel.attributes.get("device")
    if device is not None and device not in verifier.functions:
        verifier.fail(None, f"the device function {device!r} must exist")


def parts_of(kernel: Kernel, block: Block) -> list[list[Operation]]:
    """Return the operations of a block as one list, or as two lists for the body of a merged kernel.

    A merged kernel runs two kernels, one after the other.

    The first list ends with the first parallel loop.
    """
    operations = block.operations
    if not kernel.attributes.get("merged") or block is not kernel.body:
        return [operations]
    loops = [k for k, o in enumerate(operations) if o.opcode == "for" and o.attributes.get("role") == "parallel"]
    return [operations[: loops[0] + 1], operations[loops[0] + 1 :]] if loops else [operations]


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.defined: set[Value] = set()  # all values defined so far
        self.names: set[str] = set()
        self.visible: list[set[Value]] = [set()]  # values visible in this block and in each block around it
        self.roles: list[str] = []  # roles of the loops around this block
        self.readonly = {p.value for p in kernel.parameters if not p.writable}
        self.zeros: set[Value] = set()
        self.labels: list[str] = []  # labels of the enclosing scopes
        self.inside: Function | None = None
        self.functions: dict[str, Function] = {}
        self.called: list[Operation] = []

    def fail(self, operation: Operation | None, rule: str) -> NoReturn:
        if operation is None:
            raise InvalidKernelError(f"kernel {self.kernel.name}: {rule}")
        text, types = print_operations(self.kernel)[operation], _show(v.type for v in operation.operands)
        raise InvalidKernelError(f"kernel {self.kernel.name}: {rule}, in '{text}' on {types}")

    def require(self, condition: bool, operation: Operation, rule: str) -> None:
        """Raise an error that names `operation` and `rule` unless `condition` holds."""
        if not condition:
            self.fail(operation, rule)

    def define(self, operation: Operation | None, values: tuple[Value, ...]) -> None:
        """Check that new values have unique names and a single definition, and record the values."""
        for value in values:
            if value in self.defined or value.name in self.names:
                self.fail(operation, f"%{value.name} must not be defined twice")
            self.defined.add(value)
            self.names.add(value.name)
            self.visible[-1].add(value)

    # -- functions ------------------------------------------------------------------------

    def function(self, function: Function) -> None:
        """Check that a function of the kernel is valid and uses only its own values."""
        self.visible, self.labels, self.roles, self.inside = [set()], [], [], function
        self.define(None, function.parameters)
        end = self.block(function.body, True)
        if end is None or end.opcode != "yield":
            self.fail(None, f"function {function.name} must end with a yield")
        if tuple(v.type for v in end.operands) != function.results:
            self.fail(end, f"function {function.name} must yield {_show(function.results)}")

    def calls(self) -> None:
        """Check that every call names an existing function and matches its signature."""
        for o in self.called:
            found = self.functions.get(str(o.attributes.get("function")))
            if found is None:
                self.fail(o, f"the called function {o.attributes.get('function')!r} must exist")
            if [v.type for v in o.operands] != [v.type for v in found.parameters]:
                self.fail(
                    o, f"the operands of a call of {found.name} must be {_show(v.type for v in found.parameters)}"
                )
            if tuple(v.type for v in o.results) != found.results:
                self.fail(o, f"the results of a call of {found.name} must be {_show(found.results)}")

    # -- blocks ---------------------------------------------------------------------------

    def block(self, block: Block, ends: bool) -> Operation | None:
        """Check a block. Return its last operation if that is a `yield` or `leave`, otherwise None."""
        last = None
        for operation in block.operations:
            if last is not None:
                self.fail(operation, f"a {last.opcode} must be the last operation of its region")
            for value in operation.operands:
                if not any(value in scope for scope in self.visible):
                    self.fail(operation, f"%{value.name} must be defined before its use")
            if operation.opcode == "yield":
                self.require(ends, operation, "a yield must be inside a region")
                last = operation
            elif operation.opcode == "leave":
                self.leave(operation)
                last = operation
            else:
                self.operation(operation)
                self.define(operation, operation.results)
        for part in parts_of(self.kernel, block):
            self._parallel_alone(part)
        return last

    def _parallel_alone(self, operations: list[Operation]) -> None:
        """Check that a block with a parallel loop contains no stores or atomics, and that this loop is its only
        operation with a region.

        The iterations of a parallel loop run concurrently.
        """
        loops = [o for o in operations if o.opcode == "for" and o.attributes.get("role") == "parallel"]
        if loops and any(o.regions or o.opcode in ("store", "atomic") for o in operations if o is not loops[0]):
            rule = "a parallel loop must be the only operation of its block with regions, stores or atomics"
            self.fail(loops[0], rule)

    def region(self, o: Operation, number: int, parameters: list[Type], yields: list[Type]) -> None:
        """Check the parameters, operations and yields of a region."""
        region = o.regions[number]
        if [v.type for v in region.parameters] != parameters:
            self.fail(o, f"the parameters of its region must be {_show(parameters)}")
        self.visible.append(set())
        self.define(o, region.parameters)
        end = self.block(region, True)
        self.visible.pop()
        if end is None:
            self.fail(o, "a region must end with a yield or leave")
        if end.opcode == "yield" and [v.type for v in end.operands] != yields:
            self.fail(o, f"its region must yield {_show(yields)}")

    # -- operations -----------------------------------------------------------------------

    def operation(self, o: Operation) -> None:
        """Check an operation and its regions."""
        if o.opcode == "if":
            self.require(len(o.operands) == 1 and len(o.regions) == 2, o, "an if must have one operand and two regions")
        if self.kernel.level != "threaded" and o.opcode in STRUCTURAL.keys() - LOGICAL:
            self.fail(o, f"{o.opcode} must be in a kernel of the threaded level")
        if self.inside is not None and o.opcode in SYNCHRONIZATION:
            self.fail(o, f"function {self.inside.name} must not synchronize threads")
        fault = signature_fault(self.kernel, o)
        if fault:
            self.fail(o, fault)
        _RULES.get(o.opcode, _Verifier.table_op)(self, o)
        fault = attribute_fault(o)
        if fault:
            self.fail(o, fault)

    def constant(self, o: Operation) -> None:
        value, kind = o.attributes.get("value"), o.results[0].type
        if not isinstance(value, np.generic) or value.dtype != kind:
            self.fail(o, f"its value must be a NumPy scalar of dtype {show_type(kind)}")
        if kind == self.kernel.index_dtype and value == 0:
            self.zeros.add(o.results[0])

    def access(self, o: Operation) -> None:
        pointer = o.operands[0]
        kind = pointer.type
        assert isinstance(kind, Pointer)
        if o.opcode != "load" and kind.space == "global" and pointer in self.readonly:
            self.fail(o, f"%{pointer.name} must be writable")
        if o.opcode != "load" and kind.space in ("constant", "parameter"):
            self.fail(o, f"{kind.space} memory must not be written")

    def atomic(self, o: Operation) -> None:
        self.access(o)
        kind, dtype = o.operands[0].type, o.operands[0].element
        self.require(kind.space in ("global", "shared"), o, "an atomic must access global or shared memory")  # type: ignore[union-attr]
        name = o.attributes.get("kind", "exchange")  # compare-and-swap is treated as an exchange
        self.require(dtype.kind in KINDS[name], o, f"an atomic of kind {name} must not access {dtype}")

    def warp_reduce(self, o: Operation) -> None:
        kind, name = o.operands[1].dtype, o.attributes["kind"]
        self.require(dtype_kind(kind) in KINDS[name], o, f"a warp must not reduce {kind} with {name}")

    def match(self, o: Operation) -> None:
        kind = o.operands[1].dtype
        self.require(dtype_kind(kind) in "iuf", o, f"the operand must be a number, not {kind}")

    def derived(self, o: Operation) -> None:
        """Check an operation that computes a pointer from another pointer."""
        old, new = o.operands[0], o.results[0]
        assert isinstance(old.type, Pointer)
        assert isinstance(new.type, Pointer)
        self.require(old.type.space == new.type.space, o, "the result must point to the same memory as the operand")
        if old in self.readonly:
            self.readonly.add(new)

    # -- control flow ---------------------------------------------------------------------

    def scope(self, o: Operation) -> None:
        label = o.attributes.get("label")
        self.has_only_a_region(o)
        self.require(isinstance(label, str) and label != "", o, "the label of a scope must be a non-empty string")
        self.require(label not in self.labels, o, f"nested scopes must not have the same label, {label}")
        self.labels.append(str(label))
        self.region(o, 0, [], [])
        self.labels.pop()

    def repeat(self, o: Operation) -> None:
        self.has_only_a_region(o)
        self.region(o, 0, [], [])

    def has_only_a_region(self, o: Operation) -> None:
        counts = len(o.operands), len(o.results), len(o.regions)
        self.require(counts == (0, 0, 1), o, f"a {o.opcode} must have one region, and no operands or results")

    def leave(self, o: Operation) -> None:
        plain = not (o.operands or o.results or o.regions)
        self.require(plain, o, "a leave must not have operands, results or regions")
        self.require(self.kernel.level == "threaded", o, "a leave must be in a kernel of the threaded level")
        label = o.attributes.get("label")
        self.require(label in self.labels, o, f"an enclosing scope must have the label {label}")

    def call(self, o: Operation) -> None:
        self.called.append(o)  # checked when all functions have been seen
        self.require(not o.regions, o, "a call must not have regions")

    def branch(self, o: Operation) -> None:
        self.require(o.operands[0].type == BOOL, o, "the condition must be a bool")
        self.numbers(o)
        for number in range(2):
            self.region(o, number, [], [v.type for v in o.results])

    def numbers(self, o: Operation) -> None:
        """Check that a control-flow operation returns only numbers and bools, and no pointers."""
        self.require(not any(isinstance(v.type, Pointer) for v in o.results), o, "its results must be numbers or bools")

    def loop(self, o: Operation) -> None:
        self.numbers(o)
        role, carried = o.attributes.get("role"), [v.type for v in o.results]
        level, roles = self.kernel.level, ROLES[self.kernel.level]
        self.require(role in roles, o, f"the role of a loop at the {level} level must be one of {', '.join(roles)}")
        lanes, index = o.attributes.get("lanes", 0), self.kernel.index_dtype
        # a vectorized reduction also takes the accumulators' identities, and has a region that combines two sets of
        # accumulators
        times = 2 if lanes and carried else 1
        expected = [index, index, *carried * times] + [index] * bool(o.attributes.get("step_from"))
        if [v.type for v in o.operands] != expected:
            self.fail(o, f"its operands must be {_show(expected)}")
        step = o.attributes.get("step", 1)
        self.require(isinstance(step, int) and step > 0, o, "its step must be a positive integer")
        self.require(isinstance(lanes, int) and lanes >= 0, o, "its lanes must be a non-negative integer")
        self.require(len(o.regions) == times, o, f"it must have {times} regions")
        if role == "parallel":
            self.require(not carried, o, "a parallel loop must not carry values between iterations")
            outermost = set(self.roles) <= {"parallel"}
            self.require(outermost, o, "a parallel loop must not be inside a loop of another role")
            self.require(o.operands[0] in self.zeros, o, "a parallel loop must start at the constant 0")
        self.combine(o, carried)
        self.roles.append(str(role))
        self.region(o, 0, [index, *carried], carried)
        self.roles.pop()
        if times == 2:
            self.region(o, 1, carried * 2, carried)

    def combine(self, o: Operation, carried: list[Type]) -> None:
        names = o.attributes.get("combine", ())
        for name in names:
            self.require(is_reduction(name), o, f"its reductions must exist, but {name} does not")
        if o.attributes["role"] != "reduce":
            self.require(not names, o, "a loop must have the role reduce to combine values")
        elif sum(accumulators(name) for name in names) != len(carried):
            self.fail(o, f"its reductions ({', '.join(names)}) must match its {len(carried)} carried values")

    # -- memory and other operations ---------------------------------------------------------

    def array(self, o: Operation) -> None:
        kind = o.results[0].type
        if not isinstance(kind, Pointer) or kind.space != o.opcode:
            self.fail(o, f"its result must be a pointer to {o.opcode} memory")
        count = o.attributes.get("count")
        self.require(isinstance(count, int) and count > 0, o, "its count must be a positive integer")

    def tile(self, o: Operation) -> None:
        old, new, size = o.operands[0].type, o.results[0].type, o.attributes.get("size")
        assert isinstance(old, Pointer)
        self.require(new == Pointer(old.dtype, "local"), o, "its result must point to local memory of the same dtype")
        self.require(isinstance(size, int) and size > 0, o, "its size must be a positive integer")

    def dynamic(self, o: Operation) -> None:
        is_bytes = o.results[0].type == Pointer(np.dtype(np.uint8), "shared")
        self.require(is_bytes, o, "its result must point to bytes in shared memory")

    def table(self, o: Operation) -> None:
        kind, values = o.results[0].type, o.attributes.get("values")
        if not isinstance(kind, Pointer) or kind.space != "constant":
            self.fail(o, "its result must be a pointer to constant memory")
        if not isinstance(values, np.ndarray) or values.ndim != 1 or not len(values) or values.dtype != kind.dtype:
            self.fail(o, f"its values must be a non-empty 1-D array of {kind.dtype}")

    def print(self, o: Operation) -> None:
        pieces, formats = o.attributes.get("pieces", ()), o.attributes.get("formats", ())
        if not all(isinstance(v.type, np.dtype) for v in o.operands) or o.results or o.regions:
            self.fail(o, "its operands must be scalars, and it must not have results or regions")
        count = len(o.operands)
        texts = len(pieces) == count + 1 and all(isinstance(p, str) for p in pieces)
        self.require(texts, o, f"its pieces must be {count + 1} strings")
        self.require(len(formats) in (0, count), o, f"it must have no formats or {count} formats")
        for text, value in zip(formats, o.operands, strict=False):
            letters = "eEfFgG" if dtype_kind(value.type) == "f" else "dixXo"  # type: ignore[arg-type]
            good = re.fullmatch(rf"([-+ 0#]*\d*(\.\d+)?[{letters}])?", text)
            self.require(good is not None, o, f"the format {text!r} must be valid for {show_type(value.type)}")

    def trace(self, o: Operation) -> None:
        width, numbers = self.kernel.attributes.get("trace"), o.operands
        if numbers and isinstance(numbers[0].type, Pointer):
            numbers = numbers[1:]
        plain = all(isinstance(v.type, np.dtype) and v.type.kind in "biuf" for v in numbers)
        self.require(plain, o, "its operands must be numbers, after at most one pointer")
        fits = isinstance(width, int) and width >= 3 + len(numbers)
        self.require(fits, o, "the attribute trace of the kernel must be the width of its events")
        is_bool = [v.type for v in o.results] == [BOOL] and not o.regions
        self.require(is_bool, o, "its result must be a bool, and it must not have regions")
        for key, least in (("site", 0), ("align", 1)):
            value = o.attributes.get(key, least)
            good = isinstance(value, int) and value >= least
            self.require(good, o, f"its {key} must be an integer of at least {least}")

    def external(self, o: Operation) -> None:
        symbol = o.attributes.get("symbol")
        pattern = r"[A-Za-z_]\w*" if "links" in o.attributes else r"__nv_\w+"
        good = isinstance(symbol, str) and re.fullmatch(pattern, symbol, re.ASCII)
        self.require(bool(good), o, "its symbol must be a function of libdevice (__nv_...) or of linked code")
        self.require(len(o.results) <= 1 and not o.regions, o, "it must have at most one result and no regions")

    def assembly(self, o: Operation) -> None:
        for key in ("template", "constraints"):
            self.require(isinstance(o.attributes.get(key), str), o, f"its {key} must be a string")
        self.require(not o.regions, o, "inline assembly must not have regions")
        fault = assembly_fault(o)
        if fault:
            self.fail(o, fault)

    def nothing(self, o: Operation) -> None:
        """Do nothing, because the check of the signature is sufficient for this operation."""

    def table_op(self, o: Operation) -> None:
        try:
            definition = find_op(o.opcode)
        except KeyError:
            self.fail(o, f"the operation {o.opcode} must exist")
        if len(o.operands) != definition.arity or len(o.results) != 1:
            self.fail(o, f"{definition.name} must have {definition.arity} operands and one result")
        kinds = tuple(v.type for v in o.operands)
        result = o.results[0].type
        if not all(isinstance(k, np.dtype) for k in (*kinds, result)):
            self.fail(o, "the operands and the result of an op must be scalars")
        try:
            loop, given = resolve_dtypes(definition, kinds)  # type: ignore[arg-type]
        except TypeError as error:
            self.fail(o, str(error))
        if (*loop, given) != (*kinds, result) and not _is_own_loop(definition.name, kinds, result):
            self.fail(o, f"the dtypes must be ({', '.join(d.name for d in loop)}) -> {given.name}")


def _show(types: Iterable[Type]) -> str:
    return f"({', '.join(map(show_type, types))})"


def _is_own_loop(name: str, kinds: tuple[object, ...], result: object) -> bool:
    # NumPy's loops use other dtypes here, but the operation on the bits is the same
    return name in ("ldexp", "_population") and result == kinds[0]


_RULES: dict[str, Callable[[_Verifier, Operation], None]] = {
    **dict.fromkeys(SIGNATURES, _Verifier.nothing),
    "constant": _Verifier.constant,
    "load": _Verifier.access,
    "transposed": _Verifier.tile,
    "store": _Verifier.access,
    "atomic": _Verifier.atomic,
    "atomic_cas": _Verifier.atomic,
    "if": _Verifier.branch,
    "for": _Verifier.loop,
    "scope": _Verifier.scope,
    "repeat": _Verifier.repeat,
    "call": _Verifier.call,
    "offset": _Verifier.derived,
    "reinterpret": _Verifier.derived,
    "shared": _Verifier.array,
    "local": _Verifier.array,
    "dynamic_shared": _Verifier.dynamic,
    "table": _Verifier.table,
    "vote": _Verifier.nothing,
    "match": _Verifier.match,
    "warp_reduce": _Verifier.warp_reduce,
    "print": _Verifier.print,
    "trace": _Verifier.trace,
    "external": _Verifier.external,
    "assembly": _Verifier.assembly,
}
