"""A generator of random structured programs that log their conditions.

A program calls `t(k)` for each condition that has no other condition as its part, and `s` in some of its statements, so
that the log of a run shows its path.
"""

from __future__ import annotations

import random


class ProgramWriter:
    """A generator of one random program."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.count = 0

    def program(self) -> str:
        """Return the source text of a function `f(t, s)`."""
        return "def f(t, s):\n    x = y = 0\n" + "\n".join(self.body(1, 3, False))

    def number(self) -> int:
        """Return a new number that identifies a condition or a statement in the program's log."""
        self.count += 1
        return self.count

    def condition(self, depth: int = 2) -> str:
        """Return the text of a random condition."""
        kind = self.source.randrange(8) if depth else 0
        inner = [self.condition(depth - 1) for _ in range(3)] if kind > 2 else []
        match kind:
            case 3:
                return f"({inner[0]} and {inner[1]})"
            case 4:
                return f"({inner[0]} or {inner[1]})"
            case 5:
                return f"(not {inner[0]})"
            case 6:
                return f"({inner[0]} if {inner[1]} else {inner[2]})"
            case 7:
                return f"({inner[0]} < {inner[1]} <= {inner[2]})"
        return f"t({self.number()})"

    def value(self) -> str:
        """Return the text of a random expression."""
        kind = self.source.randrange(5)
        first, second = self.condition(), self.condition(1)
        return (f"x + {first}", first, f"s({second}, {first})", "-y", f"({first}, {second})[{self.condition(0)} > 1]")[
            kind
        ]

    def body(self, indent: int, depth: int, loop: bool) -> list[str]:
        """Return the lines of a block of statements."""
        lines: list[str] = []
        for _ in range(self.source.randint(1, 3)):
            lines += self.statement(indent, depth, loop)
        return lines

    def statement(self, indent: int, depth: int, loop: bool) -> list[str]:
        """Return the lines of a random statement."""
        space = "    " * indent
        kind = self.source.randrange(12) if depth else self.source.randrange(6)
        simple = (
            f"s({self.number()})",
            f"x = {self.value()}",
            f"x, y = y, {self.value()}",
            f"y += {self.value()}",
            self.source.choice(["break", "continue"]) if loop else f"s({self.value()})",
            self.source.choice([f"return {self.value()}", f"assert {self.condition()}", "return", "x = y = s(1)"]),
        )
        if kind < 6:
            return [space + simple[kind]]
        if kind < 9:
            lines = [f"{space}if {self.condition()}:", *self.body(indent + 1, depth - 1, loop)]
        elif kind < 11:
            lines = [f"{space}for i in range({self.source.randint(0, 3)}):", *self.body(indent + 1, depth - 1, True)]
        else:
            lines = [f"{space}while {self.condition()}:", *self.body(indent + 1, depth - 1, True)]
        if self.source.random() < 0.4:
            lines += [f"{space}else:", *self.body(indent + 1, depth - 1, loop)]
        return lines
