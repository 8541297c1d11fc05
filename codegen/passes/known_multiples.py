"""Search for indices that allow aligned vector accesses.

In: a logical kernel and the values of its index parameters. Out: the pointers whose accesses are whole, aligned
vectors, and the parameters that have to be multiples of a power of two for this. For exact sizes, there are no such
parameters. Invariant: only sizes that affect the result are examined, so that many sizes share a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.codegen.kernel_ir.operation import Kernel, Operation, Value, program_order
from weft.codegen.machines import GPU
from weft.codegen.passes.index_steps import constant_offsets, index_steps

Names = frozenset[str]
NONE: Names = frozenset()


class Multiples:
    """Analysis of divisibility by 2**n.

    For a value in the kernel, it finds the kernel parameters whose divisibility by 2**n implies that of the value.

    `sizes` maps the names of index parameters to their values. Unless the kernel is for these sizes only (`exact`), only
    the names are used.
    """

    def __init__(self, kernel: Kernel, sizes: Mapping[str, int], *, exact: bool) -> None:
        self._names = {p.value: p.value.name for p in kernel.parameters if p.value.name in sizes}
        self._sizes = sizes if exact else None
        self._made = {v: o for o in program_order(kernel.body.operations) for v in o.results}
        self._found: dict[tuple[Value, int, Value | None], Names | None] = {}

    def needed(self, value: Value, divisor: int, index: Value | None = None) -> Names | None:
        """Return a set of parameters. If all of them are multiples of `divisor`, so is `value`.

        `index` is assumed to be a multiple of `divisor`. Return None if no parameters suffice.
        """
        if divisor == 1 or value is index:
            return NONE
        key = value, divisor, index
        if key not in self._found:
            self._found[key] = self._needed(*key)
        return self._found[key]

    def _needed(self, value: Value, divisor: int, index: Value | None) -> Names | None:
        name, o = self._names.get(value), self._made.get(value)
        if name is not None:
            return frozenset({name}) if self._sizes is None else None if self._sizes[name] % divisor else NONE
        match o.opcode if o is not None else "":
            case "constant" if o.results[0].dtype.kind in "iu":  # type: ignore[union-attr]
                return None if int(o.attributes["value"]) % divisor else NONE  # type: ignore[union-attr]
            case "add" | "subtract" | "minimum" | "maximum":
                return _union(self.needed(v, divisor, index) for v in o.operands)  # type: ignore[union-attr]
            case "multiply":
                first, second = o.operands  # type: ignore[union-attr]
                parts = [divisor >> k for k in range(divisor.bit_length())]
                ways = [
                    _union((self.needed(first, part, index), self.needed(second, divisor // part, index)))
                    for part in parts
                ]
                return min((way for way in ways if way is not None), key=len, default=None)
        return None


def _union(found: Iterator[Names | None] | tuple[Names | None, ...]) -> Names | None:
    whole = NONE
    for each in found:
        if each is None:
            return None
        whole |= each
    return whole


def _walked(
    kernel: Kernel, operations: Sequence[Operation], index: Value, lanes: int, strided: bool
) -> Iterator[tuple[str, Value, bool]]:
    """Find the loads and stores that advance along a loop index, and check whether they can be vectorized.

    Yield triples (pointer name, base index, result). Accesses whose indices differ only by constants share a triple. With
    `strided`, accesses may advance by several elements, if they access all elements in between (color channels).
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
        wanted = min(GPU.vector_bytes, lanes * pointer.element.itemsize)
        yield pointer.name, base, found.issuperset(range(step)) and align[pointer] % wanted == 0


def aligned_vectors(
    kernel: Kernel,
    loop_bodies: Sequence[tuple[Sequence[Operation], Value]],
    sizes: Mapping[str, int],
    lanes: int,
    *bounds: Value,
    exact: bool,
    strided: bool = False,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the pointers whose accesses in `loop_bodies` can all be whole, aligned vectors.

    Also return the parameters that must be multiples of `lanes` for this.

    Parameters
    ----------
    kernel : Kernel
    loop_bodies : sequence
        Pairs of operations and the index along which they access memory in vectors.
    sizes : mapping
        The values of index parameters by name.
    lanes : int
        Elements of a vector.
    bounds : Value
        Other indices that have to be multiples of `lanes`.
    exact : bool
        Whether the kernel is for these sizes only. The second result is then empty.
    strided : bool
        Whether to include accesses that advance by more than one element but together are contiguous.
    """
    if lanes == 1:
        return (), ()
    multiples = Multiples(kernel, sizes, exact=exact)
    needs: dict[str, Names | None] = {}
    for operations, index in loop_bodies:
        for name, at, possible in _walked(kernel, operations, index, lanes, strided):
            found = multiples.needed(at, lanes, index) if possible else None
            needs[name] = _union((needs.get(name, NONE), found))
    good = {name: found for name, found in needs.items() if found is not None}
    wanted = _union(multiples.needed(v, lanes) for v in bounds)
    if not good or wanted is None:
        return (), ()
    return tuple(sorted(good)), tuple(sorted(wanted.union(*good.values())))
