"""Reuse of plans for arrays with other lengths and offsets.

In: a graph. Out: its form, which contains all of its properties except sizes, strides, offsets, most constants and
source locations. If another graph of the form was planned with traced sizes (`sizes.py`), the plan of that graph is
reused with the sizes of this graph.
Invariant: a reused plan equals the plan that planning would create. A plan is used only if every condition on sizes
that planning has evaluated has the same result for the new sizes.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.codegen import is_host_described
from weft.fusion.graph.expr import Expr, topological
from weft.fusion.graph.sizes import from_bytes
from weft.fusion.graph.statistics import STATISTICS
from weft.fusion.plan.live_graph import LiveGraph
from weft.runtime import Device, renew_in_children

if TYPE_CHECKING:
    from weft.fusion.plan.plan_records import PlanRecord
    from weft.fusion.plan.steps import Plan

FORMS_LIMIT = 1024
# Maximum number of plans per form that are valid for several sizes, each under different conditions. Together with
# plans for exact sizes, up to twice this number are kept.
VARIANTS = 16
# Planning takes 50 % longer with traced sizes. Programs of up to this number of expressions are traced when they first
# occur, and longer programs when they recur. Programs of more than NODES expressions are never traced.
AT_ONCE = 128
# Once a form has this number of kernels, no further kernels are specialized for exact sizes.
MOST_KERNELS = 4
NODES = 4096


class Form(NamedTuple):
    """The structure of a graph without its sizes, strides, offsets and most constants.

    `key` is equal for all graphs of the form, `nodes` contains the nodes of the graph, operands first, and `encoder`
    holds the sizes and constants.
    """

    key: Any
    nodes: list[Expr]
    encoder: SizeEncoder


class FormPlans:
    """The cached plans for one graph structure."""

    traceable = True  # whether the sizes can be traced
    kernels = 0  # number of compiled kernels

    def __init__(self, templates: list[PlanRecord]) -> None:
        self.templates = templates


_known: OrderedDict[Any, FormPlans] = OrderedDict()
# Forms that have no plans on disk. The set is bounded.
_absent: set[Any] = set()
_lock = threading.RLock()  # (reentrant: a finalizer may evaluate while this thread holds the lock)
renew_in_children(sys.modules[__name__])


def find_form(device: str, graph: LiveGraph, wanted: tuple[int, ...] | None) -> Form:
    """Return the form of a graph: its structure without array sizes. Graphs with equal forms on the same device can share a plan.

    The form's key also contains `wanted`, the positions of the requested versions in the graph (None: all).
    """
    nodes = topological([*graph.versions, *graph.origins.values()])
    encode = SizeEncoder()
    numbers: dict[Expr, int] = {}
    parts: list[Any] = []
    for node in nodes:
        kind = node.kind
        operands = tuple([numbers[child] for child in node.operands])
        attrs = node.attrs
        if kind in SIZED:
            attrs = SIZED[kind](attrs, encode)
        elif is_traced_constant(node):
            attrs = (encode.constant(attrs[0]),)
        numbers[node] = len(numbers)
        parts.append((kind, node.op, operands, attrs, encode(node.shape), node.dtype))
    origins = tuple([(numbers[leaf], numbers[origin]) for leaf, origin in graph.origins.items()])
    return Form((device, tuple(parts), tuple([numbers[v] for v in graph.versions]), origins, wanted), nodes, encode)


def is_traced_constant(node: Expr) -> bool:
    """Return whether a node is an integer or float constant. Graphs that differ only in the values of such constants can share a plan."""
    return node.kind == "constant" and node.dtype.kind in "iuf"


class SizeEncoder:
    """Encoder that replaces sizes by small numbers in the key of a graph structure.

    0, 1 and -1 remain unchanged, since planning treats them specially. Other sizes have codes in the order of their
    first occurrence. Offsets have separate codes, so that an offset that equals a length does not change the form.
    """

    def __init__(self) -> None:
        self.values: list[int] = []
        self.codes = {0: 0, 1: 1, -1: -1}
        self.offsets: dict[tuple[Any, int], int] = {}  # (key of the strides, offset) -> code
        self.constants: dict[bytes, int] = {}
        self.tuples: dict[tuple[int, ...], tuple[int, ...]] = {}

    def number(self, value: int) -> int:
        """Return the number that encodes a length or stride. The number has the sign of the length or stride."""
        found = self.codes.get(value)
        if found is None:
            found = self.codes[value] = self._new(value)
        return found

    def offset(self, value: int, strides: Any) -> int:
        """Return the integer code of a view's offset. The code of offset 0 is 0."""
        if not value:
            return 0
        found = self.offsets.get((strides, value))
        if found is None:
            found = self.offsets[strides, value] = self._new(value)
        return found

    def _new(self, value: int) -> int:
        self.values.append(value)
        return len(self.values) + 1 if value > 0 else -len(self.values) - 1

    def constant(self, bits: bytes) -> int:
        """Return the number that encodes a constant, given the bits of its value."""
        found = self.constants.get(bits)
        if found is None:
            self.values.append(from_bytes(bits))
            found = self.constants[bits] = len(self.values) - 1
        return found

    def __call__(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        found = self.tuples.get(numbers)
        if found is None:
            found = self.tuples[numbers] = tuple([self.number(n) for n in numbers])
        return found


def _terms(attrs: tuple[Any, ...], encode: Any) -> tuple[Any, ...]:
    return tuple(
        (encode.offset(first, steps), tuple((axis, encode.number(step)) for axis, step in steps), which)
        for first, steps, which in attrs
    )


# Functions that encode attributes, for the kinds of expressions whose attributes contain sizes.
SIZED: dict[str, Callable[[tuple[Any, ...], Any], tuple[Any, ...]]] = {
    "view": lambda attrs, encode: (encode(attrs[0]), encode.offset(attrs[1], attrs[0])),
    "update": lambda attrs, encode: (encode(attrs[0]), encode(attrs[1]), encode.offset(attrs[2], attrs[1])),
    "gather": lambda attrs, encode: (_terms(attrs[0], encode),),
    "scatter": lambda attrs, encode: (_terms(attrs[0], encode), encode(attrs[1])),
}


def may_be_stored(device: Device) -> bool:
    """Return whether the disk cache may have plans for a device. There are none for a CPU if its description is unknown."""
    # (asking LLVM for the description takes longer than most first runs)
    return device.streaming or is_host_described()


def store() -> Any:
    """Import and return the `plan_store` module. With an empty disk cache, a process needs the module only when it stores plans."""
    return import_module("weft.fusion.plan.plan_store")


def find(form: Form, device: Device) -> Plan | None:
    """Return a cached plan for a graph, or None. Search the disk only the first time that a graph structure occurs."""
    known = _known.get(form.key)
    if known is None:
        stored = store().read(form.key, device) if form.key not in _absent and may_be_stored(device) else None
        if not stored:
            if len(_absent) >= FORMS_LIMIT:
                _absent.clear()
            _absent.add(form.key)
            return None
        known = _note_form(form, FormPlans(stored))
    for template in known.templates:
        plan = template.find(form.encoder.values, form.nodes)
        if plan is not None:
            STATISTICS.plans_read += template.read
            template.read = False
            return plan
    return None


def forget(key: object) -> None:
    """Forget the plans for a graph structure, so that the next lookup reads them from disk."""
    with _lock:
        _known.pop(key, None)
        _absent.discard(key)


def is_first(form: Form) -> bool:
    """Return whether this process has no entry for a graph structure in its plan cache."""
    return form.key not in _known


def _note_form(form: Form, known: FormPlans) -> FormPlans:
    with _lock:
        _known[form.key] = known
        if len(_known) > FORMS_LIMIT:
            _known.popitem(last=False)
    return known


def may_specialize(form: Form) -> bool:
    """Return whether one more kernel for exact array sizes may be compiled for a known graph structure. Their number is limited."""
    known = _known.get(form.key)
    return known is not None and known.kernels < MOST_KERNELS


def note_kernels(form: Form, count: int) -> None:
    """Add `count` to the number of kernels that were compiled for a graph structure."""
    known = _known.get(form.key)
    if known is not None:
        known.kernels += count


def is_worth_keeping(form: Form, *, at_once: bool) -> bool:
    """Return whether a graph's plan is worth keeping for other array sizes too.

    Creating such a plan requires tracing how planning uses sizes. A form that has occurred before must be traceable, and have fewer than `VARIANTS`
    such plans. A new form must be short, and `at_once` must be true. It counts as known from now on, unless it has over `NODES` expressions.
    """
    known = _known.get(form.key)
    if known is not None:
        return known.traceable and sum(template.exact is None for template in known.templates) < VARIANTS
    if len(form.nodes) > NODES:
        return False
    _note_form(form, FormPlans([]))
    return at_once and len(form.nodes) <= AT_ONCE


def add(form: Form, device: Device, record: PlanRecord) -> None:
    """Cache a plan in memory and on disk."""
    with _lock:
        known = _known.get(form.key)
        if known is not None:  # (forms of more than NODES expressions are only on disk)
            known.templates.append(record)
            del known.templates[: -2 * VARIANTS]
    store().add_record(form.key, device, record, form.nodes)


def give_up(form: Form) -> None:
    """Mark a graph structure as untraceable. Its later plans are valid only for exact sizes."""
    with _lock:
        _known.setdefault(form.key, FormPlans([])).traceable = False
