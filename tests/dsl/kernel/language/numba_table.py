"""A generator of tables of Numba's results.

``python -m tests.dsl.kernel.language.numba_table`` writes the tables, and needs Numba.

``numba_types.json`` has, for each operator, a row per dtype of the left operand: the result's dtype for each dtype of
the right operand and for each literal. ``join`` is the type of a variable to which both operands are assigned. For each
operation of one operand, the file has the result's dtype for each dtype. "-" means that Numba rejects the operation.

``numba_values.npz`` has, for each operator, the bytes of the results for all `pairs`, in the order of `cases`.
"""

from __future__ import annotations

import itertools
import json
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

PATH = Path(__file__).with_name("numba_types.json")
DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()
LITERALS = ("2", "0.5", "True", "1j")
VALUES = PATH.with_name("numba_values.npz")
BINARY = "+ - * / // % ** << >> & | ^ < <= > >= == != min max atan2 join".split()
UNARY = (
    "-x",
    "+x",
    "~x",
    "not x",
    "abs(x)",
    "math.sqrt(x)",
    "math.exp(x)",
    "x**2",
    "x**3",
    "x**0.5",
    "2 + x",
    "0.5 * x",
    "1 / x",
)


def expression(op: str, left: str, right: str) -> str:
    """Return the text of a binary operation."""
    return f"{op}({left}, {right})" if op.isalpha() and op != "atan2" else f"{left} {op} {right}"


def body(op: str, right: str) -> str:
    """Return the statements that compute an operation and leave its result in ``r``."""
    if op == "join":
        return f"r = x\n    if c:\n        r = {right}"
    if op == "atan2":
        return f"r = math.atan2(x, {right})"
    return f"r = {expression(op, 'x', right)}"


def samples(dtype: str, op: str, right: bool) -> np.ndarray:
    """Return four operands of a dtype: left operands, or right operands if `right` is true.

    The numbers avoid operations that are undefined in Numba or raise errors: divisors of 0, and shifts by 64 bits or
    more. They also avoid negative powers of integers, whose results are specific to Numba.
    """
    kind = np.dtype(dtype)
    nonzero, small = right and op in ("/", "//", "%"), right and op in ("**", "<<", ">>")
    if kind.kind == "b":
        return np.array([nonzero, True, True, nonzero])
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        if small:
            return np.array([0, 1, 2, 5], kind)
        return np.array([limits.max, 7, 3 if nonzero else 0, -5 if kind.kind == "i" else limits.max // 2 + 3], kind)
    if kind.kind == "f":
        return np.array([2.5, -0.1 if not small else 0.3, 0.7 if nonzero else 0.0, 1e9 if not small else 3.0], kind)
    return np.array([1.5 - 2j, 0.1j, 2, -0.3 + 1e3j if not small else 0.5], kind)


def pairs(op: str, left: str, right: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the left and the right operands of an operator, for all pairs of samples.

    For a literal, the right operands are 0.
    """
    first = samples(left, op, False)
    if op == "**" and right not in LITERALS:  # (no powers of negative numbers, and no zeros to negative powers)
        first = np.abs(first) + first.dtype.type(np.dtype(left).kind in "fc")
    second = samples(right, op, True) if right in DTYPES else np.zeros(1)
    x, y = zip(*itertools.product(first, second), strict=True)
    return np.array(x, first.dtype), np.array(y, second.dtype)


def cases(types: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the operator, the left dtype, the right dtype or literal, and the result's dtype of each case.

    Cases that Numba rejects are left out.
    """
    for op in BINARY:
        for left, line in zip(DTYPES, types[op], strict=True):
            for right, result in zip((*DTYPES, *LITERALS), line.split(), strict=True):
                if op != "join" and result != "-":
                    yield op, left, right, result


def function_text(found: list[tuple[str, str, str, str]]) -> str:
    """Return the text of a function that computes all cases.

    It has three parameters for each case: two operands and an output.
    """
    names = [f"out{k}" for k in range(len(found))]
    lines = [f"def f({', '.join(f'x{k}, y{k}, {name}' for k, name in enumerate(names))}):", "    for i in range(16):"]
    for k, (op, _, right, _) in enumerate(found):
        other = f"y{k}[i]" if right in DTYPES else right
        text = f"math.atan2(x{k}[i], {other})" if op == "atan2" else expression(op, f"x{k}[i]", other)
        lines += [f"        if i < x{k}.size:", f"            out{k}[i] = {text}"]
    return "\n".join(lines)


def write_values(types: dict[str, Any], njit: Any) -> None:
    """Compute the results with Numba, and write ``numba_values.npz``."""
    values: dict[str, list[np.ndarray]] = {op: [] for op in BINARY if op != "join"}
    for op, left, right, result in cases(types):
        x, y = pairs(op, left, right)
        out = np.zeros(x.size, result)
        scope: dict[str, Any] = {"math": math}
        exec(function_text([(op, left, right, result)]), scope)
        njit(scope["f"])(x, y, out)
        values[op].append(out)
    np.savez_compressed(
        VALUES,
        **{str(k): np.frombuffer(b"".join(o.tobytes() for o in values[op]), np.uint8) for k, op in enumerate(values)},
    )


def main() -> None:
    """Query Numba's types and values, and write the files."""
    import numba

    warnings.simplefilter("ignore")
    kinds = [getattr(numba.types, "boolean" if name == "bool" else name) for name in DTYPES]

    def ask(text: str, names: str, *types: Any) -> str:
        scope: dict[str, Any] = {"math": math}
        exec(f"def f({', '.join(names)}):\n    {text}\n    return r", scope)
        function = numba.njit(scope["f"])
        try:
            function.compile(types)
        except Exception:
            return "-"
        return str(function.overloads[types].signature.return_type).replace("boolean", "bool")

    table: dict[str, Any] = {}
    for op in BINARY:
        last, c = ((numba.types.boolean,), "c") if op == "join" else ((), "")
        table[op] = [
            " ".join(
                [ask(body(op, "y"), f"xy{c}", left, right, *last) for right in kinds]
                + [ask(body(op, literal), f"x{c}", left, *last) for literal in LITERALS]
            )
            for left in kinds
        ]
    for text in UNARY:
        table[text] = " ".join(ask(f"r = {text}", "x", kind) for kind in kinds)
    PATH.write_text(json.dumps(table, indent=1) + "\n")
    write_values(table, numba.njit)


if __name__ == "__main__":
    main()
