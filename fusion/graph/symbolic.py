"""Conversion of sympy expressions and their derivatives to straight-line programs of ops.

In: symbols and expressions. Out: a `SymbolicProgram`, which does not depend on sympy. sympy is imported here on first
use. Invariant: an instruction refers only to earlier instructions. Numbers are Python numbers, so they take the dtype
of the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any

from weft.runtime import uninterruptible

# ("symbol", k) | ("number", value) | (op, operand, ...), where operands are indices of instructions.
Instruction = tuple[Any, ...]

# sympy functions that are ops, under the same or another name.
_SAME = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh erf erfc gamma sign floor sqrt cbrt hypot conjugate"
)
_ROWS = {name: name for name in _SAME.split()} | {
    "Abs": "absolute",
    "acos": "arccos",
    "asin": "arcsin",
    "atan": "arctan",
    "atan2": "arctan2",
    "acosh": "arccosh",
    "asinh": "arcsinh",
    "atanh": "arctanh",
    "ceiling": "ceil",
    "loggamma": "lgamma",
    "re": "real",
    "im": "imag",
    "Mod": "remainder",
    "StrictLessThan": "less",
    "LessThan": "less_equal",
    "StrictGreaterThan": "greater",
    "GreaterThan": "greater_equal",
    "Equality": "equal",
    "Unequality": "not_equal",
    "Not": "logical_not",
    "Heaviside": "heaviside",
    "ITE": "where",
}
# Functions that are the reciprocal of another function, and functions of the reciprocal of their argument.
_RECIPROCALS = {"sec": "cos", "csc": "sin", "cot": "tan", "sech": "cosh", "csch": "sinh", "coth": "tanh"}
_OF_RECIPROCALS = {
    "asec": "arccos",
    "acsc": "arcsin",
    "acot": "arctan",
    "asech": "arccosh",
    "acsch": "arcsinh",
    "acoth": "arctanh",
}
_FOLDED = {"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor", "Min": "minimum", "Max": "maximum"}
_COMPOSED = ("sinc", "arg", "frac", "factorial")  # see `_Writer.compose`
# Maximum integer exponent of powers that become products.
_LARGEST_POWER = 64
_LARGEST_INTEGER = 2**63 - 1


@dataclass(slots=True)
class SymbolicProgram:
    """A straight-line program that was converted from sympy, with the indices of its results.

    `shape` is the shape of a matrix or array of results, otherwise None.
    """

    instructions: list[Instruction] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    shape: tuple[int, ...] | None = None
    gradients: list[list[int]] = field(default_factory=list)  # per result: one index per symbol of `wrt`


@lru_cache(maxsize=1)
def load_sympy() -> Any:
    """Import sympy with Ctrl-C deferred."""
    # (operators of a partially imported sympy would give wrong results)
    return uninterruptible(lambda: import_module("sympy"), "sympy")


def entries_of(symbol: Any) -> tuple[tuple[int, ...], list[Any]] | None:
    """Return the shape and the elements of an array of sympy symbols, or None for a single symbol.

    An array is a sequence or a matrix of symbols, or a MatrixSymbol. Raises TypeError for other arguments.
    """
    sympy = load_sympy()
    if isinstance(symbol, (list, tuple, sympy.Tuple)):
        return (len(symbol),), list(symbol)
    if isinstance(symbol, (sympy.MatrixBase, sympy.MatrixSymbol)):
        explicit = symbol.as_explicit()
        return tuple(int(n) for n in explicit.shape), list(explicit)
    if not (isinstance(symbol, sympy.Basic) and (symbol.is_Symbol or isinstance(symbol, sympy.Indexed))):
        raise TypeError(f"an argument is a symbol, a sequence or a matrix of symbols, not {symbol!r}")
    return None


def as_symbol(number: Any) -> Any:
    """Return a NumPy scalar as a sympy number."""
    return import_module("sympy").sympify(number)


def convert_sympy(symbols: Sequence[Any], expression: Any, wrt: Sequence[Any] = ()) -> SymbolicProgram:
    """Convert an expression, or a matrix, array or sequence of expressions, to a program.

    Parameters
    ----------
    symbols : sequence of sympy.Symbol
    expression : sympy expression, Matrix, Array, or sequence of expressions
    wrt : sequence of sympy.Symbol
        Symbols to differentiate each expression by.

    Raises
    ------
    TypeError
        If `expression` is of another type, or contains a function without a counterpart among the ops.
    NameError
        For a symbol that is not among `symbols`.
    """
    sympy = load_sympy()
    shape, wanted = _expressions(expression)
    for symbol in wrt:
        if symbol not in symbols:
            raise NameError(f"cannot differentiate by {symbol}, which is not among the arguments")
    derivatives = [[_derivative(e, s) for s in wrt] for e in wanted]
    flat = [*wanted, *(d for row in derivatives for d in row)]
    shared, reduced = sympy.cse(flat, symbols=sympy.numbered_symbols("_shared"), order="none")
    writer = _Writer(sympy, SymbolicProgram(shape=shape))
    for k, symbol in enumerate(symbols):
        writer.known[symbol] = writer.put(("symbol", k))
    for symbol, part in shared:
        writer.known[symbol] = writer.number_of(part)
    indices = [writer.number_of(part) for part in reduced]
    program = writer.program
    program.results = indices[: len(wanted)]
    rest = iter(indices[len(wanted) :])
    program.gradients = [[next(rest) for _ in wrt] for _ in wanted] if wrt else []
    return program


def _expressions(given: object) -> tuple[tuple[int, ...] | None, list[Any]]:
    """Return a shape and a list of SymPy expressions to compute. The shape is None unless `given` is a matrix or array.

    Sums, products, integrals, derivatives, substitutions and limits in these expressions are evaluated.
    """
    sympy = load_sympy()
    shape = None
    if isinstance(given, sympy.MatrixExpr):
        given = given.as_explicit()
    if isinstance(given, (sympy.MatrixBase, sympy.NDimArray)):
        shape = tuple(int(n) for n in given.shape)
        wanted = list(sympy.flatten(given.tolist())) if shape else [given[()]]
    else:
        wanted = list(given) if isinstance(given, (list, tuple, sympy.Tuple)) else [given]
    found = []
    for part in wanted:
        value = sympy.sympify(part) if not isinstance(part, (list, tuple, dict, set)) else part
        if not isinstance(value, (sympy.Expr, sympy.logic.boolalg.Boolean)):
            raise TypeError(
                f"an expression, a matrix, an array, or a list or tuple of expressions is wanted, not {given!r}"
            )
        if value.has(sympy.Sum, sympy.Product, sympy.Integral, sympy.Derivative, sympy.Subs, sympy.Limit):
            value = value.doit()
        found.append(value.expand(func=True) if value.has(sympy.binomial) else value)
    return shape, found


def _derivative(expression: Any, symbol: Any) -> Any:
    """Differentiate an expression; the result may be wrong at isolated points.

    For example, the derivative of ``floor`` is wrong at its steps.

    A function without a complex derivative is treated as a function of real numbers.
    """
    sympy = load_sympy()
    found = sympy.diff(expression, symbol)
    if found.has(sympy.Derivative, sympy.Subs):
        real = {s: sympy.Dummy(s.name, real=True) for s in expression.free_symbols if s.is_Symbol and s.is_real is None}
        if symbol in real:
            back = {dummy: s for s, dummy in real.items()}
            found = sympy.diff(expression.xreplace(real), real[symbol]).xreplace(back)
    steps = {d for d in found.atoms(sympy.Derivative) if isinstance(d.expr, (sympy.floor, sympy.ceiling))}
    return found.xreplace(dict.fromkeys(steps | found.atoms(sympy.DiracDelta), sympy.Integer(0)))


class _Writer:
    def __init__(self, sympy: Any, program: SymbolicProgram) -> None:
        self.sympy = sympy
        self.program = program
        self.known: dict[Any, int] = {}
        self.found: dict[Instruction, int] = {}

    def put(self, instruction: Instruction) -> int:
        """Append an instruction, or find an equal one, and return its index."""
        key = (*instruction, type(instruction[1])) if instruction[0] == "number" else instruction
        index = self.found.get(key)
        if index is None:
            index = self.found[key] = len(self.program.instructions)
            self.program.instructions.append(instruction)
        return index

    def number_of(self, root: object) -> int:
        """Write the instructions of an expression, and return the index of its value."""
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self.known:
                stack.pop()
                continue
            missing = [part for part in self.parts(node) if part not in self.known]
            if missing:
                stack.extend(missing)
                continue
            self.known[node] = self.write(node)
            stack.pop()
        return self.known[root]

    def parts(self, node: Any) -> tuple[Any, ...]:
        """Return the subexpressions of a sympy expression that must be computed before the expression itself."""
        if not node.args or node.is_number:
            return ()
        if not isinstance(node, (self.sympy.Add, self.sympy.Mul, self.sympy.Pow, self.sympy.Piecewise)):
            name = type(node).__name__
            if name in ("MatrixElement", "Indexed"):
                raise NameError(f"symbol {node} is not among the arguments")
            if not any(name in table for table in (_ROWS, _FOLDED, _RECIPROCALS, _OF_RECIPROCALS, _COMPOSED)):
                raise TypeError(f"{name} has no counterpart among weft's functions, in {node}")
        if isinstance(node, self.sympy.Piecewise):
            return tuple(part for pair in node.args for part in pair.args)
        if isinstance(node, self.sympy.Pow) and node.exp.is_Rational:
            return (node.base,)
        if isinstance(node, self.sympy.Mul):
            return tuple(part.base if self.is_divisor(part) else part for part in node.args)
        return tuple(node.args)

    def is_divisor(self, part: Any) -> bool:
        """Return whether to write the multiplication by `part` as a division.

        For example, ``y * x**-2`` becomes ``y / x**2``.

        This is done for powers with negative rational exponents, unless they are numbers.
        """
        is_power = isinstance(part, self.sympy.Pow) and part.exp.is_Rational and not part.is_number
        return is_power and bool(part.exp.is_negative)

    def write(self, node: Any) -> int:
        """Write an expression whose operands have been written, and return the index of its value."""
        sympy = self.sympy
        if node.is_Symbol:
            alike = any(str(other) == str(node) for other in self.known)
            hint = ", which have one of that name with other assumptions" if alike else ""
            raise NameError(f"symbol {node} is not among the arguments{hint}")
        if node in (sympy.true, sympy.false):
            return self.put(("number", bool(node)))
        if node.is_number:
            return self.put(("number", self.constant(node)))
        operands = [self.known[part] for part in self.parts(node)]
        if isinstance(node, sympy.Add):
            return self.chain("add", operands)
        if isinstance(node, sympy.Mul):
            return self.quotient(node)
        if isinstance(node, sympy.Pow):
            return self.power(node)
        if isinstance(node, sympy.Piecewise):
            return self.piecewise(node)
        name = type(node).__name__
        if name in _FOLDED:
            return self.chain(_FOLDED[name], operands)
        if name in _RECIPROCALS:
            return self.inverse(self.put((_RECIPROCALS[name], *operands)))
        if name in _OF_RECIPROCALS:
            return self.put((_OF_RECIPROCALS[name], self.inverse(operands[0])))
        if name in _COMPOSED:
            return self.compose(name, operands[0])
        return self.put((_ROWS[name], *operands))

    def number(self, value: object) -> int:
        """Write an instruction for a constant given as a Python number."""
        return self.put(("number", value))

    def inverse(self, index: int) -> int:
        """Write 1 / x for the value x at `index`, and return the index of the result."""
        return self.put(("divide", self.number(1), index))

    def compose(self, name: str, x: int) -> int:
        """Write a sympy function as several ops."""
        match name:
            case "sinc":
                zero = self.put(("equal", x, self.number(0)))
                return self.put(("where", zero, self.number(1.0), self.put(("divide", self.put(("sin", x)), x))))
            case "arg":
                return self.put(("arctan2", self.put(("imag", x)), self.put(("real", x))))
            case "frac":
                return self.put(("subtract", x, self.put(("floor", x))))
            case _:  # factorial
                return self.put(("gamma", self.put(("add", x, self.number(1)))))

    def quotient(self, node: Any) -> int:
        """Write a sympy product as a quotient. The factors for which `is_divisor` is true form its divisor."""
        above: list[int] = []
        below: list[int] = []
        for part in node.args:
            if self.is_divisor(part):
                below.append(self.power(part, invert=True))
            else:
                above.append(self.known[part])
        top = self.chain("multiply", above) if above else self.number(1)
        return self.put(("divide", top, self.chain("multiply", below))) if below else top

    def constant(self, node: Any) -> Any:
        """Return a sympy number as a Python number."""
        if node.is_Integer and abs(int(node)) <= _LARGEST_INTEGER:
            return int(node)
        return complex(node) if node.is_extended_real is False else float(node)

    def chain(self, row: str, operands: list[int]) -> int:
        """Write an op with one or more operands as a series of binary ops."""
        index = operands[0]
        for other in operands[1:]:
            index = self.put((row, index, other))
        return index

    def power(self, node: Any, invert: bool = False) -> int:
        """Write a power as products (small integer exponents), ``sqrt``, ``exp``, or a call of ``power``.

        A power with a negative rational exponent becomes a reciprocal. With `invert`, write the reciprocal of `node`.
        """
        exponent = -node.exp if invert else node.exp
        base = self.known[node.base]
        if exponent.is_Rational and exponent.is_negative:
            return self.inverse(self.power(node, invert=True))
        if exponent.is_Integer and int(exponent) <= _LARGEST_POWER:
            return self.product(base, int(exponent)) if int(exponent) else self.number(1)
        if exponent == self.sympy.Rational(1, 2):
            return self.put(("sqrt", base))
        if node.base == self.sympy.E:
            return self.put(("exp", self.known[exponent]))
        return self.put(
            ("power", base, self.number(self.constant(exponent)) if exponent.is_Rational else self.known[exponent])
        )

    def product(self, index: int, times: int) -> int:
        """Write a power as squarings and products, and return the index of its value. `index` is the index of the base, `times` >= 1 the exponent."""
        result = None
        while times:
            if times & 1:
                result = index if result is None else self.put(("multiply", result, index))
            times >>= 1
            if times:
                index = self.put(("square", index))
        assert result is not None
        return result

    def piecewise(self, node: Any) -> int:
        """Write a piecewise function: the first piece with a true condition, or NaN if no condition holds."""
        index = self.put(("number", float("nan")))
        for value, condition in reversed([pair.args for pair in node.args]):
            if condition == self.sympy.true:
                index = self.known[value]
            else:
                index = self.put(("where", self.known[condition], self.known[value], index))
        return index
