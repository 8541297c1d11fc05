"""sympy expressions taken apart: straight programs of operations, common parts shared, derivatives on request.

In: symbols, expressions. Out: a `Program`, which knows nothing of sympy. This is the one file that imports sympy, when it
is first used. Always true: an instruction refers to earlier ones only; numbers are Python's, so that they take the
dtype of the arrays they meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

# ("symbol", k) | ("number", value) | (row of the op table, operand, ...), operands being numbers of instructions.
Instruction = tuple[Any, ...]

# sympy's functions that are rows under another name, or under the same.
_ROWS = {
    name: name for name in "exp sin cos tan sinh cosh tanh erf erfc gamma sign floor sqrt cbrt log sinc".split()
} | {
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
    "conjugate": "conjugate",
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
    "log1p": "log1p",
    "expm1": "expm1",
    "log2": "log2",
    "log10": "log10",
    "exp2": "exp2",
    "hypot": "hypot",
    "Heaviside": "heaviside",
}
_FOLDED = {"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor", "Min": "minimum", "Max": "maximum"}
# Whole powers up to here become products.
_LARGEST_POWER = 64


@dataclass(slots=True)
class Program:
    """Instructions, and which of them are the results; `shape` is that of a matrix of results, or None."""

    instructions: list[Instruction] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    shape: tuple[int, int] | None = None
    gradients: list[list[int]] = field(default_factory=list)  # for each result one a symbol of `wrt`


@lru_cache(maxsize=1)
def _sympy() -> Any:
    import sympy

    return sympy


def take_apart(symbols: Sequence[Any], expression: Any, wrt: Sequence[Any] = ()) -> Program:
    """The program of an expression, or of a matrix or sequence of them.

    Parameters
    ----------
    symbols : sequence of sympy.Symbol
    expression : sympy expression, Matrix, or sequence of expressions
    wrt : sequence of sympy.Symbol
        Symbols to differentiate each expression by.

    Raises
    ------
    TypeError
        For a function that has no row in the op table.
    NameError
        For a symbol that is not among `symbols`.
    """
    sympy = _sympy()
    shape = tuple(expression.shape) if isinstance(expression, sympy.MatrixBase) else None
    wanted = list(expression) if shape is not None or isinstance(expression, (list, tuple)) else [expression]
    wanted = [sympy.sympify(e) for e in wanted]
    derivatives = [[sympy.diff(e, s) for s in wrt] for e in wanted]
    flat = [*wanted, *(d for row in derivatives for d in row)]
    shared, reduced = sympy.cse(flat, symbols=sympy.numbered_symbols("_shared"), order="none")
    writer = _Writer(sympy, Program(shape=shape))
    for k, symbol in enumerate(symbols):
        writer.known[symbol] = writer.put(("symbol", k))
    for symbol, part in shared:
        writer.known[symbol] = writer.number_of(part)
    places = [writer.number_of(part) for part in reduced]
    program = writer.program
    program.results = places[: len(wanted)]
    rest = iter(places[len(wanted) :])
    program.gradients = [[next(rest) for _ in wrt] for _ in wanted] if wrt else []
    return program


class _Writer:
    def __init__(self, sympy: Any, program: Program) -> None:
        self.sympy = sympy
        self.program = program
        self.known: dict[Any, int] = {}
        self.found: dict[Instruction, int] = {}

    def put(self, instruction: Instruction) -> int:
        """The number of an instruction; equal ones are one."""
        key = (*instruction, type(instruction[1])) if instruction[0] == "number" else instruction
        place = self.found.get(key)
        if place is None:
            place = self.found[key] = len(self.program.instructions)
            self.program.instructions.append(instruction)
        return place

    def number_of(self, root: Any) -> int:
        """The number of an expression's instruction, its parts first."""
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
        """The expressions that a node is made of."""
        if not node.args or node.is_number:
            return ()
        if isinstance(node, self.sympy.Piecewise):
            return tuple(part for pair in node.args for part in pair.args)
        if isinstance(node, self.sympy.Pow) and node.exp.is_Integer:
            return (node.base,)
        return tuple(node.args)

    def write(self, node: Any) -> int:
        """One node, its parts being known."""
        sympy = self.sympy
        if node.is_Symbol:
            raise NameError(f"symbol {node} is not among the arguments")
        if node in (sympy.true, sympy.false):
            return self.put(("number", bool(node)))
        if node.is_number:
            return self.put(("number", self.constant(node)))
        operands = [self.known[part] for part in self.parts(node)]
        if isinstance(node, (sympy.Add, sympy.Mul)):
            return self.fold("add" if isinstance(node, sympy.Add) else "multiply", operands)
        if isinstance(node, sympy.Pow):
            return self.power(node)
        if isinstance(node, sympy.Piecewise):
            return self.piecewise(node)
        name = type(node).__name__
        if name in _FOLDED:
            return self.fold(_FOLDED[name], operands)
        row = _ROWS.get(name)
        if row is None:
            raise TypeError(f"{name} has no counterpart among weft's functions, in {node}")
        if name == "Heaviside":
            operands = [operands[0], self.put(("number", 0.5))]
        return self.put((row, *operands))

    def constant(self, node: Any) -> Any:
        """A number as Python's."""
        if node.is_Integer:
            return int(node)
        if node.is_real is False:
            return complex(node)
        return float(node)

    def fold(self, row: str, operands: list[int]) -> int:
        """Several operands, one after another."""
        place = operands[0]
        for other in operands[1:]:
            place = self.put((row, place, other))
        return place

    def power(self, node: Any) -> int:
        """Whole powers as products, roots as roots."""
        base, exponent = node.base, node.exp
        if exponent.is_Integer and 0 < abs(int(exponent)) <= _LARGEST_POWER:
            place = self.product(self.known[base], abs(int(exponent)))
            return place if exponent > 0 else self.put(("reciprocal", place))
        if exponent.is_Integer:
            return self.put(("power", self.known[base], self.put(("number", int(exponent)))))
        if exponent == self.sympy.Rational(1, 2):
            return self.put(("sqrt", self.known[base]))
        if exponent == -self.sympy.Rational(1, 2):
            return self.put(("reciprocal", self.put(("sqrt", self.known[base]))))
        if base == self.sympy.E:
            return self.put(("exp", self.known[exponent]))
        return self.put(("power", self.known[base], self.known[exponent]))

    def product(self, place: int, times: int) -> int:
        """A number times itself, by squaring."""
        result = None
        while times:
            if times & 1:
                result = place if result is None else self.put(("multiply", result, place))
            times >>= 1
            if times:
                place = self.put(("square", place))
        assert result is not None
        return result

    def piecewise(self, node: Any) -> int:
        """The first piece whose condition holds; NaN where none does."""
        place = self.put(("number", float("nan")))
        for value, condition in reversed([pair.args for pair in node.args]):
            if condition == self.sympy.true:
                place = self.known[value]
            else:
                place = self.put(("where", self.known[condition], self.known[value], place))
        return place
