"""Recording: from arrays' storages to expressions and back.

In: storages (what an array holds). Out: expressions in the current epoch, and new pending
storages. Always true: what `operand` returns is valid in the epoch it returns it for.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.fusion.evaluate import evaluate_epoch, realise
from weft.fusion.expr import Expr, Location
from weft.fusion.statistics import STATISTICS
from weft.fusion.storage import (
    HARD_LIMIT,
    HELD_BYTES,
    SHORT_LIMIT,
    UNEVEN_LIMIT,
    Epoch,
    Storage,
    current_epoch,
    recording,
    scattered,
    uneven,
)
from weft.runtime import Buffer, DeviceMismatchError


def operand(storage: Storage, epoch: Epoch | None = None) -> Expr:
    """The current version of `storage` as an expression of `epoch` (the current one)."""
    if epoch is None:
        epoch = current_epoch(storage.device)
    node = storage.expr if storage.epoch is epoch else None
    if node is not None:
        return node
    if storage.device is not epoch.device:
        raise DeviceMismatchError(
            f"this operation is on {epoch.device.name}, but one of its arrays is on {storage.device.name}; "
            f"move it with .to({epoch.device.name!r})"
        )
    return bind(storage, realise(storage), epoch)


def bind(storage: Storage, buffer: Buffer, epoch: Epoch) -> Expr:
    """The buffer of a realised storage as a leaf of the epoch."""
    node = epoch.bind(buffer, storage.shape, storage.dtype)
    before = storage.epoch  # (held: nothing dies between the next three lines)
    if storage.buffer is buffer:
        storage.expr = node
        storage.epoch = epoch
    del before
    return node


def pending(expr: Expr, epoch: Epoch) -> Storage:
    """A new storage whose elements are `expr`."""
    storage = Storage(expr.shape, expr.dtype, epoch.device, None, expr, epoch)
    epoch.pending.append(storage)
    return storage


def assign(storage: Storage, expr: Expr, previous: Expr, epoch: Epoch) -> bool:
    """Make `expr` (of the storage's shape and dtype) the storage's next version, if `previous` still is what it shows in
    this epoch: whether that was so. Else another thread has written to it, and `expr` has to be made anew."""
    assert expr.shape == storage.shape and expr.dtype == storage.dtype
    buffer = storage.buffer
    if storage.expr is not previous or storage.epoch is not epoch:
        return False
    # from here on only the slot and whoever captured it hold the old version's buffer
    storage.expr = expr
    storage.buffer = None
    epoch.pending.append(expr if buffer is None else storage)
    return True


def write_anew(storage: Storage, epoch: Epoch, make: Callable[[Expr], Expr]) -> tuple[Expr, Expr]:
    """Replace what a storage shows by what `make` makes of it. Returns both."""
    while True:
        previous = operand(storage, epoch)
        made = make(previous)
        if assign(storage, made, previous, epoch):
            return previous, made


def cut(epoch: Epoch, location: Location | None) -> Epoch:
    """Evaluate what is pending where recording has grown long enough, and return the epoch to go on in.

    That is where the place at which the epoch began comes again; or, where the epoch began before a loop, the place at
    which it became long. Loops whose turns differ in their lengths are cut after few turns.
    """
    count = len(epoch.pending)
    if epoch.first is None:
        epoch.begin(location)
    again = False
    if SHORT_LIMIT <= count < epoch.limit and location is not None:
        again = _is_uneven(epoch, location)
        if again:
            if len(uneven) >= UNEVEN_LIMIT:
                uneven.clear()
                scattered.clear()
            uneven.update((epoch.first, location, *map(_place, epoch.pending)))
    elif count >= epoch.limit and location is not None:
        if epoch.turn is None:
            epoch.turn = location, count
        again = location == epoch.first or (location == epoch.turn[0] and count > epoch.turn[1])
    if again or count >= HARD_LIMIT or epoch.bytes_held >= HELD_BYTES:
        live = epoch.live()
        # first the new epoch: what fails now stays pending in the old one and must not fail every later operation
        fresh = recording.epoch = Epoch(epoch.device)
        epoch.ended = True
        fresh.begin(location)
        if live:
            plans = STATISTICS.plans
            evaluate_epoch(epoch, live)
            if again:
                _note_search(epoch.first, STATISTICS.plans == plans)
        return fresh
    return epoch


# How often in a row long recordings that began at a place found no plan; numbers that change take some turns to become slots.
_misses: dict[Location | None, int] = {}
MISSES = 4
# The same of short ones, whose few forms have to be met first.
SHORT_MISSES = 10


def _note_search(where: Location | None, found: bool) -> None:
    """Cut what begins at this place short, if its turns come in too many forms to find plans of long programs of them; and turn
    by turn, if short ones come in too many forms as well."""
    if found:
        _misses.pop(where, None)
        return
    if len(_misses) >= UNEVEN_LIMIT:
        _misses.clear()
    count = _misses[where] = _misses.get(where, 0) + 1
    if where not in uneven:
        if count >= MISSES:
            uneven.add(where)
    elif count >= SHORT_MISSES:
        scattered.add(where)


def _is_uneven(epoch: Epoch, location: Location) -> bool:
    """Whether the last two turns of a loop were alike but for their lengths."""
    count = len(epoch.pending)
    if epoch.probe is None or count > 2 * epoch.probe[1][0] + SHORT_LIMIT:  # (that place was in no loop)
        epoch.probe = location, [count]
        return False
    place, passes = epoch.probe
    if location != place or count == passes[-1]:
        return False
    passes.append(count)
    if len(passes) < 3:
        return False
    before, between, now = passes[-3:]
    if now - between != between - before:
        return False
    return any(map(_differ, epoch.pending[before:between], epoch.pending[between:now]))


def _place(operation: Storage | Expr) -> Location | None:
    """Where an operation was recorded, as far as it says."""
    node = operation.expr if isinstance(operation, Storage) else operation
    while node is not None and node.location is None and node.operands:
        node = node.operands[-1]
    return None if node is None else node.location


def _differ(one: Storage | Expr, other: Storage | Expr) -> bool:
    """Whether two operations were done on other lengths."""
    first, second = (node.expr if isinstance(node, Storage) else node for node in (one, other))
    if first is None or second is None or first.kind != second.kind or len(first.operands) != len(second.operands):
        return False
    if first.shape != second.shape or (first.kind == "update" and first.attrs[0] != second.attrs[0]):
        return True
    return any(a.shape != b.shape for a, b in zip(first.operands, second.operands, strict=True))
