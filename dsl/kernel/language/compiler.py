"""The state of a kernel's compilation, such as the current function and the hidden parameters.

In: values of the kernel language. Out: kernel IR appended to a builder.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from weft.codegen import KernelBuilder, Value, dtype_kind, find_op, is_bfloat16, resolve_dtypes
from weft.dsl.kernel.language.kernel_errors import (
    KernelAttributeError,
    KernelError,
    KernelNameError,
    KernelSyntaxError,
    KernelTypeError,
    SourceLocation,
)
from weft.dsl.kernel.language.known import fold
from weft.dsl.kernel.language.numba_types import numba_operands, numba_result, promotes_to_double
from weft.dsl.kernel.language.source import Source
from weft.dsl.kernel.language.values import (
    BOOL,
    INT,
    WEAK,
    ArrayValue,
    Constant,
    OptionalValue,
    ScalarValue,
    TupleValue,
    beside,
    describe,
    is_number,
    number_kind,
)
from weft.dsl.kernel.language.variables import Restart, Unresolved, Variable, Variables
from weft.dsl.kernel.python_mode.argument_conversion import convert
from weft.dsl.kernel.sanitizer.tracer import Tracer

_ERRORS: dict[str, type[KernelError]] = {
    "syntax": KernelSyntaxError,
    "type": KernelTypeError,
    "name": KernelNameError,
    "attribute": KernelAttributeError,
}
# Ops that interpret bools as 0 or 1.
_COUNTING = frozenset(
    "add subtract multiply floor_divide remainder power negative positive left_shift right_shift invert absolute".split()
)
# Ops whose result is not negative if their operands are not negative.
_KEEPS_NONNEGATIVE = frozenset(
    "add multiply floor_divide remainder right_shift left_shift bitwise_and bitwise_or minimum maximum".split()
)
_GROWING = frozenset(("add", "multiply", "left_shift"))  # ops whose results may not fit in integers narrower than INT
_MOST_SHOWN = 8  # maximum number of words for values in the error record
_POWERS = {2: "square", 1: "positive", 0.5: "sqrt", -1: "reciprocal"}


@dataclass(eq=False)
class FunctionFrame:
    """The state of compiling the kernel or one call of a function."""

    compiler: Compiler
    source: Source
    path: tuple[Any, ...]
    outer: Callable[[str], Any]  # maps a free name to its value; raises KeyError
    result: Variable | None = None
    # Label of the scope that a return leaves; empty in a kernel, or if the only return is the last statement.
    label: str = ""
    function: Any = None
    called: tuple[SourceLocation, ...] = ()
    loops: list[tuple[str, str]] = field(default_factory=list)  # labels of break and continue
    parent: FunctionFrame | None = None
    returned: Any = None
    # The iterations of unrolled loops in which a variable is used, by the variable's number.
    iterations: dict[int, tuple[Any, ...]] = field(default_factory=dict)

    def key_of(self, number: int) -> tuple[Any, ...]:
        """Return the key that identifies a local variable. In an unrolled loop, a variable may have a different key in each iteration."""
        return (*self.path, number, *self.iterations.get(number, ()))

    def variable(self, key: object, name: str) -> Variable | None:
        """Return the variable to which a syntax node refers, or None in unreachable code. `key` is the node's ``id`` or a tuple with this id."""
        webs, c = self.source.webs, self.compiler
        number = webs.of.get(key)
        if number is None:
            return None
        found = c.variable(self.key_of(number), name)
        found.splittable = number in webs.splits
        if not found.split:
            return found
        parts = [c.variable((*self.key_of(number), reaching), name) for reaching in webs.parts[key]]
        return parts[0] if len(parts) == 1 else Variable(name, parts)

    def assign(self, node: ast.AST, name: str, value: object) -> None:
        """Assign a value to the variable that a node binds, unless the code is unreachable."""
        variable = self.variable(id(node), name)
        if variable is not None:
            self.compiler.assign(variable, value)

    def located(self, error: KernelError, node: ast.AST) -> KernelError:
        """Return `error`, with the source location of `node` if the error has no location."""
        return error if error.place is not None else type(error)(error.message, self.source.location(node), self.called)

    def fail(self, node: ast.AST, message: str, kind: str = "type") -> NoReturn:
        """Raise an error of the given kind at the source location of a node."""
        raise _ERRORS[kind](message, self.source.location(node), self.called)


class Compiler(Variables):
    """The compiler of a kernel for arguments of certain types."""

    def __init__(self, call: Callable[..., Any], target: Any, checked: bool, index_dtype: np.dtype) -> None:
        super().__init__()
        self.call = call  # how a call is compiled: (frame, node, function, arguments, keywords) -> value
        self.target = target
        self.checked = checked  # whether indices, lengths and optional values are checked
        self.lines = False  # whether operations have the user's line numbers
        self.tracer: Tracer | None = None  # the sanitizer's instrumentation, which records every access
        self.reporting = True  # whether asserts and raises reach the host
        self.checked_divisions: frozenset[str] = frozenset()  # ops for which a division by zero is an error
        # Whether scalars have Numba's types (int64 and float64 for Python's): as requested, and in the current
        # function.
        self.numba_asked = self.numba = False
        self.index_dtype = index_dtype
        self.recursive: dict[Any, Any] = {}  # recursive functions, kept for all runs
        self.run = 0
        self.function: Any = None  # the Python function that is being compiled
        self.made: dict[Any, Any] = {}  # syntax trees created during compilation, kept for all runs
        self.location: SourceLocation | None = None  # source location of the statement that is being compiled
        self.block: tuple[int, int, int] | None = None  # threads per block, if the kernel is compiled for a block size

    def use_types_for(self, function: Callable[..., Any]) -> None:
        """Select NumPy's promotion rules if `function` is part of weft, and the kernel's rules otherwise."""
        self.numba = self.numba_asked and not (getattr(function, "__module__", None) or "").startswith("weft.")

    def begin(self, name: str) -> None:
        """Start compiling a kernel. This is repeated until the types of all variables are known."""
        self.run += 1
        self.pending = False  # whether another run is needed: a statement was omitted, or a variable was widened
        self.widened = False  # whether a variable was widened after a use, so that this run's errors may be wrong
        self.labels = 0
        self.builder = KernelBuilder(name, self.index_dtype) if self.tracer is None else self.tracer.begin(self, name)
        self.builder.kernel.level = "threaded"
        self.sites: list[Any] = []  # errors that the kernel can report, one entry per check
        # with Numba's types: first locations at which a float32 became a float64
        self.doubles: list[SourceLocation | None] = []
        # arrays from outside, by `id`; an entry refers to its array, so that no other array has this `id`
        self.tables: dict[int, tuple[object, ArrayValue]] = {}
        self.shared: dict[Any, ArrayValue] = {}  # shared arrays, by the call that allocates them, shape and dtype
        self.arenas = {}
        self.reserved = {"shared": 0, "local": 0}  # bytes of arrays so far
        self.hidden: list[tuple[Any, ...]] = []  # parameters that follow the user's parameters
        self.hidden_values: dict[str, Value] = {}  # the parameters from `hidden_once`, by their keys
        self.launch_sites: list[tuple[Any, Any]] = []  # launches in the kernel: kernels and type descriptors
        self.arrays: list[str] = []  # the kernel's attribute ``arrays``
        self.written = set()  # numbers of the parameters that the kernel writes to
        self.exit = "kernel"  # label of the scope that a thread leaves after reporting an error
        self.callee: Any = None  # the recursive function that is being compiled
        self.occurrences: dict[Any, int] = {}
        self.stack: list[Any] = []  # the functions that are being inlined

    def occurrence(self, path: tuple[Any, ...], node: ast.AST) -> int:
        """Return how often `node` has been compiled before in this run, and count this compilation.

        A node in an unrolled loop is compiled once per iteration.
        """
        key = (path, id(node))
        count = self.occurrences.get(key, 0)
        self.occurrences[key] = count + 1
        return count

    def result(self, path: tuple[Any, ...], node: ast.AST, name: str) -> Variable:
        """Return the variable for the result of `node`.

        Within one compilation run, each repeated compilation of `node` has its own variable; all runs share these
        variables.
        """
        return self.variable((*path, id(node), self.occurrence(path, node)), name)

    def new_label(self, word: str) -> str:
        """Return a label that begins with `word` and is unique in the kernel."""
        self.labels += 1
        return f"{word}{self.labels}"

    # -- errors -----------------------------------------------------------------------------

    def fail(self, message: str, kind: str = "type") -> NoReturn:
        """Raise an error without a source location; the enclosing expression adds the location."""
        raise _ERRORS[kind](message)

    # -- numbers ----------------------------------------------------------------------------

    def number(self, value: object, what: str = "a number") -> Constant | ScalarValue:
        """Return `value` as a number, or raise KernelTypeError if it is not a number.

        An optional value is unwrapped, and an enumeration member is replaced by its value.
        """
        value = self.unwrap(value)
        if isinstance(value, ScalarValue):
            return value
        if isinstance(value, Constant):
            held = value.value
            if isinstance(held, enum.Enum) and is_number(held.value):
                return Constant(held.value)
            if is_number(held):
                return value
        self.fail(f"{what} is needed here, not {describe(value)}")

    def unwrap(self, value: object) -> Any:
        """Return the value inside an optional value, or any other value unchanged.

        In checked kernels, an optional that is None at run time is reported as an error.
        """
        if not isinstance(value, OptionalValue):
            return value
        if value.value is None:
            raise Unresolved  # an assignment later in a loop provides the value
        if self.checked:
            absent = self.builder.op("bitwise_xor", value.present, self.builder.constant(True, BOOL))
            self.report(absent, TypeError, f"{value.label or 'the value'} is None, where a value is needed")
        return value.value

    def kind(self, value: Constant | ScalarValue) -> Any:
        """Return the type of a number for promotion: the dtype, or a Python type for a weak number (NEP 50)."""
        if isinstance(value, ScalarValue):
            return WEAK[value.dtype.kind] if value.weak else value.dtype
        held = value.value
        return held.dtype if isinstance(held, np.generic) else type(held)

    def ir(self, value: object, dtype: Any = None) -> Value:
        """Return a number as a value of kernel IR, cast to `dtype` if it is given."""
        value = self.number(value)
        if isinstance(value, ScalarValue):
            return value.ir if dtype is None else self.builder.cast(value.ir, dtype)
        held = value.value
        if dtype is None:
            dtype = number_kind(held).dtype
        return self.builder.constant(_cast_constant(held, np.dtype(dtype), self.numba), dtype)

    def scalar(self, value: object) -> ScalarValue:
        """Return a number as a run-time scalar, even if it is a constant."""
        value = self.number(value)
        if isinstance(value, ScalarValue):
            return value
        number = number_kind(value.value)
        return ScalarValue(self.ir(value, number.dtype), number.weak, number.nonnegative)

    def cast(self, value: Any, dtype: Any, weak: bool = False) -> Constant | ScalarValue:
        """Cast a number to `dtype`."""
        value = self.number(value)
        dtype = np.dtype(dtype)
        if isinstance(value, Constant):
            cast = _cast_constant(value.value, dtype, self.numba)
            return Constant(cast.item() if weak else cast)
        nonnegative = dtype.kind == "u" or (dtype.kind == "i" and value.nonnegative and np.can_cast(value.dtype, dtype))
        return ScalarValue(self.builder.cast(value.ir, dtype), weak, nonnegative)

    def truth(self, value: object) -> bool | Value:
        """Return the truth of a value, as a Python bool if possible, otherwise as a run-time bool."""
        match value:
            case Constant(value=held):
                return bool(held)
            case ScalarValue():
                return value.ir if value.dtype == BOOL else self.builder.cast(value.ir, BOOL)
            case TupleValue(items=items):
                return bool(items)
            case OptionalValue(present=present, value=held):
                truth = self.truth(held) if held is not None else True
                if isinstance(truth, bool):
                    return present if truth else False
                return self.builder.op("bitwise_and", present, truth)
        self.fail(f"{describe(value)} is neither true nor false: compare it with something")

    def apply(self, name: str, *operands: Any) -> Constant | ScalarValue:
        """Apply an op to numbers, with the promotion rules of the current function."""
        numbers = [self.number(value, f"a number for {name}") for value in operands]
        if name in _COUNTING and not self.numba:
            numbers = [self._count(n) for n in numbers]
        if name == "power":
            short = self._power(*numbers)
            if short is not None:
                return short
        if all(isinstance(n, Constant) for n in numbers) and find_op(name).dunder:  # (of a Python operator)
            held = [n.value for n in numbers]  # type: ignore[union-attr]
            typed = self.numba and any(isinstance(value, np.generic) for value in held)
            if typed and all(isinstance(value, (int, np.bool_, np.integer)) for value in held):
                return self._fold_typed(name, numbers)  # type: ignore[arg-type]
            # (Numba computes an op on NumPy floats in its own types)
            if not (typed and any(isinstance(v, np.generic) and v.dtype.kind not in "biu" for v in held)):
                return fold(self, name, held)
        return self._emit_op(name, numbers)

    def _fold_typed(self, name: str, numbers: list[Constant]) -> Constant | ScalarValue:
        """Fold an op on constant integers or bools, of which at least one is a NumPy scalar. Use Numba's promotion rules."""
        definition = find_op(name)
        dtypes = tuple(number_kind(n.value).dtype for n in numbers)
        try:
            operands, result = resolve_dtypes(definition, numba_operands(definition, dtypes))
        except TypeError:
            return self._emit_op(name, numbers)  # type: ignore[arg-type]  # (reports the error)
        found = fold(self, name, [_cast_constant(n.value, d, True) for n, d in zip(numbers, operands, strict=True)])
        return found if result == BOOL else Constant(_cast_constant(found.value, numba_result(name, result), True))

    def _count(self, value: Constant | ScalarValue) -> Constant | ScalarValue:
        if isinstance(value, ScalarValue):
            return ScalarValue(self.builder.cast(value.ir, INT), True, True) if value.dtype == BOOL else value
        return Constant(int(value.value)) if isinstance(value.value, (bool, np.bool_)) else value

    def _power(self, base: Constant | ScalarValue, exponent: Constant | ScalarValue) -> Constant | ScalarValue | None:
        if not isinstance(base, ScalarValue):
            return None
        integer = base.dtype.kind in "iu"
        if isinstance(exponent, Constant) and not isinstance(exponent.value, (np.generic, complex)):
            number = exponent.value
            if integer and isinstance(number, int) and number < 0:
                if base.weak:
                    return self._emit_op("power", [self.cast(base, np.float64, weak=True), Constant(float(number))])
                self.fail("integers to negative integer powers are not allowed: make the base a float")
            if number in _POWERS and (not integer or (isinstance(number, int) and number > 0)):
                if self.numba and base.dtype.kind in "iufc" and (isinstance(number, float) or base.dtype.kind != "f"):
                    base = self.cast(base, np.result_type(base.dtype, type(number)) if not integer else INT)
                return self.apply(_POWERS[number], base)
        return None

    def _emit_op(self, name: str, numbers: list[Constant | ScalarValue]) -> ScalarValue:
        definition = find_op(name)
        kinds = beside(self.kind(n) for n in numbers)
        if self.numba and not any(isinstance(k, np.dtype) and is_bfloat16(k) for k in kinds):
            own = [number_kind(n.value) if isinstance(n, Constant) else n for n in numbers]
            kinds = numba_operands(definition, dtypes := tuple(n.dtype for n in own))  # type: ignore[union-attr]
            if not self.doubles and promotes_to_double(dtypes):
                self.doubles.append(self.location)
        try:
            dtypes, result = resolve_dtypes(definition, kinds)
        except TypeError as error:
            names = " and ".join(describe(n) for n in numbers)
            detail = "" if "ufunc" in str(error) else f": {error}"
            self.fail(f"{name} cannot be computed of {names}{detail}")
        weak = not self.numba and all(isinstance(self.kind(n), type) for n in numbers)
        values = [self.ir(n, d) for n, d in zip(numbers, dtypes, strict=True)]
        kept = name in _KEEPS_NONNEGATIVE and (result == INT or name not in _GROWING) and result.kind == "i"
        known = (n if isinstance(n, ScalarValue) else number_kind(n.value) for n in numbers)
        nonnegative = result.kind == "u" or (kept and all(n.nonnegative for n in known))
        made = self.builder.op(name, *values, dtype=result)
        if self.numba and numba_result(name, result) != result:
            made = self.builder.cast(made, numba_result(name, result))
        if result == BOOL:
            return ScalarValue(made, True)
        return ScalarValue(made, weak and result in (INT, np.float64, np.complex128), nonnegative)

    def index(self, value: object, what: str = "an index") -> Value:
        """Convert an integer or bool to a value of kernel IR with the index dtype."""
        value = self.number(value, what)
        dtype = number_kind(value.value).dtype if isinstance(value, Constant) else value.dtype
        if dtype.kind not in "biu":
            self.fail(f"{what} is an integer, not {describe(value)}: write int(...) around it")
        return self.ir(value, self.index_dtype)

    # -- reports ----------------------------------------------------------------------------

    def report(self, condition: Value | None, error: object, message: str, values: tuple[Value, ...] = ()) -> None:
        """Emit code that ends the thread and makes the launch raise `error`. If `condition` is not None, this happens only where it is true.

        If `reporting` is false, the thread ends, but the launch raises no error. `message` has a ``{}`` for each of the
        numbers `values`. A complex number takes two words of the error record, and any other number takes one word.
        """
        b = self.builder
        if condition is not None:
            with b.if_(condition):
                self.report(None, error, message, values)
            return
        if self.reporting:
            pointer = self.error_record()
            words = [word for value in values for word in self._words_of(value)]
            if len(words) > _MOST_SHOWN:
                self.fail(f"a message of a kernel shows at most {_MOST_SHOWN} values (a complex number counts as two)")
            self.sites.append((error, message, tuple(str(v.type) for v in values), self.location))
            zero, one = b.constant(0, np.int64), b.constant(1, np.int64)
            (old,) = b.emit("atomic_cas", (pointer, b.constant(0), zero, one), (INT,))
            with b.if_(b.op("equal", old, zero)):
                b.store(pointer, b.constant(1), b.constant(len(self.sites) - 1, np.int64))
                for k, (name, axis) in enumerate((w, a) for w in ("block_index", "thread_index") for a in range(3)):
                    (number,) = b.emit(name, (), (self.index_dtype,), axis=axis)
                    b.store(pointer, b.constant(2 + k), b.cast(number, np.int64))
                for k, word in enumerate(words):
                    own = b.reinterpret(pointer, np.float64) if word.type == np.float64 else pointer
                    b.store(own, b.constant(8 + k), word)
        self.end_thread()

    def end_thread(self) -> None:
        """Emit code that ends the thread. A recursive function returns, and tells its caller to end the thread."""
        callee, b = self.callee, self.builder
        if callee is not None:
            if not callee.ends:
                callee.ends = True
                raise Restart
            b.store(callee.ended, b.constant(0), b.constant(True, BOOL))
        b.leave(self.exit)

    def _words_of(self, value: Value) -> list[Value]:
        """Return the float64 or int64 values that represent a number in the error record."""
        b, dtype = self.builder, value.type
        kind = dtype_kind(dtype)  # type: ignore[arg-type]
        if kind == "c":
            part = np.dtype(f"f{dtype.itemsize // 2}")  # type: ignore[union-attr]
            return [b.cast(b.op(name, value, dtype=part), np.float64) for name in ("real", "imag")]
        return [b.cast(value, np.float64 if kind == "f" else np.int64)]

    def error_record(self) -> Value:
        """Return the hidden parameter that points to the error record, an array of 16 int64 words."""

        def make() -> Value:
            errors = self.hide("errors", INT, ("errors",))
            self.arrays.append(f"{errors.name} {16 * INT.itemsize}")
            return errors

        return self.hidden_once("errors", make)

    def visible(self, key: object, make: Callable[[], Any]) -> Any:
        """Return a value that the code being compiled can use.

        Normally, `make` creates the value. A recursive function gets the value as a hidden parameter.
        """
        if self.callee is None:
            return make()
        if key not in self.callee.hidden:
            self.callee.hidden[key] = make
            raise Restart
        return self.callee.values[key]

    def hide(self, name: str, dtype: np.dtype, what: tuple[Any, ...]) -> Value:
        """Add and return a hidden pointer parameter of the kernel. The tuple `what` identifies the argument that a launch passes."""
        self.hidden.append(what)
        return self.builder.pointer(f"{name}{len(self.hidden)}", dtype, writable=True, align=dtype.itemsize)

    def hide_scalar(self, what: str) -> Value:
        """Return the hidden scalar parameter that passes the value named `what`. Its dtype is the index dtype."""

        def make() -> Value:
            self.hidden.append((what,))
            return self.builder.scalar(f"{what}{len(self.hidden)}")

        return self.hidden_once(what, make)

    def hidden_once(self, key: str, make: Callable[[], Value]) -> Value:
        """Return the hidden parameter with a key. The first call adds the parameter to the kernel by `make`."""
        if self.callee is not None:
            return self.visible(key, lambda: self.hidden_once(key, make))
        if key not in self.hidden_values:
            self.hidden_values[key] = make()
        return self.hidden_values[key]


def _cast_constant(value: object, dtype: np.dtype, wraps: bool) -> Any:
    """Cast a number to `dtype` at compile time, with the same result as at run time.

    Python ints that are out of range wrap around if `wraps` is true and 64 bits are enough, and are errors otherwise.
    """
    if isinstance(value, enum.Enum):
        value = value.value
    if dtype.kind in "iu" and type(value) is int and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        if not wraps or not -(2**63) <= value < 2**64:
            raise KernelTypeError(f"Python int {value} is out of bounds for {dtype}")
    with np.errstate(all="ignore"):
        return convert(value, dtype)
