"""Reconstruction of `if`, loops, `break` and `continue` from basic blocks.

In: basic blocks that contain whole statements. Out: a list of statements. The code of a block with several predecessors
follows the code of its immediate dominator. A block that no structured jump reaches is copied, up to a limit. Several
blocks are tried as the successor of a loop, and the first that gives structured code is used.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.dsl.kernel.language.byte_code.expression_stack import (
    ExpressionStack,
    LoopItem,
    LoopIterator,
    Mark,
    Underflow,
    invert,
    set_location,
)
from weft.dsl.kernel.language.byte_code.flow_graph import CodeBlock, predecessors
from weft.dsl.kernel.language.byte_code.instructions import Unreadable

COPY_LIMIT = 100
END = -1  # the block after the last statement of a function


@dataclass(frozen=True, slots=True)
class LoopScope:
    """A loop around the current block, with the loop's header block and the block after the loop."""

    header: int
    behind: int | None
    depth: int
    outer: LoopScope | None

    def inside(self, number: int) -> bool:
        """Return whether a block is the header of this loop or of an enclosing loop."""
        return number == self.header or (self.outer is not None and self.outer.inside(number))


class Structure:
    """A converter from a function's basic blocks to statements."""

    def __init__(self, blocks: dict[int, CodeBlock], entry: int, make: Callable[..., Any]) -> None:
        self.blocks, self.entry, self.make = blocks, entry, make
        self.order = self._orders()
        self.order_of = {n: k for k, n in enumerate(self.order)}
        self.before = predecessors(blocks, self.order)
        self.dominator = self._dominators()
        self.forward = {
            n: [p for p in self.before[n] if not self.dominates(n, p)] + ([END] if n == entry else [])
            for n in self.order
        }
        self.loops = {
            n: self._loop(n)
            for n in self.order
            if blocks[n].body[-1].name == "next" or any(self.dominates(n, p) for p in self.before[n])
        }
        self.copies = 0

    def statements(self) -> list[ast.stmt]:
        """Return the statements of the function."""
        body = self._emit(self.entry, [], END, None)
        if body and isinstance(body[-1], ast.Return) and body[-1].value is None:
            body.pop()
        return body

    # -- the graph --------------------------------------------------------------------------

    def _orders(self) -> list[int]:
        """Return the block numbers in reverse postorder."""
        seen, done = {self.entry}, []
        stack = [(self.entry, iter(self.blocks[self.entry].after[::-1]))]
        while stack:
            number, rest = stack[-1]
            following = next((a for a in rest if a not in seen), None)
            if following is None:
                stack.pop()
                done.append(number)
            else:
                seen.add(following)
                stack.append((following, iter(self.blocks[following].after[::-1])))
        return done[::-1]

    def _dominators(self) -> dict[int, int]:
        found = {self.entry: self.entry}
        changed = True
        while changed:
            changed = False
            for number in self.order[1:]:
                known = [p for p in self.before[number] if p in found]
                common = known[0]
                for other in known[1:]:
                    while common != other:
                        if self.order_of[common] > self.order_of[other]:
                            common = found[common]
                        else:
                            other = found[other]
                if found.get(number) != common:
                    found[number] = common
                    changed = True
        return found

    def dominates(self, first: int, second: int) -> bool:
        """Return whether every path to the second block goes through the first."""
        while second != first and second != self.entry:
            second = self.dominator[second]
        return second == first

    def _loop(self, header: int) -> set[int]:
        inside = {header}
        work = [p for p in self.before[header] if self.dominates(header, p)]
        while work:
            number = work.pop()
            if number not in inside:
                inside.add(number)
                work += self.before[number]
        return inside

    # -- statements -------------------------------------------------------------------------

    def _emit(self, number: int, stack: list[ast.expr], follow: int, loop: LoopScope | None) -> list[ast.stmt]:
        """Return the statements from block `number` up to, but not including, block `follow`."""
        if number in self.loops and not (loop is not None and loop.header == number):
            return self._emit_loop(number, stack, follow, loop)
        return self._emit_block(number, stack, follow, loop)

    def _emit_block(self, number: int, stack: list[ast.expr], follow: int, loop: LoopScope | None) -> list[ast.stmt]:
        block = self.blocks[number]
        if loop is not None and len(stack) < loop.depth and not self._returns(number):
            raise Unreadable("a jump out of nested statements is not read", block.body[-1].where.lineno)
        run = ExpressionStack(list(stack), self.make)
        branches = block.body[-1].name == "branch"
        run.execute(block.body[:-1] if branches else block.body)
        body, stack = run.statements, run.stack
        if run.parallel:
            raise Unreadable("a value that is computed before a jump is not followed", block.body[-1].where.lineno)
        if not block.after:
            return body
        if not branches:
            return body + self._go(block.after[0], stack, follow, loop, number)
        test = stack.pop()
        if any(not isinstance(item, Mark) for item in stack):
            raise Unreadable("an expression that jumps in this way is not read", block.body[-1].where.lineno)
        joins = [
            n
            for n in self.order
            if self.dominator[n] == number and n != number and len(self.forward[n]) > 1 and not _ends(n, follow, loop)
        ]
        inner = [*joins, follow]
        first = self._go(block.after[0], stack, inner[0], loop, number)
        second = self._go(block.after[1], stack, inner[0], loop, number)
        body += _conditional(test, first, second, block.body[-1].where)
        for join, after in zip(joins, inner[1:], strict=True):
            body += self._emit(join, stack, after, loop)
        return body

    def _returns(self, number: int) -> bool:
        """Return whether block `number` only leaves enclosing loops and returns a constant."""
        names = [i.name for i in self.blocks[number].body]
        return names == ["constant", "return"] or (names == ["pop"] and self._returns(self.blocks[number].after[0]))

    def _go(
        self, target: int, stack: list[ast.expr], follow: int, loop: LoopScope | None, source: int
    ) -> list[ast.stmt]:
        """Return the statements for a jump: an empty list, `continue`, `break`, or the statements of the target block."""
        if target == follow:
            return []
        if loop is not None and target == loop.header:
            return [ast.Continue()]
        if loop is not None and target == loop.behind:
            return [ast.Break()]
        if len(self.forward[target]) > 1:
            self.copies += 1
            if (loop is not None and loop.inside(target)) or self.copies > COPY_LIMIT:
                raise Unreadable(
                    "a jump out of nested statements is not read", self.blocks[source].body[-1].where.lineno
                )
        return self._emit(target, stack, follow, loop)

    def _emit_loop(self, header: int, stack: list[ast.expr], follow: int, outer: LoopScope | None) -> list[ast.stmt]:
        error: Unreadable | None = None
        copies = self.copies
        for behind in self._candidates(header, follow):
            self.copies = copies
            try:
                return self._loop_with(header, behind, stack, follow, outer)
            except Unreadable as found:
                error = error or found
        assert error is not None
        raise error

    def _candidates(self, header: int, follow: int) -> list[int | None]:
        """Return the candidates for the block after a loop, most likely first. The last item, None, means no block."""
        inside = self.loops[header]
        last = self.blocks[header]
        own = [a for a in last.after[1:] + last.after[:1] if a not in inside]
        joins = [
            n
            for n in self.order
            if n not in inside
            and self.dominates(header, n)
            and (len(self.forward[n]) > 1 or self.before[n] == [header])
        ]
        leaving = [
            a for n in self.order if self.blocks[n].leaves and self.dominates(header, n) for a in self.blocks[n].after
        ]
        exits = [a for n in self.order if n in inside for a in self.blocks[n].after if a not in inside]
        if last.body[-1].name == "next" and len(self.forward[own[0]]) == 1:
            # a loop with `else` and `break`, or without `break`
            joins = [n for n in joins if self.dominator[n] == header and len(self.forward[n]) > 1]
            if follow != END and any(
                follow in self.blocks[n].after and not self.dominates(own[0], n)
                for n in self.order
                if self.dominates(header, n)
            ):
                joins.append(follow)
            own = joins + own
            joins = []
        return list(dict.fromkeys([*own, *joins, *([follow] if follow in exits else []), *leaving, *exits, None]))

    def _loop_with(
        self, header: int, behind: int | None, stack: list[ast.expr], follow: int, outer: LoopScope | None
    ) -> list[ast.stmt]:
        block = self.blocks[header]
        loop = LoopScope(header, behind, len(stack), outer)
        where = block.body[-1].where
        body: list[ast.stmt]
        made: ast.stmt
        if block.body[-1].name == "next":
            if not stack:
                raise Underflow
            iterator, item = stack[-1], LoopItem()
            iterable = iterator.iterable if isinstance(iterator, LoopIterator) else iterator
            body = self._go(block.after[0], [*stack[:-1], LoopIterator(iterable), item], header, loop, header)
            stack = stack[:-1]
            stop = END if behind is None else behind
            otherwise = [] if behind == block.after[1] else self._go(block.after[1], stack, stop, outer, header)
            if item.target is None:
                raise Unreadable("a loop without a variable is not read", where.lineno)
            made = ast.For(item.target, iterable, body or [ast.Pass()], otherwise)
        else:
            body = self._emit_block(header, stack, header, loop)
            test: ast.expr = ast.Constant(True)
            match body:
                case [ast.If(test=end, body=[ast.Break()], orelse=[]), *rest]:
                    test, body = invert(end), rest
            made = ast.While(test, body or [ast.Pass()], [])
        set_location(made, where)
        if body and isinstance(body[-1], ast.Continue):
            body.pop()
        if behind is None or behind == follow:
            return [made]
        return [made, *self._emit(behind, stack, follow, outer)]


def _ends(number: int, follow: int, loop: LoopScope | None) -> bool:
    return number == follow or (loop is not None and number in (loop.behind, loop.header))


def _leaves(body: list[ast.stmt]) -> bool:
    match body[-1:]:
        case [ast.Return() | ast.Raise() | ast.Break() | ast.Continue()]:
            return True
        case [ast.If(body=first, orelse=second)]:
            return _leaves(first) and _leaves(second)
    return False


def _conditional(test: ast.expr, first: list[ast.stmt], second: list[ast.stmt], where: Any) -> list[ast.stmt]:
    """Return the statements for two branches: an `if`, or an `assert` if the second branch is a failed assertion.

    No `else` is needed after a branch that ends in a jump.
    """
    match second:
        case [ast.Assert(test=ast.Constant(value=False)) as check, *_]:
            check.test = test
            return [check, *first]
    if _leaves(second) and not _leaves(first):
        test, first, second = invert(test), second, first
    if _leaves(first):
        return [set_location(ast.If(test, first, []), where), *second]
    if not first and second:
        return [set_location(ast.If(invert(test), second, []), where)]
    return [set_location(ast.If(test, first or [ast.Pass()], second), where)]
