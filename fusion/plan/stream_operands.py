"""A pass over plans that lets kernels generate random numbers themselves.

In: the steps of a plan. Out: the remaining steps. A stream (`weft.runtime.cpu.random.random_streams`) is never in
memory if its readers are one or two kernels that each read an element range per iteration of the outermost loop.
Instead, the kernels read the words of the stream. Invariant: the numbers are those of the call that fills memory.
"""

from __future__ import annotations

from typing import Any

from weft.fusion.graph.expr import is_stream
from weft.fusion.plan.arena import Donation, slots_of
from weft.fusion.plan.steps import HostCall, KernelLaunch

# Maximum number of kernels that draw the same numbers.
MOST_READERS = 2


def read_streams(steps: list[Any], kept: set[int]) -> list[Any]:
    """Change the steps of a plan so that kernels generate random numbers themselves. Return the steps without the calls that are no longer needed.

    Streams in the slots `kept`, which are results of the plan, stay in memory.
    """
    for call in [step for step in steps if isinstance(step, HostCall) and is_stream(step.node)]:
        ((words, operand, _),) = call.operands
        readers = _readers(steps, call) if call.out not in kept and operand.kind == "leaf" else []
        for reader, argument in readers:
            reader.patches = [patch for patch in reader.patches if patch[0] != argument]
            reader.streams.append((argument, words, call.node.size))
            reader.nbytes -= call.node.nbytes
        if readers:
            steps = [step for step in steps if step is not call and call.out != step]
            steps = [step for step in steps if not (isinstance(step, tuple) and step[0] == call.out)]
    return steps


def _readers(steps: list[Any], call: HostCall) -> list[tuple[KernelLaunch, int]]:
    """Return the kernels that read a random number stream and can generate it themselves, each with the index of its argument for the stream.

    Return [] if the stream must be in memory.
    """
    found: list[tuple[KernelLaunch, int]] = []
    for step in steps:
        if isinstance(step, KernelLaunch):
            own = [(argument, offset) for argument, slot, offset in step.patches if slot == call.out]
            if not own:
                continue
            ((argument, offset), *others) = own
            if others or offset or argument not in step.function.spans:
                return []
            found.append((step, argument))
        elif step is not call and isinstance(step, (HostCall, Donation)) and call.out in slots_of(step):
            return []
    return found if len(found) <= MOST_READERS else []
