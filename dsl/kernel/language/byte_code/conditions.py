"""Merging of the basic blocks of one expression, such as `and`, `or` or ``a < b < c``.

In: basic blocks. Out: fewer basic blocks, in which instructions that jumped inside an expression have become one
instruction: `and`, `or`, `choice` or `chain`, with the instructions of its operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.dsl.kernel.language.byte_code.expression_stack import is_pure
from weft.dsl.kernel.language.byte_code.flow_graph import CodeBlock, predecessors, reachable
from weft.dsl.kernel.language.byte_code.instructions import CodeInstruction


class Conditions:
    """The basic blocks of a function, with rules that merge the blocks of one expression."""

    def __init__(self, blocks: dict[int, CodeBlock], entry: int, make: Callable[..., Any]) -> None:
        self.blocks, self.entry, self.make = blocks, entry, make
        self.before: dict[int, list[int]] = {}

    def merge(self) -> None:
        """Merge blocks until no rule can be applied any more."""
        # the other rules would merge the end of a chained comparison with the expression that contains the comparison
        groups = (self._chain,), (self._sequence, self._condition, self._value, self._choice)
        while True:
            self._count()
            blocks = list(self.blocks.items())[::-1]
            if any(rule(number, block) for rules in groups for number, block in blocks for rule in rules):
                continue
            if not any(self._copy_end(block) for block in self.blocks.values()):
                return

    def _count(self) -> None:
        reached = reachable(self.blocks, self.entry)
        self.blocks = {n: b for n, b in self.blocks.items() if n in reached}
        self.before = predecessors(self.blocks, self.blocks)

    def _single(self, number: int) -> CodeBlock | None:
        """Return the block with the index `number` if it has a single predecessor and is not the entry, otherwise None."""
        return self.blocks[number] if len(self.before[number]) == 1 and number != self.entry else None

    def _pure(self, body: list[CodeInstruction]) -> bool:
        return bool(body) and is_pure(body, self.make)

    # -- rules: each changes the block and returns True, or returns False --------------------

    def _sequence(self, number: int, block: CodeBlock) -> bool:
        if len(block.after) != 1 or block.after[0] == number or block.leaves:
            return False
        following = self._single(block.after[0])
        if following is None or following.body[-1].name == "next":
            return False
        block.body = block.body + following.body
        block.after, block.leaves = following.after, following.leaves
        return True

    def _branch(self, block: CodeBlock | None) -> bool:
        return block is not None and bool(block.body) and block.body[-1].name == "branch"

    def _condition(self, number: int, block: CodeBlock) -> bool:
        """If `block` begins ``if a and b`` or ``if a or b``, merge the test's blocks and return True, else return False."""
        if not self._branch(block):
            return False
        for side in (0, 1):
            second, other = self._single(block.after[side]), self._class(block.after[1 - side])
            if second is None or not self._branch(second):
                continue
            body = second.body[:-1]
            kept = bool(body) and body[-1].name == "copy"
            targets = [self._class(self._popped(a) if kept else a) for a in second.after]
            if other not in targets or (kept and other in map(self._class, second.after)):
                continue
            operand, tail = (body[:-1], body[-1:]) if kept else (body, [])
            if not self._pure(operand):
                continue
            name = ("or", "and")[targets.index(other)]
            negated = targets.index(other) == side
            branch = block.body[-1]
            middle = [CodeInstruction("not", None, branch.where)] if negated else []
            block.body = [*block.body[:-1], *middle, CodeInstruction(name, operand, branch.where), *tail, branch]
            block.after = second.after
            return True
        return False

    def _popped(self, number: int) -> int:
        """Return the successor of block `number` if block `number` only pops a value, otherwise `number`."""
        block = self.blocks[number]
        return block.after[0] if [i.name for i in block.body] == ["pop"] else number

    def _value(self, number: int, block: CodeBlock) -> bool:
        """If `block` begins the expression ``a and b`` or ``a or b``, merge the expression's blocks into it and return True, else return False.

        The value of `a` remains on the stack if it is the result.
        """
        if not self._branch(block) or len(block.body) < 2 or block.body[-2].name != "copy":
            return False
        for side, name in ((0, "and"), (1, "or")):
            second = self._single(block.after[side])
            if second is None or [self._class(a) for a in second.after] != [self._class(block.after[1 - side])]:
                continue
            if second.body[0].name == "pop" and self._pure(second.body[1:]):
                block.body = [*block.body[:-2], CodeInstruction(name, second.body[1:], block.body[-1].where)]
                block.after = second.after
                return True
        return False

    def _choice(self, number: int, block: CodeBlock) -> bool:
        """Merge the blocks of ``a if c else b``, and return whether they have this form.

        The expression is a value, or the test of a branch. In the latter case, the block of `a` and the block of `b`
        branch to the same two blocks.
        """
        if not self._branch(block):
            return False
        first, second = (self._single(a) for a in block.after)
        if first is None or second is None or not self._same(first, second):
            return False
        tests = self._branch(first)
        if tests != self._branch(second) or len(first.after) != 1 + tests:
            return False
        bodies = (first.body[:-1], second.body[:-1]) if tests else (first.body, second.body)
        if not (self._pure(bodies[0]) and self._pure(bodies[1])):
            return False
        branch = block.body[-1]
        choice = CodeInstruction("choice", bodies, branch.where)
        block.body = [*block.body[:-1], choice, branch] if tests else [*block.body[:-1], choice]
        block.after = first.after
        return True

    def _chain(self, number: int, block: CodeBlock) -> bool:
        """If `block` begins ``a < b < c``, merge the blocks of this comparison and return True, otherwise return False.

        The value of `b` remains on the stack, and is dropped if ``a < b`` is false.
        """
        if not self._branch(block):
            return False
        names = [i.name for i in block.body]
        kept = names[-2:] == ["copy", "branch"]
        head = block.body[: -2 if kept else -1]
        if [i.name for i in head[-3:]] != ["swap", "copy", "compare"]:
            return False
        second, drop = self._single(block.after[0]), self.blocks[block.after[1]]
        if second is None:
            return False
        if kept:
            ended = len(second.after) == 1 and second.body[0].name == "pop" and self._same(second, drop)
            body = second.body[1:]
            ended = ended and [i.name for i in drop.body] == ["swap", "pop"]
            tail: list[CodeInstruction] = []
        else:
            ended = (
                self._branch(second) and drop.body[0].name == "pop" and self._class(second.after[1]) == self._rest(drop)
            )
            body, tail = second.body[:-1], second.body[-1:]
        if not ended or not body or body[-1].name not in ("compare", "chain") or not self._pure(body[:-1]):
            return False
        last = body[-1]
        operators, rest = ([last.argument], []) if last.name == "compare" else last.argument
        chain = CodeInstruction("chain", ([head[-1].argument, *operators], [body[:-1], *rest]), last.where)
        block.body = [*head[:-3], chain, *tail]
        block.after = second.after
        return True

    def _same(self, first: CodeBlock, second: CodeBlock) -> bool:
        """Return whether two blocks have equivalent successors."""
        return [self._class(a) for a in first.after] == [self._class(a) for a in second.after]

    def _class(self, number: int) -> int:
        return self.blocks[number].kinds[0]

    def _rest(self, block: CodeBlock) -> int | None:
        """Return a number that identifies the code after a block's first instruction. Equivalent code has the same number. None means unknown."""
        if len(block.body) == 1:
            return self._class(block.after[0])
        return block.kinds[1] if len(block.kinds) > 1 else None

    def _copy_end(self, block: CodeBlock) -> bool:
        """If `block` must not share its successor with other blocks, append a copy of the successor and return True, else return False.

        The copy is made if the successor ends the function and uses values that the block leaves on the stack.
        """
        if len(block.after) != 1 or len(self.before[block.after[0]]) < 2:
            return False
        following = self.blocks[block.after[0]]
        if following.after or not following.pending:
            return False
        block.body = block.body + following.body
        block.after = following.after
        return True
