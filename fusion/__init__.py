"""The face of fusion: expressions, recording and evaluation."""

from weft.fusion.collecting import keep_apart, keep_apart_natively
from weft.fusion.evaluate import evaluate, realise
from weft.fusion.exclusive import exclusive, flush, free_memory
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
    with_operand,
)
from weft.fusion.of_numbers import NUMBERS, of_numbers
from weft.fusion.ranges import range_of
from weft.fusion.record import assign, bind, cut, operand, pending, write_anew
from weft.fusion.statistics import reset_statistics, statistics
from weft.fusion.storage import SOFT_LIMIT, Epoch, Storage, current_epoch, recording, uneven
from weft.fusion.symbolic import Program, as_symbol, entries_of, take_apart

keep_apart()

__all__ = [
    "INTERNED",
    "NUMBERS",
    "SOFT_LIMIT",
    "Epoch",
    "Explanation",
    "Expr",
    "Location",
    "Program",
    "Storage",
    "as_symbol",
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
    "entries_of",
    "evaluate",
    "exclusive",
    "explain_storages",
    "flush",
    "free_memory",
    "gather",
    "iota",
    "keep_apart_natively",
    "kernels_of",
    "map_",
    "of_numbers",
    "opaque",
    "operand",
    "pending",
    "range_of",
    "realise",
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
    "uneven",
    "update",
    "view",
    "with_operand",
    "write_anew",
]
