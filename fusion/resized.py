"""Plans found again at other lengths and positions: `x[:k] @ y[:k]` is planned for few k, `path[k] = x` for one.

In: versions that no plan was made for. Out: their form, which says all about them but the sizes, strides and offsets that
occur; and, where versions of the same form were planned with sizes that remember how they were used (`sizes.py`), a plan of
theirs. Always true: it is the plan that would be made for them: everything that planning asked about the sizes has the
same answer for these, or the plan is not used.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weft.fusion.arena import Carve, Take
from weft.fusion.expr import Expr, topological
from weft.fusion.graph import Graph
from weft.fusion.kernels import Special
from weft.fusion.plan import Call, KernelLaunch, Plan, Step
from weft.fusion.sizes import Size, Trace, from_bytes

FORMS_LIMIT = 1024
# Plans of a form that are kept, each for other answers.
VARIANTS = 16
# Planning with sizes that remember takes half as long again: programs of so many expressions are worth it when they come back,
# and longer ones never.
AT_ONCE = 128
# Kernels of a form from where on none is compiled for some sizes alone.
MOST_KERNELS = 4
NODES = 4096


@dataclass(slots=True)
class Form:
    """Versions but for their sizes: `key` is equal for versions of one form, `nodes` are everything that the versions need,
    operands first, and `spelling` has the sizes."""

    key: Any
    nodes: list[Expr]
    spelling: Spelling


@dataclass(slots=True)
class Template:
    """A plan without its numbers, and the function that computes them."""

    compute: Callable[[Sequence[int]], tuple[int, ...] | None]
    build: Callable[[Sequence[int], list[Expr]], Plan]


@dataclass(slots=True)
class Known:
    """What is known of a form: templates, whether planning could be followed, and how many kernels were compiled for it."""

    templates: list[Template] = field(default_factory=list)
    traceable: bool = True
    kernels: int = 0


_known: OrderedDict[Any, Known] = OrderedDict()
_lock = threading.RLock()  # (a finaliser may come between, and evaluate)


def find_form(device: str, graph: Graph, wanted: tuple[int, ...] | None) -> Form:
    """The form of a graph on a device."""
    nodes = topological([*graph.versions, *graph.origins.values()])
    spell = Spelling()
    numbers: dict[Expr, int] = {}
    parts: list[Any] = []
    for node in nodes:
        kind = node.kind
        operands = tuple([numbers[child] for child in node.operands])
        attrs = node.attrs
        if kind in _SIZED:
            attrs = _SIZED[kind](attrs, spell)
        elif kind == "constant" and node.dtype.kind in "iuf":
            attrs = (spell.constant(attrs[0]),)
        numbers[node] = len(numbers)
        parts.append((kind, node.op, operands, attrs, spell(node.shape), node.dtype))
    origins = tuple([(numbers[leaf], numbers[origin]) for leaf, origin in graph.origins.items()])
    return Form((device, tuple(parts), tuple([numbers[v] for v in graph.versions]), origins, wanted), nodes, spell)


class Spelling:
    """How a key spells sizes: 0, 1 and -1, which are special to planning, as they are, others by a number each, as
    constants."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.codes = {0: 0, 1: 1, -1: -1}
        self.constants: dict[bytes, int] = {}
        self.tuples: dict[tuple[int, ...], tuple[int, ...]] = {}

    def number(self, value: int) -> int:
        """The code of a size: of those that are negative a negative one."""
        found = self.codes.get(value)
        if found is None:
            self.values.append(value)
            code = len(self.values) + 1
            found = self.codes[value] = code if value > 0 else -code
        return found

    def constant(self, bits: bytes) -> int:
        """The code of a constant's bits."""
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


def _terms(attrs: tuple[Any, ...], spell: Any) -> tuple[Any, ...]:
    return tuple(
        (spell.number(first), tuple((axis, spell.number(step)) for axis, step in steps), which)
        for first, steps, which in attrs
    )


# How the attributes of expressions are spelled that hold sizes.
_SIZED: dict[str, Callable[[tuple[Any, ...], Any], tuple[Any, ...]]] = {
    "view": lambda attrs, spell: (spell(attrs[0]), spell.number(attrs[1])),
    "update": lambda attrs, spell: (spell(attrs[0]), spell(attrs[1]), spell.number(attrs[2])),
    "gather": lambda attrs, spell: (_terms(attrs[0], spell),),
    "scatter": lambda attrs, spell: (_terms(attrs[0], spell), spell(attrs[1])),
}


class Remembering:
    """Sizes of a trace in place of numbers, spelled like them."""

    def __init__(self, spelling: Spelling, trace: Trace) -> None:
        codes = ((value, abs(code) - 2) for value, code in spelling.codes.items())
        self.sizes: dict[int, Any] = {value: trace.sizes[k] for value, k in codes if k >= 0}
        self.constants = {bits: trace.sizes[k] for bits, k in spelling.constants.items()}

    def number(self, value: int) -> Any:
        """The size that stands for a number."""
        return self.sizes.get(value, value)

    def __call__(self, numbers: tuple[int, ...]) -> tuple[Any, ...]:
        return tuple([self.sizes.get(n, n) for n in numbers])


def find(form: Form) -> Plan | None:
    """A plan for versions of this form."""
    known = _known.get(form.key)
    if known is None:
        return None
    for template in known.templates:
        numbers = template.compute(form.spelling.values)
        if numbers is not None:
            return template.build(numbers, form.nodes)
    return None


def may_be_special(form: Form, *, back: bool = False) -> Special:
    """Whether kernels for versions of this form may be for their sizes alone, which have come `back`."""
    known = _known.get(form.key)
    return Special(known is None, back and known is not None and known.kernels < MOST_KERNELS)


def note_kernels(form: Form, count: int) -> None:
    """So many kernels were compiled for versions of this form."""
    known = _known.get(form.key)
    if known is not None:
        known.kernels += count


def is_worth_keeping(form: Form, *, at_once: bool) -> bool:
    """Whether a plan for these versions should be made with sizes that remember: the first one of a form, if `at_once` and it is
    short, the next ones else."""
    known = _known.get(form.key)
    if known is not None:
        return known.traceable and len(known.templates) < VARIANTS
    if len(form.nodes) > NODES:
        return False
    with _lock:
        _known[form.key] = Known()
        if len(_known) > FORMS_LIMIT:
            _known.popitem(last=False)
    return at_once and len(form.nodes) <= AT_ONCE


def trace_plan(form: Form, graph: Graph, make: Callable[[Graph], Plan]) -> Plan | None:
    """The plan that ``make(graph)`` gives, made with sizes that remember and kept for others of the form.

    None where planning does something with a size that cannot be followed.
    """
    trace = Trace(form.spelling.values)
    sizes = Remembering(form.spelling, trace)
    copies: dict[Expr, Expr] = {}
    for node in form.nodes:
        operands = tuple([copies[child] for child in node.operands])
        attrs = node.attrs
        if node.kind in _SIZED:
            attrs = _SIZED[node.kind](attrs, sizes)
        elif node.kind == "constant" and attrs[0] in sizes.constants:
            attrs = (sizes.constants[attrs[0]],)
        # not interned: it is no expression of anybody's
        shape = sizes(node.shape)
        copies[node] = Expr(node.kind, node.op, operands, attrs, shape, node.dtype, node.location)
    try:
        origins = {copies[leaf]: copies[origin] for leaf, origin in graph.origins.items()}
        plan = make(Graph([copies[v] for v in graph.versions], origins))
    except (TypeError, ValueError, AttributeError, OverflowError):
        give_up(form)
        return None
    template = _template(plan, trace, [copies[node] for node in form.nodes])
    numbers = template.compute(form.spelling.values)
    assert numbers is not None, "conditions hold for the sizes that they were found with"
    if not trace.alone:
        with _lock:
            _known.setdefault(form.key, Known()).templates.append(template)
    return template.build(numbers, form.nodes)


def give_up(form: Form) -> None:
    """Plan what has this form without following its sizes from now on."""
    with _lock:
        _known.setdefault(form.key, Known()).traceable = False


# -- plans without numbers ----------------------------------------------------------------


def _template(plan: Plan, trace: Trace, nodes: list[Expr]) -> Template:
    """What `plan`, made with sizes of `trace` for copies `nodes`, is for other sizes."""
    sizes: dict[Any, int] = {}
    results: list[Any] = []

    def at(number: Any) -> int:
        """Where the function that computes the numbers returns this one."""
        key = number.name if type(number) is Size else number
        if key not in sizes:
            sizes[key] = len(results)
            results.append(number)
        return sizes[key]

    where = {node: k for k, node in enumerate(nodes)}
    makers = [_maker(step, at, where) for step in plan.steps]
    outputs = [(where[node], place) for node, place in plan.outputs]
    board = plan.board and (plan.board[0], at(plan.board[1]))

    def build(numbers: Sequence[int], own: list[Expr]) -> Plan:
        steps = [make(numbers, own) for make in makers]
        noted = board and (board[0], numbers[board[1]])
        return replace(plan, steps=steps, outputs=[(own[k], place) for k, place in outputs], board=noted)

    return Template(trace.finish(results), build)


def _maker(step: Step, at: Callable[[Any], int], where: dict[Expr, int]) -> Callable[[Sequence[int], list[Expr]], Step]:
    """What makes a step of the plan from numbers and expressions."""
    match step:
        case KernelLaunch():
            return _launch_maker(step, at)
        case Call():
            node, out, loop = where[step.node], step.out, step.loop
            operands = [(place, where[child], window) for place, child, window in step.operands]
            return lambda numbers, own: Call(own[node], out, [(p, own[k], w) for p, k, w in operands], loop)
        case Take(place, source, how, nbytes):
            n, begin, end = at(nbytes), *map(at, step.except_for)
            return lambda numbers, own: Take(place, source, how, numbers[n], (numbers[begin], numbers[end]))
        case Carve(whole, parts):
            pieces = [(place, at(offset), at(nbytes)) for place, offset, nbytes in parts]
            return lambda numbers, own: Carve(whole, [(place, numbers[k], numbers[n]) for place, k, n in pieces])
        case (place, nbytes):
            n = at(nbytes)
            return lambda numbers, own: (place, numbers[n])
        case _:
            return lambda numbers, own: step


def _launch_maker(step: KernelLaunch, at: Callable[[Any], int]) -> Callable[[Sequence[int], list[Expr]], Step]:
    function, scalars, origin, lowered, group = step.function, step.scalars, step.origin, step.lowered, step.group
    parallel = [at(n) for n in step.parallel]
    work, nbytes = at(step.work), at(step.nbytes)
    slots = [at(n) for n in step.slots]
    patches = [(slot, place, at(offset)) for slot, place, offset in step.patches]

    def make(numbers: Sequence[int], own: list[Expr]) -> Step:
        return KernelLaunch(
            function,
            tuple([numbers[k] for k in parallel]),
            numbers[work],
            array("q", [numbers[k] for k in slots]),
            [(slot, place, numbers[k]) for slot, place, k in patches],
            scalars,
            numbers[nbytes],
            origin,
            lowered,
            group,
        )

    return make
