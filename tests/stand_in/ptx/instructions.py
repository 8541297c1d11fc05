"""The semantics of each PTX instruction, as steps of a program.

In: a `Function`. Out: a `Program`. Source: NVIDIA, Parallel Thread Execution ISA 9.0, chapter 9. Invariant: an
unknown instruction, type or modifier is an error when the function is prepared, and never a wrong result.
"""

from __future__ import annotations

from typing import Any

from tests.stand_in.ptx.arithmetic import Arithmetic, Choices
from tests.stand_in.ptx.bits import Bits
from tests.stand_in.ptx.machine import (
    LAUNCH_FAILED,
    Barrier,
    Branch,
    Fault,
    Grid,
    Lanes,
    Plain,
    Program,
    Return,
    Step,
    Table,
    Together,
)
from tests.stand_in.ptx.synchronization import Memory, Synchronization
from tests.stand_in.ptx.text import Module


def make_ready(module: Module, name: str, symbols: dict[str, int], made: dict[str, Program]) -> Program:
    """Prepare a function of a module and the functions that it calls.

    `symbols` contains the addresses of the module's global variables.
    """
    function = module.functions[name]
    if name in made:
        return made[name]
    offsets, sizes = dict(symbols), {"shared": 0, "local": 0}
    dynamic = [v for v in module.variables.values() if v.space == "shared" and not v.size]
    own = [*function.variables, *(v for v in module.variables.values() if v.space == "shared" and v.size)]
    for variable in own:
        space = variable.space
        if space == "param":
            continue
        if space not in sizes:
            raise ValueError(f"a variable of {space} memory in a function: {variable.name}")
        sizes[space] = -(-sizes[space] // variable.align) * variable.align
        offsets[variable.name] = sizes[space]
        sizes[space] += variable.size
    sizes = {space: -(-size // 16) * 16 for space, size in sizes.items()}
    offsets.update({v.name: sizes["shared"] for v in dynamic})
    program = Program(function, module, [], frozenset(), sizes["shared"], sizes["local"], offsets)
    made[name] = program
    program.calls = made
    for called in sorted({o for i in function.code if i.name == "call" for o in i.operands} & set(module.functions)):
        # a shared variable belongs to the block, whichever function uses it
        inner = make_ready(module, called, symbols, made)
        if inner.shared_bytes > sum(v.size for v in module.variables.values() if v.space == "shared"):
            raise ValueError(f"shared memory of {called} alone")
    program.steps = [Maker(program, i).step() for i in function.code]
    program.steps.append(Return())
    program.leaders = frozenset(function.labels.values())
    return program


class Maker(Arithmetic, Choices, Bits, Memory, Synchronization):
    """A translator from a PTX instruction to a step of a program."""

    def step(self) -> Any:
        """Translate the PTX instruction into a step: an object that the simulated GPU executes."""
        i, made = self.i, getattr(self, f"_{self.i.name}", None)
        if made is None:
            raise ValueError(f"unknown instruction: {i.text}")
        try:
            found = made()
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError(f"not understood ({error!r}): {i.text}") from error
        if isinstance(found, Branch | Return | Together):
            found.guard, found.negated = i.guard, i.negated
            return found
        if isinstance(found, Barrier | Table):
            if i.guard:
                raise ValueError(f"under a condition: {i.text}")
            return found
        return Plain(found, i.guard, i.negated)

    def _bra(self) -> Branch:
        return Branch(self.function.labels[self.operands[0]])

    def _brx(self) -> Table:
        targets = self.function.tables[self.operands[1]]
        return Table(self.read(self.operands[0], "u32"), tuple(self.function.labels[t] for t in targets))

    def _ret(self) -> Return:
        return Return()

    _exit = _ret

    def _trap(self) -> Step:
        def stop(g: Grid, m: Lanes) -> None:
            raise Fault(LAUNCH_FAILED, "a trap")

        return stop
