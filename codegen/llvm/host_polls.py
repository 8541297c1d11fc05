"""Polling for interrupts in the loops of threaded kernels.

Polls let Ctrl-C end a kernel. In: a kernel's loops. Out: code that counts iterations and, at regular intervals, calls
the function whose address is in the fault record (if it is not 0), with the record as argument. Invariant: the function
either returns or ends the kernel. A loop that LLVM can vectorize contains no poll.
"""

from __future__ import annotations

from weft.codegen.kernel_ir.operation import SYNCHRONIZATION, Block, Operation
from weft.codegen.llvm.emit_text import NoPolls, Writer
from weft.runtime import read_llvm

POLL = 6  # index of the poll function's address in the fault record
INTERVAL = 1 << 12  # loop iterations between polls: a poll takes about 50 ns
BLOCK = 1 << 8  # number of iterations that are counted for a block of threads
SHORT = 64  # loops with fewer iterations are short

_WEIGHTS = "!9"
_ATTRIBUTES = "attributes #9 = { noinline cold nounwind memory(argmem: readwrite, inaccessiblemem: readwrite) }"


class InterruptPolls(NoPolls):
    """Emitter of code that counts loop iterations and polls for interrupts at regular intervals.

    The emitter's entry block is open. `fault` is the address of the fault record as an integer, defined in the entry
    block.
    """

    def __init__(self, emitter: Writer, fault: str) -> None:
        self._emitter, self.fault = emitter, fault
        self._left = emitter.variable("i32", str(INTERVAL))
        self._constants = emitter.kernel.constants()
        emitter.declarations.setdefault("weft_poll", read_llvm(__file__, "host_polls", POLL=POLL))
        emitter.attributes.append(_ATTRIBUTES)
        emitter.metadata.append(f'{_WEIGHTS} = !{{!"branch_weights", i32 1, i32 {INTERVAL}}}')

    def end_iteration(self, body: Block) -> None:
        """Emit code that counts an iteration of a `for` loop, for regular interrupt polls. Emit nothing if LLVM might vectorize the loop."""
        if self._may_last(body):
            self.count(1)

    def end_repetition(self, repeat: Operation) -> None:
        """Emit code that counts an iteration of a `repeat` loop, unless the whole loop is short."""
        if _iterations(repeat) > SHORT:
            self.count(1)

    def count(self, iterations: int) -> None:
        """Emit code that counts `iterations` iterations, and polls for an interrupt at regular intervals."""
        emitter = self._emitter
        left = emitter.line(f"sub i32 {emitter.line(f'load i32, ptr {self._left}, align 4')}, {iterations}")
        emitter.do(f"store i32 {left}, ptr {self._left}, align 4")
        with emitter.when(emitter.line(f"icmp slt i32 {left}, 0"), f", !prof {_WEIGHTS}"):
            emitter.do(f"call void @weft_poll(ptr {emitter.line(f'inttoptr i64 {self.fault} to ptr')})")
            emitter.do(f"store i32 {INTERVAL}, ptr {self._left}, align 4")

    def _may_last(self, body: Block) -> bool:
        """Return whether an iteration may take a long time, or may leave the loop. LLVM vectorizes no loop with such iterations."""
        for operation in body.operations:
            name = operation.opcode
            if name in ("repeat", "leave") or name in SYNCHRONIZATION:
                return True
            if name == "for" and self._constants.get(operation.operands[1], SHORT) >= SHORT:
                return True
            if any(self._may_last(region) for region in operation.regions):
                return True
        return False


def _iterations(o: Operation) -> int:
    """Return the maximum number of iterations of the `repeat` loops in an operation.

    Return a number above `SHORT` if the maximum is unknown, or if there is a `for` loop or a synchronization point.
    """
    if o.opcode in SYNCHRONIZATION or o.opcode == "for":
        return SHORT + 1
    inside = sum(_iterations(inner) for region in o.regions for inner in region.operations)
    return int(o.attributes.get("most") or SHORT + 1) * max(inside, 1) if o.opcode == "repeat" else inside
