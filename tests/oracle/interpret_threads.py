"""Synchronization of threads in the reference interpreter: barriers, shuffles and votes.

In: the threads of one block, or of a whole grid if its blocks wait for one another. A thread is a generator. The
generator yields the synchronizing operation at which the thread waits, and the operands. The results are sent to the
generator. Invariant: threads are switched only at synchronizing operations. In explicit kernels, no thread waits for a
thread that has ended. A synchronization that can never complete is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.dtypes import is_half
from weft.codegen.kernel_ir.operation import Kernel, Operation
from weft.codegen.ops.op_table import find_op

WARP = 32
_FULL = 2**WARP - 1

Stop = tuple[Operation, list[Any]]
Thread = Generator[Stop, Any, list[Any]]
Offers = dict[int, list[Any]]  # operands by lane


class DivergenceError(RuntimeError):
    """Raised for a synchronization that cannot complete, or that is not allowed."""


@dataclass(slots=True)
class Warp:
    """The threads of a warp, and the operation at which each of them waits.

    Threads that have ended have no such operation.
    """

    threads: list[Thread]
    stops: dict[int, Stop] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)

    def resume(self, lane: int, sent: Any) -> None:
        """Run a thread to its next operation that synchronizes, or to its end."""
        try:
            self.stops[lane] = self.threads[lane].send(sent)
        except StopIteration:
            self.stops.pop(lane, None)
            self.ended.add(lane)


def finish(thread: Thread) -> None:
    """Interpret a kernel without threads to its end. `thread` is a generator that executes the kernel.

    Raises DivergenceError at an operation that synchronizes threads.
    """
    for operation, _ in thread:
        raise DivergenceError(f"{operation.opcode} in a kernel without threads")


def run_blocks(kernel: Kernel, blocks: list[list[Thread]], backwards: bool) -> None:
    """Run blocks one after another, or concurrently if the kernel has a grid barrier."""
    if not any(o.opcode == "grid_barrier" for o in kernel.walk()):
        for threads in blocks:
            _run(kernel, [threads], backwards)
    else:
        _run(kernel, blocks, backwards)


def _run(kernel: Kernel, blocks: list[list[Thread]], backwards: bool) -> None:
    warps = [[Warp(threads[k : k + WARP]) for k in range(0, len(threads), WARP)] for threads in blocks]
    for block in warps:
        for warp in reversed(block) if backwards else block:
            for lane in _order(warp, backwards):
                warp.resume(lane, None)
    while any(warp.stops for block in warps for warp in block):
        met = [_meet_block(kernel, block, backwards) for block in warps]
        if not any(met) and not _meet_grid(warps):
            _complain(kernel, warps)


def _order(warp: Warp, backwards: bool) -> list[int]:
    lanes = list(range(len(warp.threads)))
    return lanes[::-1] if backwards else lanes


def _meet_block(kernel: Kernel, warps: list[Warp], backwards: bool) -> bool:
    """Resume the threads of a block that wait at a warp operation or a barrier, if all its participants have reached
    it.

    Return whether any thread was resumed.
    """
    met = False
    for warp in reversed(warps) if backwards else warps:
        met = _meet_warp(kernel, warp, backwards) or met
    if met:
        return True
    waiting = [stop for warp in warps for stop in warp.stops.values()]
    operations = {stop[0] for stop in waiting}
    if len(operations) != 1:
        return False
    (operation,) = operations
    strict = not kernel.attributes.get("explicit") and any(warp.ended for warp in warps)
    if operation.opcode not in ("barrier", "barrier_vote") or strict:
        return False
    result: list[Any] = []
    if operation.opcode == "barrier_vote":
        said = [bool(operands[0]) for _, operands in waiting]
        votes = {"count": sum(said), "and": all(said), "or": any(said)}
        result = [np.int32(votes[operation.attributes["kind"]])]
    for warp in reversed(warps) if backwards else warps:
        for lane in _order(warp, backwards):
            if lane in warp.stops:
                warp.resume(lane, result)
    return True


def _meet_grid(warps: list[list[Warp]]) -> bool:
    every = [warp for block in warps for warp in block]
    if any(o.opcode != "grid_barrier" for warp in every for o, _ in warp.stops.values()):
        return False
    if any(warp.ended for warp in every):
        return False  # a needed thread has ended
    for warp in every:
        for lane in sorted(warp.stops):
            warp.resume(lane, [])
    return True


def _meet_warp(kernel: Kernel, warp: Warp, backwards: bool) -> bool:
    groups: dict[tuple[Operation, int], list[int]] = {}
    for lane, (operation, operands) in sorted(warp.stops.items()):
        if operation.opcode in _SYNCHRONIZATION:
            groups.setdefault((operation, _mask(operation, operands)), []).append(lane)
    for (operation, mask), lanes in groups.items():
        if operation.opcode == "shuffle_xor" and len(warp.threads) != WARP:
            raise DivergenceError(f"kernel {kernel.name}: a shuffle in a warp of {len(warp.threads)} threads")
        absent = [lane for lane in range(len(warp.threads)) if mask >> lane & 1 and lane not in lanes]
        if operation.opcode == "active_mask":
            absent = []  # the mask consists of the lanes that have arrived
        gone = kernel.attributes.get("explicit") or not warp.ended
        if any(lane not in warp.ended for lane in absent) or not gone:
            continue
        outside = [lane for lane in lanes if not mask >> lane & 1]
        if outside and operation.opcode != "active_mask":
            raise DivergenceError(
                f"kernel {kernel.name}: lane {outside[0]} is at {operation.opcode} with the mask 0x{mask:08x}, "
                "in which it is not"
            )
        results = _SYNCHRONIZATION[operation.opcode](operation, {lane: warp.stops[lane][1] for lane in lanes})
        for lane in reversed(lanes) if backwards else lanes:
            warp.resume(lane, results[lane])
        return True
    return False


def _mask(operation: Operation, operands: list[Any]) -> int:
    return _FULL if operation.opcode in ("shuffle_xor", "active_mask") else int(operands[0])


def _complain(kernel: Kernel, warps: list[list[Warp]]) -> None:
    for block in warps:
        for warp in block:
            at = {o.opcode for o, _ in warp.stops.values()} | ({"the end"} if warp.ended else set())
            operations = {o for o, _ in warp.stops.values()}
            if len(operations) > 1 or (operations and warp.ended):
                names = sorted(at) if len(at) > 1 else [f"different {name}s" for name in at]
                raise DivergenceError(f"kernel {kernel.name}: threads of a warp stand at {' and '.join(names)}")
    raise DivergenceError(f"kernel {kernel.name}: a barrier that not all threads of the block reach")


# -- results of synchronizing operations, by lane ----------------------------------------------------


def _shuffle_xor(operation: Operation, offers: Offers) -> Offers:
    return {lane: [offers[lane ^ operation.attributes["mask"]][0]] for lane in offers}


def _shuffle(operation: Operation, offers: Offers) -> Offers:
    width, mode = operation.attributes.get("width", WARP), operation.attributes["mode"]
    results: Offers = {}
    for lane, (_, own, number) in offers.items():
        other, base = int(number) & 31, lane & ~(width - 1)
        match mode:
            case "idx":
                source = base | (other & (width - 1))
            case "up":
                source = lane - other if lane - other >= base else lane
            case "down":
                source = lane + other if lane + other < base + width else lane
            case _:
                source = lane ^ other if lane ^ other < base + width else lane
        results[lane] = [offers[source][1] if source in offers else own]
    return results


def _warp_barrier(operation: Operation, offers: Offers) -> Offers:
    return {lane: [] for lane in offers}


def _vote(operation: Operation, offers: Offers) -> Offers:
    said = {lane: bool(condition) for lane, (_, condition) in offers.items()}
    result: Any
    match operation.attributes["kind"]:
        case "all":
            result = np.bool_(all(said.values()))
        case "any":
            result = np.bool_(any(said.values()))
        case "eq":
            result = np.bool_(len(set(said.values())) == 1)
        case _:
            result = np.uint32(sum(1 << lane for lane, yes in said.items() if yes))
    return {lane: [result] for lane in offers}


def _match(operation: Operation, offers: Offers) -> Offers:
    same: dict[bytes, int] = {}
    for lane, (_, value) in offers.items():
        same[value.tobytes()] = same.get(value.tobytes(), 0) | 1 << lane
    if operation.attributes["kind"] == "any":
        return {lane: [np.uint32(same[value.tobytes()])] for lane, (_, value) in offers.items()}
    agreed = len(same) == 1
    lanes = next(iter(same.values())) if agreed else 0
    return {lane: [np.uint32(lanes), np.bool_(agreed)] for lane in offers}


def _active_mask(operation: Operation, offers: Offers) -> Offers:
    return {lane: [np.uint32(sum(1 << k for k in offers))] for lane in offers}


def _warp_reduce(operation: Operation, offers: Offers) -> Offers:
    fold = getattr(np, find_op(operation.attributes["kind"]).ufunc)
    values = {lane: value for lane, (_, value) in offers.items()}
    kind = next(iter(values.values())).dtype
    if is_half(kind):  # reduced in float32
        values = {lane: np.float32(value) for lane, value in values.items()}
    if len(values) == WARP:
        for distance in (16, 8, 4, 2, 1):
            values = {lane: fold(value, values[lane ^ distance]) for lane, value in values.items()}
    else:
        first, *rest = (values[lane] for lane in sorted(values))
        for value in rest:
            first = fold(first, value)
        values = dict.fromkeys(values, first)
    return {lane: [value.astype(kind)] for lane, value in values.items()}


_SYNCHRONIZATION: dict[str, Callable[[Operation, Offers], Offers]] = {
    "shuffle_xor": _shuffle_xor,
    "shuffle": _shuffle,
    "warp_barrier": _warp_barrier,
    "vote": _vote,
    "match": _match,
    "active_mask": _active_mask,
    "warp_reduce": _warp_reduce,
}
