"""The fallback schedule for GPUs, with one thread per iteration."""

from __future__ import annotations

from collections.abc import Mapping

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.schedules.decision import AnySizesDecision
from weft.codegen.schedules.nest import Nest
from weft.codegen.schedules.writer import ThreadWriter
from weft.codegen.target import Target

THREADS = 128


class Items(AnySizesDecision):
    """Parameters of the fallback schedule, which runs each loop iteration (item) in its own thread.

    The class is empty, since the schedule has no parameters.
    """


def fits(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> Items:
    """Return the parameters of the fallback schedule, which fits every kernel."""
    return Items()


def write(kernel: Kernel, nest: Nest, decision: Items, target: Target) -> Kernel:
    """Lower a logical kernel to a threaded kernel, with one thread per iteration of the parallel loops."""
    w = ThreadWriter(kernel, nest, THREADS)
    items = w.product(w.extents())
    with w.tiles(w.parts(items, w.threads)) as tile:
        item = w.compute("add", w.compute("multiply", tile, w.threads), w.thread)
        with w.when(w.test("less", item, items)):
            w.bind(nest.levels, item)
            w.enter(nest.levels[1:])
            w.copy(nest.item)
    return w.finish("items", w.threads)
