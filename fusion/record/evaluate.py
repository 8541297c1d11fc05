"""Evaluation of storages: running the plan that computes them, and assigning its results.

In: pending storages. Out: the same storages with memory. Invariant: a failed evaluation changes nothing, and pending
work stays pending.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.fusion.graph.expr import Expr, constant_value, intern, is_draw, topological
from weft.fusion.graph.statistics import STATISTICS
from weft.fusion.record.shared_memory import copy_buffer, find_shared
from weft.fusion.record.storage import EVALUATING, IDLE, OVERWRITING, Epoch, Storage, recording, references
from weft.fusion.record.unfused_sites import CALL, Site, is_faster_compiled, note_alone
from weft.runtime import Buffer, OutOfMemoryError

if TYPE_CHECKING:
    from weft.fusion.plan.steps import Plan

# Maximum number of evaluations during a recording: each adds to the key of later plans.
ASIDE = 16


def _load_and_run(*arguments: Any) -> None:
    """Import `execute.run`, replace this function with it for later evaluations, and call it."""
    global run
    run = import_module("weft.fusion.run.execute").run
    run(*arguments)


run: Callable[..., None] = _load_and_run


def evaluate(storages: list[Storage], aside: bool = False) -> None:
    """Evaluate `storages`, and other pending values that they need or that cost little.

    With `aside`, recording continues in the same epoch, so that other pending work is planned together with later work.
    """
    if len(storages) == 1:
        (storage,) = storages
        epoch, node = storage.epoch, storage.expr
        if epoch is not None and storage.buffer is None:
            if node is None or node.operands or not fill_memory(storage):
                evaluate_epoch(epoch, storages, aside)
        return
    asked = storages
    while asked := [s for s in asked if s.buffer is None and s.epoch is not None]:
        epoch = asked[0].epoch
        if epoch is not None:  # (another thread may have just evaluated it)
            evaluate_epoch(epoch, [s for s in asked if s.epoch is epoch], aside)
        asked = [s for s in asked if s.epoch is not epoch]


def fill_memory(storage: Storage) -> bool:
    """Evaluate a pending constant or uninitialized array on the CPU, without a plan.

    Return False if nothing was allocated, for example for other values.

    Programs often create an array of zeros and then fill it row by row. Each assignment to a row can then run
    immediately.
    """
    node, epoch, device = storage.expr, storage.epoch, storage.device
    if node is None or node.kind not in ("constant", "empty") or device.name != "cpu" or not node.size:
        return False
    buffer = device.allocate(node.nbytes)
    buffer.origin = node.location
    if node.kind == "constant":
        device.view_memory(buffer, node.dtype, node.shape).fill(constant_value(node))
    if storage.expr is not node:
        return False  # another thread has written to it
    storage.buffer = buffer
    storage.expr = storage.epoch = None
    if epoch is not None and epoch is recording.epoch:
        epoch.drop_unreferenced(len(epoch.pending) - 1)  # (otherwise the epoch would keep the memory alive)
    return True


def realise(storage: Storage) -> Buffer:
    """Return a buffer with a storage's elements, after evaluating or copying them if necessary."""
    while True:
        buffer = storage.buffer
        if buffer is not None:
            return buffer
        if storage.epoch is not None:
            evaluate([storage])
        elif (owner := find_shared(storage)) is not None:
            return copy_buffer(owner.buffer)
        elif (host := storage.host) is not None:
            elements = bytearray(host.tobytes())
            buffer = storage.device.upload(np.frombuffer(elements, host.dtype).reshape(host.shape))
            shown = host.reshape(-1).view(np.uint8).data
            # (no calls after the comparison: another thread must not write or evaluate in between; a bytearray on the
            # left compares with memcmp, 50 times as fast as a memoryview)
            if storage.host is host and elements == shown:
                storage.buffer, storage.host, storage.value = buffer, None, None
                STATISTICS.uploaded += 1


def evaluate_epoch(epoch: Epoch, storages: list[Storage], aside: bool = False) -> None:
    """Compute the values of `storages`. All of them are pending in the same recording of operations (an epoch).

    Another thread may still be recording in this epoch, or a finalizer may have interrupted an evaluation of the epoch
    in this thread. In these cases no memory is overwritten, because the other code may use it.

    Raises RuntimeError if the interrupted evaluation overwrites memory, since values are incomplete until it ends.
    """
    with epoch.lock:
        stage = epoch.stage
        if stage == OVERWRITING:
            raise RuntimeError("these arrays are being updated in place; what interrupts that cannot have them")
        elsewhere = stage != IDLE or recording.epoch is not epoch
        held = epoch.slots[:] if elsewhere and (stage != IDLE or not epoch.ended) else None
        epoch.stage = EVALUATING
        try:
            seen = epoch.pending[:] if elsewhere else None  # (other threads may append meanwhile)
            begun, withdrawn = len(epoch.pending if seen is None else seen), epoch.withdrawn
            live, wanted = _live_and_wanted(epoch, storages, seen, others=not (elsewhere or aside))
            if not live or wanted == ():
                if not elsewhere:
                    _begin_epoch(epoch)
                return
            versions: list[Any] = [s.expr for s in live]
            if None in versions:  # a finalizer has just evaluated some of them
                evaluate_epoch(epoch, storages, aside)
                return

            def assign_results(plan: Plan, table: list[Any]) -> None:
                """Assign the results of an evaluation to storages. After an interrupt, this may be repeated."""
                nonlocal begun, withdrawn
                rest = elsewhere or not plan.complete
                stays = aside and rest and not elsewhere and epoch.asides < ASIDE
                left = _assign(epoch, live, versions, plan, table, stays, streams=elsewhere or stays)
                # dead storages and their epoch refer to each other: do not leave them to the garbage collector
                if elsewhere:
                    begun -= epoch.withdrawn - withdrawn
                    epoch.withdrawn += begun - len(left)
                    withdrawn = epoch.withdrawn
                epoch.pending[:begun] = left
                begun = len(left)
                if rest:
                    # storages that stay pending must find these results instead of computing them again
                    for version, slot in plan.outputs:
                        epoch.results[version] = epoch.bind(table[slot], version.shape, version.dtype)
                if stays:
                    # a computed version keeps its name in expressions that are still pending
                    epoch.asides += 1
                elif not elsewhere:
                    _begin_epoch(epoch)

            _run(epoch, versions, wanted, assign_results)
        finally:
            epoch.stage = stage
            del held
            if elsewhere:
                epoch.release_if_ended()


def _run(
    epoch: Epoch, versions: list[Expr], wanted: tuple[int, ...] | None, assign_results: Callable[..., None]
) -> None:
    """Run the plan of a recording.

    If the recording is a single call that NumPy executes faster, note its call site, so that NumPy executes the next
    call there.
    """
    few, interpreted, alone = len(epoch.pending) <= _FEW, STATISTICS.interpreted, None

    def look_and_assign(plan: Plan, table: list[Any]) -> None:
        nonlocal alone
        alone = alone or _find_alone(epoch, plan)
        assign_results(plan, table)

    try:
        run(epoch, versions, wanted, look_and_assign if few else assign_results)
    except OutOfMemoryError as error:  # (the frames in its traceback hold the plan's memory)
        raise error.with_traceback(None) from None
    if alone is not None:
        faster = is_faster_compiled(alone[1])
        if not faster or STATISTICS.interpreted > interpreted:  # (NumPy takes less time than interpretation)
            note_alone(alone[0], waits=faster)


def _live_and_wanted(
    epoch: Epoch, storages: list[Storage], seen: list[Storage | Expr] | None, others: bool
) -> tuple[list[Storage], tuple[int, ...] | None]:
    """Return the pending storages that the program references, and the indices of those to evaluate.

    None means that all are requested. With `others`, storages that can reuse memory now are also requested.
    """
    if epoch.pending == storages:
        if not [s for s in storages if s.epoch is not epoch or s.buffer is not None]:
            return storages, None
    live = epoch.live(seen)
    if live == storages:
        return live, None
    known = set(live)
    live += [s for s in dict.fromkeys(storages) if s not in known and s.buffer is None and s.epoch is epoch]
    asked = set(storages)
    wanted = [k for k, s in enumerate(live) if s in asked or (others and _is_in_place(s.expr, epoch))]
    return live, tuple(wanted)


# Maximum number of pending values of a recording for which `_operation_alone` is called.
_FEW = 4


def _find_alone(epoch: Epoch, plan: Plan) -> tuple[Site, Expr] | None:
    """Return the result of `_operation_alone`, which is kept with the plan for recordings with equally many pending values."""
    if plan.alone is None or plan.alone[0] != len(epoch.pending):
        plan.alone = len(epoch.pending), _operation_alone(epoch)
    result: tuple[Site, Expr] | None = plan.alone[1]
    return result


def _operation_alone(epoch: Epoch) -> tuple[Site, Expr] | None:
    """If a recording consists of a single operation, return the operation's call site and its value. Otherwise return None.

    All operations of one call in the user's code count as one, and so does a sequence of updates. Views do not count.
    """
    nodes: list[Any] = [each.expr if type(each) is Storage else each for each in epoch.pending]
    nodes = list(dict.fromkeys([node for node in nodes if node is not None]))
    others = [node for node in nodes if node.kind != "view"] or nodes
    if not others or (where := others[0].location or epoch.first) is None:
        return None
    site = id(where[-2]), where[-1]
    if 1 in (len(nodes), len(others)) or {node.kind for node in others} == {"update"}:
        return site, others[-1]
    for node in others:
        if node.location is None or node.location[-2:] != where[-2:]:
            return None
    return (*site, CALL), others[-1]


def _assign(
    epoch: Epoch, live: list[Storage], versions: list[Any], plan: Plan, table: list[Any], stays: bool, *, streams: bool
) -> list[Storage]:
    """Assign the results of a plan to storages, and return the storages that are still pending.

    With `stays`, the storages remain in their epoch. Pending random numbers remain in it only with `streams`.
    """
    left = []
    for storage, version, slot in zip(live, versions, plan.handed):  # noqa: B905 (`strict` takes time)
        if slot >= 0 and storage.expr is version:
            buffer: Buffer = table[slot]
            buffer.origin = version.location or epoch.first  # type: ignore[union-attr]
            storage.buffer = buffer
            if not stays:
                storage.epoch = storage.expr = None
        elif storage.buffer is None:
            left.append(storage)
    return left if streams else _separate_draws(epoch, left)


def _separate_draws(epoch: Epoch, left: list[Storage]) -> list[Storage]:
    """Move each pending array of random numbers to a recording of its own. Return the storages of the other pending arrays.

    Programs often keep a name for random numbers that kernels have drawn. The epoch of these numbers would keep all
    memory that was recorded together with them.
    """
    others = []
    for storage in left:
        node = storage.expr
        if storage.epoch is epoch and node is not None and is_draw(node):
            own = Epoch(epoch.device)
            storage.expr = _rebound(node, epoch, own)
            storage.epoch = own
        elif storage.epoch is epoch:
            others.append(storage)
    return others


def _rebound(root: Expr, epoch: Epoch, own: Epoch) -> Expr:
    """Copy an expression from one recording of operations to another. The copy reads the same buffers as the original."""
    made: dict[Expr, Expr] = {}
    for node in topological([root]):
        if node.kind == "leaf":
            made[node] = own.bind(epoch.slots[node.attrs[0]], node.shape, node.dtype)
        elif node.kind == "scalar":
            made[node] = own.bind_scalar(epoch.slots[node.attrs[0]], node.dtype)
        else:
            operands = tuple([made[operand] for operand in node.operands])
            made[node] = intern(node.kind, node.op, operands, node.attrs, node.shape, node.dtype, node.location)
    return made[root]


def _is_in_place(version: Expr | None, epoch: Epoch) -> bool:
    """Return whether a pending value can overwrite an unshared operand of the same shape."""
    for node in version.operands if version is not None else ():
        if node.kind == "leaf" and node.nbytes == version.nbytes and node.shape == version.shape:  # type: ignore[union-attr]
            if references(epoch.slots, node.attrs[0]) == 1:
                return True
    return False


def release_memory(storage: Storage) -> bool:
    """If a recording has no pending work, release its buffers. Return whether buffers were released.

    The recording is the storage's or, if the storage has none, the current one.
    """
    epoch = recording.epoch
    if recording.held:
        return False
    if storage.epoch is not epoch and (last := storage.epoch) is not None:
        return last.release_if_ended()
    if epoch is None or epoch.pending or not epoch.slots or epoch.stage != IDLE:
        return False
    _begin_epoch(epoch)
    return True


def _begin_epoch(epoch: Epoch) -> None:
    """Begin a new recording of operations (an epoch) in this thread. It replaces the current recording, which ends.

    If the current recording `epoch` has no pending work, its slots are released, and the new epoch uses its lock.
    """
    if epoch.pending:
        epoch.ended = True
        recording.epoch = Epoch(epoch.device)
    else:
        epoch.forget()
        recording.epoch = Epoch(epoch.device, epoch)
