"""Running plans (stand-in: evaluates by the reference until the planner stands)."""

from __future__ import annotations

import numpy as np

from weft.fusion.expr import Expr
from weft.fusion.reference import evaluate_reference, topological
from weft.fusion.storage import Epoch
from weft.runtime import Buffer


def run(epoch: Epoch, versions: list[Expr], wanted: frozenset[int]) -> dict[Expr, Buffer]:
    """Evaluate the wanted versions and the live ones among what they need."""
    roots = [versions[k] for k in sorted(wanted)]
    needed = set(topological(roots))
    roots = list(dict.fromkeys([*roots, *(v for v in versions if v in needed)]))
    slots = list(epoch.slots)
    for node in topological(roots):
        if node.kind == "leaf":
            slots[node.attrs[0]] = epoch.device.download(epoch.slots[node.attrs[0]], node.dtype, node.shape)
    arrays = evaluate_reference(roots, slots)
    return {node: epoch.device.upload(np.array(a, node.dtype)) for node, a in zip(roots, arrays, strict=True)}
