"""Memory of a plan: one arena for all temporaries.

In: the steps of a plan, which allocate values where they are first needed. Out: the same steps with all allocations
first. Invariant: no step after the first kernel allocates, so a plan that fails to allocate has changed nothing. Two
values share bytes of the arena only if the first is released before the second is created.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from weft.runtime import BufferRequests

ALIGNMENT = 256
IF_UNSHARED = ("donate-if-unshared", "donate-or-new")


@dataclass(slots=True)
class Donation:
    """A plan step that lets a result take over an operand's memory. If this memory is still needed, the step prepares other memory for the result.

    ``donate`` donates the memory of `source`. ``donate-if-unshared`` donates this memory if no other reader needs the
    value, and otherwise copies the value to new memory. ``donate-or-new`` donates the memory of the first of `source`
    and `others` that no other reader and no other library uses. If there is none, the step allocates new memory, but
    copies nothing, because all elements are written. ``fill`` copies the elements into memory that is already
    allocated, except for the range of bytes `except_for`. `request` is the request for new memory, if there was one.
    """

    slot: int
    source: int
    how: Literal["donate", "donate-if-unshared", "donate-or-new", "fill"]
    nbytes: int
    except_for: tuple[int, int] = (0, 0)
    others: tuple[int, ...] = ()
    request: BufferRequests | None = None


@dataclass(slots=True)
class ArenaSlices:
    """A plan step that enters slices of the buffer `whole` in the plan's buffer table.

    Each part has its slot in the table, its offset and its length in bytes.
    """

    whole: int
    parts: list[tuple[int, int, int]]


class ArenaFreeList:
    """Free list of ranges in a growing arena."""

    def __init__(self) -> None:
        self._free: list[tuple[int, int]] = []  # (offset, size), sorted by offset, never adjacent
        self.top = 0

    def allocate(self, nbytes: int) -> int:
        """Allocate a range in the first large enough gap or at the end, and return its offset."""
        size = -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        for k, (offset, length) in enumerate(self._free):
            if length >= size:
                self._free[k : k + 1] = [(offset + size, length - size)] if length > size else []
                return offset
        if self._free and sum(self._free[-1]) == self.top:
            offset = self._free.pop()[0]
        else:
            offset = self.top
        self.top = offset + size
        return offset

    def release(self, offset: int, nbytes: int) -> None:
        """Add a range of the arena's bytes to the free list."""
        size = -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        k = bisect_left(self._free, (offset, size))
        self._free.insert(k, (offset, size))
        if k + 1 < len(self._free) and offset + size == self._free[k + 1][0]:
            size += self._free.pop(k + 1)[1]
        if k and sum(self._free[k - 1]) == offset:
            before = self._free.pop(k - 1)
            offset, size, k = before[0], before[1] + size, k - 1
        self._free[k] = (offset, size)


def arrange_memory(steps: list[Any], epoch_slots: int, table_size: int, outputs: set[int]) -> tuple[list[Any], int]:
    """Return the steps of a plan with all allocations first, and the new size of its buffer table.

    `steps` are kernels (with their `patches`), calls, donations, pairs ``(slot, nbytes)`` that allocate memory, and slots
    whose memory is released. Slots below `epoch_slots` have memory before the plan runs, and `outputs` are the slots
    of the plan's results.
    """
    owner = list(range(table_size))  # slot -> the slot that owns its memory
    size: dict[int, int] = {}
    for step in steps:
        if isinstance(step, tuple):
            size[step[0]] = step[1]
        elif isinstance(step, Donation) and step.how == "donate":
            owner[step.slot] = owner[step.source]
    kept = {owner[slot] for slot in outputs}
    inside = {slot for slot in size if slot not in kept}
    first: list[Any] = []
    if len(inside) > 1:
        steps, found = _into_arena(steps, owner, {slot: size[slot] for slot in inside}, table_size)
        first += found
        table_size += 1
    return _allocations_first(first + steps, epoch_slots), table_size


def _into_arena(steps: list[Any], owner: list[int], size: dict[int, int], arena: int) -> tuple[list[Any], list[Any]]:
    """Replace the separate allocations of buffers by one arena. Return the steps without these allocations, and new steps that allocate the arena."""
    offsets = _lay_out(steps, owner, size)
    first: list[Any] = [(arena, offsets.pop(-1))]
    rest: list[Any] = []
    sliced: dict[int, None] = {}
    for step in steps:
        slot = step[0] if isinstance(step, tuple) else step if isinstance(step, int) else None
        if slot is not None and owner[slot] in offsets:
            continue
        if isinstance(step, Donation) and step.how == "donate" and owner[step.slot] in offsets:
            continue
        if hasattr(step, "patches"):
            step.patches = [
                (k, arena, offset + offsets[owner[p]]) if owner[p] in offsets else (k, p, offset)
                for k, p, offset in step.patches
            ]
        elif not isinstance(step, (tuple, int)):
            sliced.update(dict.fromkeys(p for p in slots_of(step) if owner[p] in offsets))
        rest.append(step)
    if sliced:
        first.append(ArenaSlices(arena, [(p, offsets[owner[p]], size[owner[p]]) for p in sliced]))
    return rest, first


def _lay_out(steps: list[Any], owner: list[int], size: dict[int, int]) -> dict[int, int]:
    """Map each slot that owns memory in the arena to its offset in bytes. Map the key -1 to the size of the arena."""
    pending = dict.fromkeys(size, 0)  # number of slots that have the memory and have not released it yet
    for slot in owner:
        if slot in pending:
            pending[slot] += 1
    gaps = ArenaFreeList()
    offsets: dict[int, int] = {}
    for step in steps:
        if isinstance(step, tuple) and step[0] in size:
            offsets[step[0]] = gaps.allocate(step[1])
        elif isinstance(step, int) and owner[step] in pending:
            pending[owner[step]] -= 1
            if not pending[owner[step]]:
                gaps.release(offsets[owner[step]], size[owner[step]])
    offsets[-1] = gaps.top
    return offsets


def slots_of(step: Any) -> list[int]:
    """Return the slots of all buffers that `step` uses. The step must be a `Donation` or a `HostCall`."""
    if isinstance(step, Donation):
        return [step.slot, step.source, *step.others]
    return [step.out, *(slot for slot, _, _ in step.operands)]


def _allocations_first(steps: list[Any], epoch_slots: int) -> list[Any]:
    """Sort the steps of a plan, with allocations of memory before all other steps.

    The order is: allocations (including donations that may allocate memory), slices of the arena, other steps.
    """

    def rank(step: Any) -> int:
        if isinstance(step, Donation):
            return 0 if step.how in IF_UNSHARED and step.source < epoch_slots else 2
        return 0 if isinstance(step, tuple) else 1 if isinstance(step, ArenaSlices) else 2

    return sorted(steps, key=rank)
