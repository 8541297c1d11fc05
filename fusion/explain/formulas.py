"""Formulas of a kernel's tasks, in the notation of Python.

In: a placed task. Out: lines of text. Invariant: a long value with several uses has its own line, and long formulas are
shortened, so the text is not much longer than the program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import assert_never

from weft.codegen import find_op
from weft.fusion.graph.expr import Expr, constant_value, contiguous_strides
from weft.fusion.graph.index_map import ZERO, Affine, flatten, variable
from weft.fusion.plan.body import Instruction, Loop
from weft.fusion.plan.group import Group, Placed

LONGEST = 240  # number of characters above which a formula is shortened
MOST_LINES = 24  # maximum number of names that the lines of a task define
SHORT = 12  # maximum number of characters of an expression that is repeated rather than named
LOOPS = [*"ijklmnopqrsuvw", *(f"i{k}" for k in range(64))]  # names of loops, outermost first

_SYMBOLS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "floor_divide": "//",
    "remainder": "%",
    "power": "**",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
}


class Names:
    """Short names for the values of a plan, such as x0 for an input.

    The names are x0, x1 ... for inputs, t0, t1 ... for values between kernels, and y0, y1 ... for results. A value that
    a kernel uses several times is named v0, v1 ...
    """

    def __init__(self, outputs: Collection[Expr], counts: dict[str, int] | None = None) -> None:
        """Create an empty table.

        `counts` is the attribute of another table, whose numbering continues. By default, numbers start at 0.
        """
        self.outputs = set(outputs)
        self.shared: dict[str, str] = {}  # formula that is used several times -> its name
        self.known: dict[Expr, str] = {}
        self.counts = {"x": 0, "t": 0, "y": 0, "v": 0} if counts is None else counts

    def __call__(self, node: Expr) -> str:
        found = self.known.get(node)
        if found is None:
            letter = "x" if node.kind == "leaf" else "y" if node in self.outputs else "t"
            found = self.known[node] = self.new(letter)
        return found

    def new(self, letter: str) -> str:
        """Return the next name that begins with `letter`."""
        self.counts[letter] += 1
        return f"{letter}{self.counts[letter] - 1}"


def formulas_of(placed: Placed, group: Group, names: Names, in_place: Collection[Expr]) -> list[str]:
    """Return a task's computation as lines of text. The last line is the formula of the result. The lines before it define intermediate values."""
    task = placed.task
    speller = FormulaWriter(placed, group, names)
    made = speller.spell(task.body, [])
    value = _without_parentheses(made[task.result])
    target = names(task.node)
    previous = names(task.previous) if task.previous is not None else ""
    subscript = "" if task.kind == "scatter" else _subscript(task.node.shape, placed.flat(task.target), group.loops)
    match task.kind:
        case "reduce" | "scan":
            line = f"{target} = {task.kind}_{task.node.op}({value}){_loop_names(placed, group)}"
        case "update":
            line = f"{target} = {previous} {'in place' if task.node in in_place else 'copied'}, {subscript} <- {value}"
        case "rebuild":
            line = f"{target} = {previous} in new memory, {subscript} <- {value}"
        case "scatter":
            line = f"{target} = {previous} with scattered elements <- {value}"
        case "map":
            line = f"{target} = {value}"
        case _:
            assert_never(task.kind)
    if task.node in group.over:
        line += f"   (in the memory of {names(group.over[task.node])})"
    left_out = len(speller.lines) - MOST_LINES
    if left_out > 0:
        speller.lines[MOST_LINES:] = [f"... {left_out} more"]
    return [*speller.lines, line]


def _loop_names(placed: Placed, group: Group) -> str:
    """Return the names of a reduction's or scan's loops, as in " along k", or "" if it runs over every inner loop."""
    own = {placed.loops[k] for k, loop in enumerate(placed.task.loops) if loop.role != "parallel"}
    if own == {k for k, loop in enumerate(group.loops) if loop.role != "parallel"}:
        return ""
    return f" along {', '.join(LOOPS[k] for k in sorted(own))}"


class FormulaWriter:
    """Writer of formulas for a task's instructions. `lines` define names for values that are used several times."""

    def __init__(self, placed: Placed, group: Group, names: Names) -> None:
        self.placed = placed
        self.group = group
        self.names = names
        self.lines: list[str] = []
        self.read_indices: dict[Expr, set[Affine]] = {}
        for p in group.placed:
            for read, index in p.task.reads():
                self.read_indices.setdefault(read, set()).update([] if index is None else [p.flat(index)])
        extents = tuple(loop.extent for loop in group.loops)
        everywhere = tuple(variable(k) if n > 1 else ZERO for k, n in enumerate(extents))
        self.plain = (flatten(everywhere, extents), placed.flat(placed.task.target))

    def spell(self, instructions: Sequence[Instruction], before: list[str]) -> list[str]:
        """Return a new list with the items of the list `before`, and then the formulas of `instructions`."""
        made = list(before)
        uses = Counter(k for i in instructions for k in i.operands)
        for number, i in enumerate(instructions, len(before)):
            text = self._formula(i, made)
            if not before and i.kind in ("map", "choose") and uses[number] > 1 and len(text) > SHORT:
                shared = self.names.shared
                if text not in shared:
                    shared[text] = self.names.new("v")
                    self.lines.append(f"{shared[text]} = {_without_parentheses(_shortened(text))}")
                text = shared[text]
            made.append(_shortened(text))
        return made

    def _formula(self, i: Instruction, made: list[str]) -> str:
        match i.kind:
            case "read":
                return self.names(i.node) + self._subscripts(i)
            case "gather":
                return f"{self.names(i.node)}[{', '.join(made[k] for k in i.operands)}]"
            case "iota":
                return _sum(*self.placed.flat(i.index))
            case "constant":
                return str(constant_value(i.node))
            case "scalar":
                return f"s{i.node.attrs[0]}"
            case "map":
                return _format_op(i.node, [made[k] for k in i.operands])
            case "choose":
                sides = [self.spell(branch.instructions, made)[branch.result] for branch in i.branches]
                return f"({sides[0]} if {made[i.operands[0]]} else {sides[1]})"
            case _:
                assert_never(i.kind)

    def _subscripts(self, read: Instruction) -> str:
        """Return the subscripts of a read in a formula.

        Return "" if the value is read only at the index of the result, or only at the flat C-order index of the loops.
        """
        form = self.placed.flat(read.index)
        if len(self.read_indices[read.node]) == 1 and form in self.plain:
            return ""
        return _subscript(read.node.shape, form, self.group.loops)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST // 2] + " ... " + text[-LONGEST // 2 :]


def _without_parentheses(formula: str) -> str:
    depth = 0
    for k, letter in enumerate(formula):
        depth += (letter == "(") - (letter == ")")
        if not depth and k < len(formula) - 1:
            return formula
    return formula[1:-1] if formula.startswith("(") and formula.endswith(")") else formula


def _subscript(shape: tuple[int, ...], form: Affine, loops: Sequence[Loop]) -> str:
    """Format a flat index as subscripts with the names of loops, such as ``[i+1, j]``.

    An index that no such subscripts represent is formatted as ``.flat[...]``. Return "" for an array that is empty or
    has no axes.
    """
    if 0 in shape or not shape:
        return ""
    start, terms = form
    strides = contiguous_strides(shape)
    axes = [axis for axis, n in enumerate(shape) if n > 1]
    parts: dict[int, list[tuple[int, int]]] = {axis: [] for axis in axes}
    for loop, c in terms:
        axis = next((axis for axis in axes if abs(c) >= strides[axis]), -1)
        if axis < 0 or c % strides[axis] or abs(c) // strides[axis] * (loops[loop].extent - 1) >= shape[axis]:
            return f".flat[{_sum(start, terms)}]"
        parts[axis].append((loop, c // strides[axis]))
    first = [0] * len(shape)
    for axis in axes:
        first[axis], start = divmod(start, strides[axis])
    for before, axis in reversed(list(pairwise(axes))):
        # prefer a small negative offset in the next row to a large positive offset in this row
        reach = first[axis] + sum(c * (loops[loop].extent - 1) for loop, c in parts[axis] if c > 0)
        if reach >= shape[axis] and 2 * first[axis] > shape[axis]:
            first[axis] -= shape[axis]
            first[before] += 1
    return f"[{', '.join(_sum(start, parts.get(axis, ())) for axis, start in enumerate(first))}]"


def _sum(start: int, terms: Iterable[tuple[int, int]]) -> str:
    """Format a constant plus multiples of loop indices as text."""
    found = "".join(f"{c:+}*{LOOPS[loop]}" for loop, c in terms).replace("+1*", "+").replace("-1*", "-")
    found = f"{start}{found}" if not found or (found[0] == "-" and start) else f"{found}{start:+}" if start else found
    return found.removeprefix("+")


def _format_op(node: Expr, operands: list[str]) -> str:
    if node.op == "cast":
        return operands[0] if node.attrs[0].kind == node.dtype.kind else f"{node.dtype}({operands[0]})"
    symbol = _SYMBOLS.get(find_op(node.op).name)
    if symbol is not None and len(operands) == 2:
        return f"({operands[0]} {symbol} {operands[1]})"
    return f"{node.op}({', '.join(operands)})"
