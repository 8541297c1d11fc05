"""The function `weft.lambdify`, which makes fused array functions from SymPy expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.codegen import find_op
from weft.dsl.arrays.array import Array
from weft.dsl.arrays.ufunc import find_ufunc
from weft.dsl.functions.creation import asarray
from weft.dsl.functions.joining import stack
from weft.dsl.functions.manipulation import reshape
from weft.dsl.functions.selection import where
from weft.fusion import SymbolicProgram, convert_sympy, entries_of
from weft.runtime import counted

_WEAK = (bool, int, float, complex)
_NUMBER = object()  # marks a constant, in place of a function


class SymbolicFunction:
    """A function of arrays that `weft.lambdify` has made from a SymPy expression."""

    def __init__(self, symbols: Sequence[Any], expression: Any, wrt: Any = None) -> None:
        self.symbols = tuple(symbols)
        self.expression = expression
        self.single = wrt is not None and not isinstance(wrt, (list, tuple))
        self.wrt = () if wrt is None else (wrt,) if self.single else tuple(wrt)
        self.entries = [entries_of(symbol) for symbol in self.symbols]
        flat = [
            s
            for symbol, found in zip(self.symbols, self.entries, strict=True)
            for s in (found[1] if found else [symbol])
        ]
        self.program: SymbolicProgram = convert_sympy(flat, expression, self.wrt)
        self.steps = _steps_of(self.program)
        self.__doc__ = f"{expression} of {', '.join(map(str, self.symbols))}."

    def __repr__(self) -> str:
        return f"<weft function of {', '.join(map(str, self.symbols))}: {self.expression}>"

    def __call__(self, *values: Any) -> Any:
        """Evaluate the expression for arrays and scalars, which are broadcast together."""
        if len(values) != len(self.symbols):
            raise TypeError(
                f"a function of {counted(len(self.symbols), 'symbol')}, but {counted(len(values), 'argument')} given"
            )
        arrays = [part for k, value in enumerate(values) for part in self._parts(k, value)]
        weak = not all(isinstance(value, Array) for value in arrays)
        found: list[Any] = []
        with np.errstate(all="ignore"):  # (a branch that is not selected may divide by zero)
            for function, inputs in self.steps:
                if function is None:
                    found.append(arrays[inputs])
                elif function is _NUMBER:
                    found.append(inputs)
                else:
                    operands = [found[k] for k in inputs]
                    alone = weak and all(type(value) in _WEAK for value in operands)
                    found.append(_of_numbers(function, operands) if alone else function(*operands))
        results = [found[k] for k in self.program.results]
        value = self._shaped(results)
        if not self.wrt:
            return value
        columns = [self._shaped([found[row[k]] for row in self.program.gradients]) for k in range(len(self.wrt))]
        return value, columns[0] if self.single else tuple(columns)

    def _parts(self, number: int, value: Any) -> list[Any]:
        """Split the argument `value` into a list with one value for each SymPy symbol.

        The function's parameter at position `number` is a symbol, or a sequence or matrix of symbols. `value` is the argument for it.
        """
        entries = self.entries[number]
        if entries is None:
            return [value if isinstance(value, (Array, bool, int, float, complex)) else asarray(value)]
        shape, _ = entries
        if isinstance(value, (list, tuple)) and len(shape) == 1 and len(value) == shape[0]:
            return [v if isinstance(v, (Array, bool, int, float, complex)) else asarray(v) for v in value]
        array = asarray(value)
        if array.shape[: len(shape)] != shape:
            raise ValueError(f"argument {number + 1} stands for symbols of shape {shape}: first axes of {array.shape}?")
        return [array[index] for index in np.ndindex(*shape)]

    def _shaped(self, results: list[Any]) -> Any:
        """Arrange the computed entries in the shape of the SymPy expression.

        Return a single result, a list or tuple, or an array whose first axes are those of SymPy's matrix or array.
        """
        if isinstance(self.expression, (list, tuple)):
            return type(self.expression)(results)
        if self.program.shape is None:
            return results[0]
        parts = np.broadcast_arrays(*(asarray(r) for r in results))
        return reshape(stack(parts), (*self.program.shape, *parts[0].shape))


def _steps_of(program: SymbolicProgram) -> list[tuple[Any, Any]]:
    """Convert a symbolic program to a list of arguments, constants and function calls.

    Operations on constants are computed.
    """
    steps: list[tuple[Any, Any]] = []
    for name, *operands in program.instructions:
        if name == "symbol":
            steps.append((None, operands[0]))
        elif name == "number":
            steps.append((_NUMBER, operands[0]))
        elif all(steps[k][0] is _NUMBER for k in operands):
            function = _function_of(name)
            steps.append((_NUMBER, _of_numbers(function, [steps[k][1] for k in operands])))
        else:
            steps.append((_function_of(name), operands))
    return steps


def _function_of(name: str) -> Any:
    return {"where": where, "real": np.real, "imag": np.imag}.get(name) or find_ufunc(name)


def _of_numbers(function: Any, operands: list[Any]) -> Any:
    """Apply a function to Python scalars, and return a Python scalar.

    Arrays then keep their dtypes in operations with the result.
    """
    definition = find_op(function.__name__)
    theirs = getattr(np, definition.ufunc) if definition.ufunc else definition.reference
    assert theirs is not None
    with np.errstate(all="ignore"):
        return np.asarray(theirs(*operands)).item()


def lambdify(symbols: Any, expression: Any, wrt: Any = None) -> SymbolicFunction:
    """Convert a SymPy expression to a function that records and fuses operations on arrays.

    Parameters
    ----------
    symbols : sympy.Symbol or sequence of symbols
        The arguments of the function, in order. A sequence or matrix of symbols, or a MatrixSymbol, corresponds to one
        array argument, whose first axes index the symbols.
    expression : sympy expression, Matrix, Array, or list or tuple of expressions
        Common subexpressions are computed once.
    wrt : sympy.Symbol or sequence of symbols, optional
        Symbols with respect to which the expression is differentiated. The derivative of a step function such
        as ``floor`` is 0, even at the steps.

    Returns
    -------
    SymbolicFunction
        A function of arrays that returns the value of the expression: an array, or a list or tuple of arrays. The value of
        a matrix or array expression is one array, whose first axes are those of the expression. If `wrt` is given, the
        function returns the value and the derivative. If `wrt` is a sequence, the derivative is a tuple.

    Raises
    ------
    TypeError
        If the expression contains a function that weft does not support.
    NameError
        If the expression contains a symbol that is not an argument.

    Examples
    --------
    >>> import sympy
    >>> x, y = sympy.symbols("x y")
    >>> f = weft.lambdify((x, y), sympy.sin(x) * y**2, wrt=(x, y))
    >>> value, (by_x, by_y) = f(weft.linspace(0, 1, 5), 2.0)
    """
    given = tuple(symbols) if isinstance(symbols, (list, tuple)) else (symbols,)
    return SymbolicFunction(given, expression, wrt)
