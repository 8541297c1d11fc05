"""Frames, which contain the values of one run of an interpreted program.

In: a program and an epoch. Out: the buffers of its outputs. Invariant: memory is overwritten only if it contains no
needed value. Memory from before the run is overwritten only after every step that can fail. From then on, an interrupt
waits for the end of the run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.fusion.graph.expr import Expr, value_bytes
from weft.fusion.record.by_value import in_memory
from weft.fusion.record.storage import OVERWRITING, Epoch, references
from weft.fusion.run.interpret.program import Program, ValueStep
from weft.runtime import get_device, thread_count


class Interpreted:
    """A stand-in for `Plan` in interpreted runs, which have no plan. `evaluate_epoch` reads the attributes of the stand-in."""

    __slots__ = ("alone", "complete", "handed", "outputs")

    def __init__(self, program: Program, versions: list[Expr]) -> None:
        self.alone = None
        self.handed = program.handed
        self.complete = -1 not in program.handed
        self.outputs = [(v, slot) for v, slot in zip(versions, program.handed, strict=True) if slot >= 0]


def interpret(program: Program, epoch: Epoch) -> list[Any]:
    """Run a program, and return the buffers of its outputs.

    The list contains each output's buffer at the index of the output's value, and None elsewhere. Raises
    NeedsKernelError if only a plan computes the right bits. In this case, no memory has been overwritten.
    """
    frame = ValueFrame(program, epoch)
    interrupt: KeyboardInterrupt | None = None
    at, end = 0, len(program.steps)
    while True:
        try:
            while at < end:
                if at == program.tail:
                    frame.look_for_donations()
                step = program.steps[at]
                frame.values[step.number] = step.run(frame, frame.values, step)
                frame.done(step)
                at += 1
            table = frame.table()
            break
        except KeyboardInterrupt as error:
            if epoch.stage != OVERWRITING or not frame.donated:
                raise
            interrupt = error
    if frame.donated and epoch.results:
        epoch.results = {v: leaf for v, leaf in epoch.results.items() if leaf.attrs[0] not in frame.donated}
    if interrupt is not None:
        raise interrupt
    return table


class ValueFrame:
    """The values of an interpreted run, which may share memory with each other.

    If the host cannot access the memory of the epoch's device, the values are in memory of the CPU device. Leaves are
    then copied from the epoch's device, and outputs are copied to it.
    """

    def __init__(self, program: Program, epoch: Epoch) -> None:
        count = len(program.steps)
        self.program = program
        self.epoch = epoch
        self._remote: Any = None if epoch.device.memory_on_host else epoch.device
        self.device: Any = get_device("cpu") if self._remote else epoch.device
        self.slots = epoch.slots
        self.threads: int = thread_count()
        self.values: list[Any] = [None] * count  # arrays; None before a value is computed, and after its last use
        self.owner = [-1] * count  # the value that owns the memory of each value, or -1 if it must not be written
        self.left = program.uses[:]
        self.inside = [0] * count  # number of values in the memory of each value
        self.buffers: dict[int, Any] = {}
        self.donations: dict[int, int] = {}  # leaves that may be overwritten -> their slots
        self.donated: set[int] = set()
        self._settled = [False] * count

    # -- memory ---------------------------------------------------------------------------------

    def new(self, node: Expr) -> Any:
        """Allocate memory for a value and return it as an array."""
        number = self.program.numbers[node]
        buffer = self.device.allocate(node.nbytes)
        self.buffers[number] = buffer
        self.owner[number] = number
        return self.device.view_memory(buffer, node.dtype, node.shape)

    def leaf(self, step: ValueStep) -> Any:
        """Return the array for an input of the graph. The array must not be written."""
        node, slot = step.node, self.slots[step.node.attrs[0]]
        if self._remote:
            return self._remote.download(in_memory(slot), node.dtype, node.shape)
        return self.device.download(slot, node.dtype, node.shape)

    def apart(self, number: int, other: int) -> Any:
        """Make sure that the arrays of two values share no memory, by copying the first array if necessary. Return the first array or its copy."""
        value = self.values[number]
        if self.values[other] is not None and np.may_share_memory(value, self.values[other]):
            if self.owner[number] >= 0:
                self.inside[self.owner[number]] -= 1
            value = self.values[number] = value.copy()
            self.owner[number] = -1
        return value

    def copied(self, step: ValueStep) -> Any:
        """Return the array that an update modifies: the array before the update if nothing else needs it, otherwise a
        copy.

        The elements of an uninitialized array are not copied.
        """
        previous = step.operands[0]
        array, owner = self.values[previous], self.owner[previous]
        if owner >= 0 and self.left[previous] == 1 and self.inside[owner] == 1 and array.flags.c_contiguous:
            whole = self.buffers.get(owner)
            if whole is not None and whole.nbytes == step.node.nbytes and array.flags.writeable:
                self.owner[step.number] = owner
                return array.reshape(step.node.shape)
        out = self.new(step.node)
        if step.node.operands[0].kind != "empty":
            out[...] = array
        return out

    def overwritten(self, step: ValueStep) -> Any:
        """Return an array that an update may modify: the input's own memory if it may be overwritten, otherwise the copy that ``copied()`` makes."""
        previous = step.operands[0]
        slot = self.donations.get(previous)
        if slot is None or self.left[previous] != 1 or self.owner[previous] >= 0:
            return self.copied(step)
        buffer = self.slots[slot]
        self.epoch.stage = OVERWRITING
        self.donated.add(slot)
        self.buffers[step.number] = buffer
        self.owner[step.number] = step.number
        return self.device.view_memory(buffer, step.node.dtype, step.node.shape)

    def look_for_donations(self) -> None:
        """Find the input buffers that are needed only by one in-place update. The update may overwrite such a buffer, so that no copy is made."""
        if self._remote:
            return
        readers: dict[int, int] = {}
        for step in self.program.steps[self.program.tail :]:
            for operand in set(step.operands):
                readers[operand] = readers.get(operand, 0) + 1
        for step in self.program.steps[self.program.tail :]:
            previous = step.operands[0]
            node = step.node.operands[0]
            if node.kind != "leaf" or value_bytes(node) or readers.get(previous) != 1 or self.left[previous] != 1:
                continue
            slot = node.attrs[0]
            array, self.values[previous] = self.values[previous], None
            shared = any(v is not None and np.may_share_memory(v, array) for v in self.values)
            del array
            if not shared and references(self.slots, slot) == 1:
                self.donations[previous] = slot
            self.values[previous] = self.device.download(self.slots[slot], node.dtype, node.shape)

    def done(self, step: ValueStep) -> None:
        """Release the values that no step after `step` needs."""
        number = step.number
        if self._settled[number]:
            return
        self._settled[number] = True
        owner = self.owner[number]
        if self.left[number] and owner >= 0:
            self.inside[owner] += 1
        elif not self.left[number]:
            self.values[number] = None
            self.buffers.pop(number, None)
        for operand in step.operands:
            self.left[operand] -= 1
            if not self.left[operand]:
                self.values[operand] = None
                slot = self.owner[operand]
                if slot >= 0:
                    self.inside[slot] -= 1
                    if not self.inside[slot]:
                        self.buffers.pop(slot, None)

    # -- results --------------------------------------------------------------------------------

    def table(self) -> list[Any]:
        """Return a list with one entry for each value of the program: a buffer if the value is an output, otherwise None.

        Each computed output is C-contiguous and has a buffer of its own.
        """
        found: list[Any] = [None] * len(self.values)
        taken: set[int] = set()
        for node, number in self.program.outputs:
            if node.kind == "leaf":
                found[number] = in_memory(self.slots[node.attrs[0]])
                continue
            owner, array = self.owner[number], self.values[number]
            if self._remote:
                found[number] = self._remote.upload(np.ascontiguousarray(array))
                continue
            buffer = self.buffers.get(owner)
            own = owner not in taken and array.flags.c_contiguous
            if buffer is not None and own and buffer.nbytes == node.nbytes:
                taken.add(owner)
            else:
                buffer = self.device.allocate(node.nbytes)
                self.device.view_memory(buffer, node.dtype, node.shape)[...] = array
            found[number] = buffer
        return found
