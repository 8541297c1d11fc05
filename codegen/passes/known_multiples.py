"""Find indices that are multiples of a vector's length, which decides alignment.

In: a logical kernel and the values of its index parameters. Out: whether an index value is a multiple of a power of
two. Invariant: only sizes that affect the answer are examined, so that many sizes share it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer, Value
from weft.codegen.machines import GPU
from weft.codegen.passes.index_steps import constant_offsets, index_steps, program_order


class Multiples:
    """Known divisors of a kernel's values.

    Parameters
    ----------
    kernel : Kernel
    sizes : mapping
        The values of index parameters by name.
    known : mapping, optional
        Other values, loop indices say, and a number that each is a multiple of.
    """

    def __init__(self, kernel: Kernel, sizes: Mapping[str, int], known: Mapping[Value, int] | None = None) -> None:
        self._known = {p.value: sizes[p.value.name] for p in kernel.parameters if p.value.name in sizes} | dict(
            known or {}
        )
        self._made = {v: o for o in program_order(kernel.body.operations) for v in o.results}
        self._found: dict[tuple[Value, int], bool] = {}

    def hold(self, value: Value, divisor: int) -> bool:
        """Return whether a value is known to be a multiple of this power of two."""
        if divisor == 1:
            return True
        found = self._found.get((value, divisor))
        if found is None:
            found = self._found[value, divisor] = self._ask(value, divisor)
        return found

    def _ask(self, value: Value, divisor: int) -> bool:
        if value in self._known:
            return self._known[value] % divisor == 0
        o = self._made.get(value)
        match o.opcode if o is not None else "":
            case "constant" if o.results[0].type.kind in "iu":  # type: ignore[union-attr]
                return int(o.attributes["value"]) % divisor == 0  # type: ignore[union-attr]
            case "add" | "subtract" | "minimum" | "maximum":
                return all(self.hold(v, divisor) for v in o.operands)  # type: ignore[union-attr]
            case "multiply":
                first, second = o.operands  # type: ignore[union-attr]
                parts = [1 << k for k in range(divisor.bit_length())]
                return any(self.hold(first, part) and self.hold(second, divisor // part) for part in parts)
        return False


def _walked(
    kernel: Kernel, operations: Sequence[Operation], index: Value, lanes: int, strided: bool
) -> Iterator[tuple[str, Value, bool]]:
    """Yield each group of accesses that advance along `index`: its parameter, its index, and whether vector accesses are possible.

    Indices of a group differ by constants. With `strided` a group may advance by more than one element, if it has all elements in
    between, as the channels of a colour.
    """
    align = {p.value: p.align for p in kernel.parameters}
    steps, offsets = index_steps(operations, index), constant_offsets(program_order(kernel.body.operations))
    kinds: dict[tuple[Value, Value, int], set[int]] = {}
    for o in operations:
        step = steps.get(o.operands[1]) if o.opcode in ("load", "store") else None
        if step is not None and (step > 0 if strided else step == 1):
            base, offset = offsets.get(o.operands[1], (o.operands[1], 0))
            kinds.setdefault((o.operands[0], base, step), set()).add(offset)
    for (pointer, base, step), found in kinds.items():
        assert isinstance(pointer.type, Pointer)
        wanted = min(GPU.vector_bytes, lanes * pointer.type.dtype.itemsize)
        yield pointer.name, base, found.issuperset(range(step)) and align[pointer] % wanted == 0


def needed_multiples(
    kernel: Kernel,
    walks: Sequence[tuple[Sequence[Operation], Value]],
    sizes: Mapping[str, int],
    lanes: int,
    *bounds: Value,
    strided: bool = False,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the parameters that `aligned_pointers` returns if other parameters, named second, and `bounds` are
    multiples of `lanes`.

    No size is looked at: of `sizes` only the names count. None at all where nothing is aligned by multiples alone; no names where
    everything is whatever the sizes.
    """
    if lanes == 1:
        return (), ()
    names = {p.value: p.value.name for p in kernel.parameters if p.value.name in sizes}
    made = {v: o for o in program_order(kernel.body.operations) for v in o.results}
    needs: dict[str, set[str]] = {}
    bad: set[str] = set()
    for operations, index in walks:
        for name, at, possible in _walked(kernel, operations, index, lanes, strided):
            found = _needed(at, lanes, index, names, made) if possible else None
            if found is None:
                bad.add(name)
            else:
                needs.setdefault(name, set()).update(found)
    good = tuple(sorted(needs.keys() - bad))
    wanted_too = [_needed(v, lanes, None, names, made) for v in bounds]
    if not good or None in wanted_too:
        return (), ()
    wanted_all = set().union(*(needs[name] for name in good), *wanted_too)  # type: ignore[arg-type]
    return good, tuple(sorted(wanted_all))


def _needed(
    value: Value, divisor: int, index: Value | None, names: Mapping[Value, str], made: Mapping[Value, Operation]
) -> set[str] | None:
    """Return the parameters that must be multiples of a power of two for `value` to be one if `index` is; None if
    that does not suffice.
    """
    if value is index:
        return set()
    if value in names:
        return {names[value]}
    o = made.get(value)
    if o is None:
        return None
    if o.opcode == "constant" and o.results[0].type.kind in "iu":  # type: ignore[union-attr]
        return None if int(o.attributes["value"]) % divisor else set()
    if o.opcode not in ("add", "subtract", "minimum", "maximum", "multiply"):
        return None
    found = [_needed(v, divisor, index, names, made) for v in o.operands]
    if o.opcode == "multiply":  # one is enough
        return min((each for each in found if each is not None), key=len, default=None)
    return None if None in found else set().union(*found)  # type: ignore[arg-type]


def aligned_pointers(
    kernel: Kernel,
    walks: Sequence[tuple[Sequence[Operation], Value]],
    sizes: Mapping[str, int],
    lanes: int,
    *,
    strided: bool = False,
) -> tuple[str, ...]:
    """Return the parameters whose contiguous accesses are all whole, aligned vectors of `lanes` elements.

    With `strided`, also accesses that advance by more than one element and together are contiguous.

    `walks` are operations with the index that they are walked along, by vectors from its first one on; `sizes` the values of
    index parameters by name.
    """
    if lanes == 1:
        return ()
    good: set[str] = set()
    bad: set[str] = set()
    for operations, index in walks:
        multiples = Multiples(kernel, sizes, {index: lanes})
        for name, at, possible in _walked(kernel, operations, index, lanes, strided):
            (good if possible and multiples.hold(at, lanes) else bad).add(name)
    return tuple(sorted(good - bad))
