"""Recording of operations as expressions.

In: storages. Out: expressions in the current epoch, and new pending storages. Invariant: `operand` returns an
expression of the given epoch or, by default, of the current epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import pairwise
from sys import getrefcount
from typing import Any, TypeVar

import numpy as np

from weft.fusion.graph.expr import Expr, Location, cast
from weft.fusion.graph.statistics import STATISTICS
from weft.fusion.record.by_value import take_value
from weft.fusion.record.evaluate import evaluate, evaluate_epoch, realise
from weft.fusion.record.loops import Site, find_loop, is_uneven, is_visit, site_of, visits_of, waits_for_number
from weft.fusion.record.shared_memory import SharedMemory, copy_buffer, find_shared, share
from weft.fusion.record.storage import (
    HARD_LIMIT,
    HELD_BYTES,
    LIMITS_LIMIT,
    SHORT_LIMIT,
    SMALL_RUN,
    SOFT_LIMIT,
    TURN_LIMIT,
    Epoch,
    Storage,
    bind,
    current_epoch,
    limits,
    recording,
)
from weft.runtime import IMMEDIATE, Buffer, DeviceMismatchError

Operation = TypeVar("Operation", bound=Callable[..., Any])


def operand(storage: Storage, epoch: Epoch | None = None) -> Expr:
    """Return the current value of a storage as an expression in a recording."""
    if epoch is None:
        epoch = current_epoch(storage.device)
    node = storage.expr if storage.epoch is epoch else None
    if node is not None:
        epoch.taken.add(node)
        return node
    if storage.device is not epoch.device:
        raise DeviceMismatchError(
            f"this operation is on {epoch.device.name}, but one of its arrays is on {storage.device.name}; "
            f"move it with .to({epoch.device.name!r})"
        )
    value = take_value(storage, epoch)
    if value is not None:
        return epoch.bind(value, storage.shape, storage.dtype)
    return bind(storage, realise(storage), epoch)


def pending(expr: Expr, epoch: Epoch) -> Storage:
    """Return a new storage with the pending value `expr`."""
    epoch.check(expr)
    storage = Storage(expr.shape, expr.dtype, epoch.device, None, expr, epoch)
    epoch.pending.append(storage)
    return storage


def assign(storage: Storage, expr: Expr, previous: Expr, epoch: Epoch) -> bool:
    """Replace the value `previous` of a storage by `expr`. If another thread has already replaced it, change nothing and return False."""
    assert expr.shape == storage.shape and expr.dtype == storage.dtype
    buffer = storage.buffer
    if storage.expr is not previous or storage.epoch is not epoch:
        return False
    if expr is previous:
        return True  # no element was written
    # from here on, only the slot and captured expressions hold the buffer of the old version
    storage.expr = expr
    storage.buffer = None
    epoch.pending.append(expr if buffer is None else storage)
    return True


def write_anew(storage: Storage, epoch: Epoch, make: Callable[[Expr], Expr]) -> tuple[Expr, Expr]:
    """Replace the value of a storage by ``make(value)``.

    Return the old and the new value. If another thread writes to the storage meanwhile, `make` is called again.
    """
    while True:
        if storage.host is not None:
            if (owner := find_shared(storage)) is not None:  # (shared memory is written immediately)
                previous = epoch.bind(copy_buffer(owner.buffer), storage.shape, storage.dtype)
                made = make(previous)
                epoch.check(made)
                storage.device.copy(_evaluate_aside(made, epoch), owner.buffer, owner.buffer.nbytes)
                return previous, made
            realise(storage)  # (the write is to device memory)
        previous = operand(storage, epoch)
        made = make(previous)
        epoch.check(made)
        if assign(storage, made, previous, epoch):
            return previous, made


def _evaluate_aside(expr: Expr, epoch: Epoch) -> Buffer:
    """Evaluate only one expression of a recording, and return the buffer with its value. The other operations usually remain pending."""
    made = pending(expr, epoch)
    evaluate([made], aside=True)
    return realise(made)


def write_view(storage: Storage, owner: SharedMemory, value: Expr, view: tuple[Any, Any, int]) -> None:
    """Write a value to a view of host memory that other code also uses. The write is immediate, and changes only the elements of the view."""
    buffer = _evaluate_aside(cast(value, storage.dtype), current_epoch(storage.device))
    found = storage.device.download(buffer, storage.dtype, value.shape)
    shape, strides, offset = view
    width = storage.dtype.itemsize
    target = owner.array(storage.dtype, shape, tuple([step * width for step in strides]), offset * width)
    np.copyto(target, found)


def uncut(operation: Operation) -> Operation:
    """Decorate a function so that the current recording cannot end during a call. The function may therefore hold expressions of the recording."""

    @wraps(operation)
    def held(*arguments: Any, **options: Any) -> Any:
        if recording.held:
            return operation(*arguments, **options)
        recording.held = True
        try:
            return operation(*arguments, **options)
        finally:
            recording.held = False

    return held  # type: ignore[return-value]


# Heads of loops: lines at which recordings are cut, each with the number of operations of its loop's longest iteration.
# Bounded.
_heads: dict[Site, int] = {}
# Head -> number of successive recordings, cut at this head, that needed a new plan. A few are normal, since changing
# numbers become slots only after some iterations.
_misses: dict[Site, int] = {}
MISSES = 4
# The same for short recordings, whose few forms must be planned first.
SHORT_MISSES = 10
# Number of visits after which the head of a loop is remembered.
CERTAIN = 3
# Maximum number of visits in the history of recordings that were new programs.
HISTORY = 4096


def cut(epoch: Epoch, location: Location | None) -> Epoch:
    """Evaluate the pending work if the recording is long.

    Return the recording in which to continue. Recording is cut at the head of the outermost loop whose iterations have
    at most some hundred operations. This is a loop that earlier recordings have revealed or, if there is none, the
    outermost loop of this recording. If array lengths differ between iterations, recording is cut after a few
    iterations.
    """
    count = len(epoch.pending)
    if epoch.first is None:
        epoch.begin(location)
    if recording.held:
        return epoch
    at_head = count >= epoch.soft and location is not None and _is_head(epoch, location, count)
    if not at_head and count < HARD_LIMIT and epoch.bytes_held < HELD_BYTES:
        if epoch.limit <= count < epoch.soft:
            _find_short(epoch, count)
            epoch.limit = min(2 * count, epoch.soft)
        return epoch
    recorded = _expressions(epoch)
    # (A plan from disk is treated as a new program, so that every process learns the same loop heads.)
    unknown, plans = STATISTICS.unknown + STATISTICS.plans_read, STATISTICS.plans + STATISTICS.plans_read
    fresh, live = _end(epoch)
    if live:
        if found := STATISTICS.unknown + STATISTICS.plans_read == unknown:
            fresh.history = []
        else:
            fresh.history = [*epoch.history, *visits_of(recorded)][-HISTORY:]
        if at_head:
            planned = STATISTICS.plans + STATISTICS.plans_read > plans
            nodes = recorded if epoch.device.name == "cpu" else []
            _note_search(site_of(location), fresh.history, nodes, found, planned)  # type: ignore[arg-type]
    fresh.begin(location)
    return fresh


def _end(epoch: Epoch) -> tuple[Epoch, list[Storage]]:
    """Evaluate the pending work of a recording, and return a new recording and the evaluated storages."""
    live = epoch.live()
    # begin a new epoch first: failed work stays pending in the old epoch, and must not make later operations fail
    fresh = recording.epoch = Epoch(epoch.device)
    epoch.ended = True
    if live:
        evaluate_epoch(epoch, live)
    if not epoch.pending:
        epoch.forget()  # (storages in memory that the recording read still refer to the epoch)
    return fresh, live


def end_recording() -> None:
    """If this thread has a recording, evaluate its pending work and begin a new recording."""
    if recording.epoch is not None:
        _end(recording.epoch)


# Number of last operations that are searched for a large one: the update of a row is recorded two or three operations
# after it.
LOOKED_AT = 6
# Source lines of large operations that were followed by runs of small operations. Bounded.
_before_small: set[Site] = set()


def end_small_run() -> bool:
    """Evaluate the pending work if its last operations are small. Return whether the work was evaluated.

    Small operations are recorded only while large arrays are pending. After the evaluation, they run immediately. The
    last operations are examined only if the recording has doubled since the previous examination. Without an
    examination, the work is evaluated if it consists of a few operations that are small, except for copies at the
    beginning. It is also evaluated if a run of small operations has followed the source line of its last large
    operation before.
    """
    epoch, limit = recording.epoch, IMMEDIATE[0]
    if epoch is None or recording.held or epoch.device.name != "cpu" or not (count := len(epoch.pending)):
        return False
    large = _large(_expressions(epoch, -LOOKED_AT), limit)
    copies = count <= LOOKED_AT and bool(large) and all(map(_is_copy, large))
    only = not large and count <= SMALL_RUN and not _large(_expressions(epoch), limit)
    if not (copies or only or (_before_small and _site_of(large) in _before_small)):
        if not 2 * epoch.examined <= count < epoch.soft:
            return False
        epoch.examined = count
        recorded = _expressions(epoch)
        if any(node is None or _work(node) > limit for node in recorded[-SMALL_RUN:]):
            return False
        if (site := _site_of(_large(recorded, limit))) is not None:
            if len(_before_small) >= LIMITS_LIMIT:
                _before_small.clear()
            _before_small.add(site)
    seen = {*map(id, epoch.slots)} if copies else set()
    _, ended = _end(epoch)
    # copies have their own memory: otherwise the first write would be recorded and would copy them again
    for storage in ended:
        if (buffer := storage.buffer) is not None and id(buffer) in seen:
            storage.buffer = storage.device.fetch(buffer)
        seen.add(id(buffer))
    return True


def _large(recorded: list[Expr | None], limit: int) -> list[Expr | None]:
    """Return the recorded expressions up to and including the last large operation."""
    while recorded and (recorded[-1] is None or _work(recorded[-1]) <= limit):
        recorded.pop()
    return recorded


def _site_of(recorded: list[Expr | None]) -> Site | None:
    """Return the source line of the last expression that has a location, or None."""
    for node in reversed(recorded):
        if node is not None and node.location is not None:
            return site_of(node.location)
    return None


def _is_copy(node: Expr | None) -> bool:
    """Return whether evaluating an expression only copies an array that is already in memory."""
    return node is not None and "leaf" in (node.kind, node.operands[0].kind if node.kind == "view" else "")


def _work(node: Expr) -> int:
    """Return the number of elements that an operation processes."""
    if node.kind in ("update", "scatter"):
        return node.operands[1].size
    if node.kind in ("map", "gather", "view"):
        return node.size
    return max([node.size, *[each.size for each in node.operands]])


def _expressions(epoch: Epoch, begin: int = 0) -> list[Expr | None]:
    """Return the pending expressions from position `begin` on, in the order in which they were recorded."""
    return [one.expr if isinstance(one, Storage) else one for one in epoch.pending[begin:]]


def _is_head(epoch: Epoch, location: Location, count: int) -> bool:
    """Return whether a call site is at the head of a known loop, where a new iteration begins and a long recording should end."""
    if count >= epoch.look:
        _choose_head(epoch, count)
    site = site_of(location)
    return (site in _heads or site == epoch.head) and is_visit(location, _expressions(epoch, -8))


def _find_short(epoch: Epoch, count: int) -> None:
    """Look for a recorded loop to which `limits` allows at most `count` operations. If there is one, the recording ends at its next iteration."""
    if any(known <= count for known in limits.values()):
        for site in visits_of(_expressions(epoch)):
            if site is not None and limits.get(site, SOFT_LIMIT) <= count:
                epoch.head, epoch.soft = site, count


def _choose_head(epoch: Epoch, count: int) -> None:
    """Choose the loop head at which the recording is cut.

    This is a known loop head, or the head of a loop found in the recording. A known head that was not visited
    for two iterations is ignored, because its operation may now run immediately.
    """
    recorded = _expressions(epoch)
    sites = visits_of(recorded)
    epoch.look = 2 * count
    epoch.head = None
    last = {site: k for k, site in enumerate(sites) if site in _heads}
    if all(len(sites) - k > 2 * _heads.get(site, 0) for site, k in last.items()):
        loop = find_loop([*epoch.history, *sites])
        if loop is not None:
            epoch.head = loop.head
            before = len(epoch.history)
            waits = epoch.device.name == "cpu" and waits_for_number(loop, recorded, before)
            if waits or is_uneven(loop, recorded, before):
                _shorten(loop.head, SHORT_LIMIT)


def _note_search(
    site: Site, history: list[Site | None], recorded: list[Expr | None], found: bool, planned: bool
) -> None:
    """Note the result of the plan search for a recording that ended at the line `site`. Adjust where and how often later recordings end.

    If the recording's program was not `found` in memory, recordings are cut at the head of a longer loop that `history`
    shows. If such programs are `planned` several times in a row, the iterations have too many forms, and recordings
    become shorter. Programs that are interpreted cost no plan, and long recordings are faster. `recorded` contains the
    operations of a recording on the CPU, and is empty for other devices.
    """
    if found:
        _misses.pop(site, None)
        return
    if not planned:
        _learn_head(site, history, recorded)
        return
    if len(_misses) >= LIMITS_LIMIT:
        _misses.clear()
    count = _misses[site] = _misses.get(site, 0) + 1
    if limits.get(site, SOFT_LIMIT) <= SHORT_LIMIT:
        if count >= SHORT_MISSES:
            _shorten(site, TURN_LIMIT)
    elif count >= MISSES:
        _shorten(site, SHORT_LIMIT)
    else:
        _learn_head(site, history, recorded)


def _learn_head(site: Site, history: list[Site | None], recorded: list[Expr | None]) -> None:
    """Let later recordings end at a loop's head (its first line), if the source lines in `history` show that the loop
    has enough iterations.

    The heads of its inner loops are forgotten.
    """
    loop = find_loop(history)
    if loop is None or len(loop.visits) < CERTAIN:
        return
    sites = [*history, site]
    inner = _heads.keys() & sites
    if any(sites.count(head) <= len(loop.visits) for head in inner):
        return
    for head in inner:
        _heads.pop(head, None)
        limits.pop(head, None)
    if len(_heads) >= LIMITS_LIMIT:
        _heads.clear()
    _heads[loop.head] = max(after - before for before, after in pairwise(loop.visits))
    waits = waits_for_number(loop, recorded, len(history) - len(recorded))
    _shorten(loop.head, SHORT_LIMIT if waits else SOFT_LIMIT)


def _shorten(site: Site, limit: int) -> None:
    """Allow at most `limit` operations in recordings that begin at the source line `site`."""
    if len(limits) >= LIMITS_LIMIT:
        limits.clear()
    limits[site] = min(limits.get(site, limit), limit)


def flush() -> None:
    """Evaluate all pending work of this thread's current recording."""
    epoch = recording.epoch
    if epoch is not None and (live := epoch.live()):
        evaluate_epoch(epoch, live)


def exclusive(storage: Storage) -> Buffer:
    """Return the buffer of `storage` for direct writes.

    Pending work of this thread that uses the buffer is evaluated first. If another array or an exported view shares the
    memory, the storage gets a private copy. Memory that is shared with other code is returned as it is.
    """
    while True:
        if (owner := find_shared(storage)) is not None:
            return owner.buffer  # (recorded operations read copies)
        old = realise(storage)
        epoch = recording.epoch
        if epoch is not None and id(old) in epoch.slot_of:
            flush()
            if recording.epoch is epoch:
                epoch.forget()
                recording.epoch = Epoch(epoch.device)
        before = storage.epoch  # (a reference, so that nothing is deleted in the next three lines)
        if storage.buffer is not old:
            continue  # another thread has written to it
        storage.epoch = storage.expr = None
        del before
        if _references(old) > _UNSHARED:
            fresh = storage.device.allocate(old.nbytes)
            storage.device.copy(old, fresh, old.nbytes)
            if storage.buffer is not old:
                continue
            storage.buffer = fresh
            old = fresh
        old.unwritten = None  # the caller will write to it
        return old


def share_memory(storage: Storage) -> SharedMemory:
    """Let other code access a storage's CPU memory until the returned object is deleted."""
    while (owner := find_shared(storage)) is None:
        buffer = exclusive(storage)
        if storage.buffer is buffer:
            return share(storage, buffer)
    return owner


def _references(buffer: Buffer) -> int:
    return getrefcount(buffer)


def _count_unshared() -> int:
    """Measure the reference count that Python reports for an unshared buffer (one that only one storage uses). Shared buffers have higher counts."""
    storage = Storage((), np.dtype(bool), None, Buffer(None, 0, 0))  # type: ignore[arg-type]
    buffer = storage.buffer
    return _references(buffer)  # type: ignore[arg-type]


_UNSHARED = _count_unshared()
