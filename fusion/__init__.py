"""The face of fusion: expressions, recording and evaluation."""

from weft.fusion.evaluate import evaluate
from weft.fusion.exclusive import exclusive, flush
from weft.fusion.explain import Explanation, explain_storages, kernels_of, show_bytes, show_plans, show_seconds
from weft.fusion.expr import (
    INTERNED,
    Expr,
    Location,
    broadcast_shapes,
    broadcast_to,
    cast,
    constant,
    constant_value,
    contiguous_strides,
    empty,
    gather,
    iota,
    map_,
    opaque,
    reduce_,
    reshape,
    scan,
    scatter,
    update,
    view,
)
from weft.fusion.ranges import range_of
from weft.fusion.record import assign, bind, cut, operand, pending
from weft.fusion.statistics import reset_statistics, statistics
from weft.fusion.storage import SOFT_LIMIT, Epoch, Storage, current_epoch, recording
from weft.fusion.symbolic import Program, take_apart

__all__ = [
    "INTERNED",
    "SOFT_LIMIT",
    "Epoch",
    "Explanation",
    "Expr",
    "Location",
    "Program",
    "Storage",
    "assign",
    "bind",
    "broadcast_shapes",
    "broadcast_to",
    "cast",
    "constant",
    "constant_value",
    "contiguous_strides",
    "current_epoch",
    "cut",
    "empty",
    "evaluate",
    "exclusive",
    "explain_storages",
    "flush",
    "gather",
    "iota",
    "kernels_of",
    "map_",
    "opaque",
    "operand",
    "pending",
    "range_of",
    "recording",
    "reduce_",
    "reset_statistics",
    "reshape",
    "scan",
    "scatter",
    "show_bytes",
    "show_plans",
    "show_seconds",
    "statistics",
    "take_apart",
    "update",
    "view",
]
