"""Public interface of the planner: recording, planning and evaluation of array expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.fusion.graph.expr import (
    INTERNED,
    Expr,
    Location,
    broadcast_shapes,
    broadcast_to,
    call_user_with,
    cast,
    constant,
    contiguous_strides,
    dense_order,
    empty,
    gather,
    intern,
    iota,
    keep_code,
    map_,
    opaque,
    reduce_,
    reshape,
    scan,
    scatter,
    shape_text,
    to_number,
    topological,
    update,
    view,
    with_operand,
)
from weft.fusion.graph.statistics import reset_statistics, seconds_spent, show_host_work, statistics
from weft.fusion.record.collecting import call_user, install_collector_callbacks
from weft.fusion.record.evaluate import evaluate, fill_memory, realise, release_memory
from weft.fusion.record.loops import site_of
from weft.fusion.record.recording import (
    assign,
    cut,
    end_recording,
    end_small_run,
    exclusive,
    flush,
    operand,
    pending,
    share_memory,
    uncut,
    write_anew,
    write_view,
)
from weft.fusion.record.shared_memory import (
    copy_buffer,
    export_memory,
    export_owner,
    exporter_of,
    find_shared,
    keep_shared,
    share,
)
from weft.fusion.record.storage import Epoch, Storage, bind, current_epoch, limits, recording
from weft.fusion.record.unfused_sites import ALONE, was_evaluated_alone
from weft.runtime.lazy_names import checked_imports, lazy_names

install_collector_callbacks()
call_user_with(call_user)

if TYPE_CHECKING:
    from weft.fusion.explain.explanation import (
        Explanation,
        explain_storages,
        kernels_of,
        print_plan,
        show_bytes,
        show_plans,
        show_seconds,
    )
    from weft.fusion.graph.ranges import range_of
    from weft.fusion.graph.reduction_order import REDUCTION_BLOCK, SHORT_COLUMN
    from weft.fusion.graph.symbolic import SymbolicProgram, as_symbol, convert_sympy, entries_of
    from weft.fusion.run.expanded_ops import ExpandedOp, compile_price
    from weft.fusion.run.masked_copy_kernel import compile_masked_copy, find_masked_copy
    from weft.fusion.run.primitives import (
        NeedsKernelError,
        is_ready,
        primitive,
        reduce_values,
        sum_of_products,
        uses_numpy,
    )
    from weft.fusion.run.tiers import is_optimizer_failure

__getattr__ = lazy_names(globals(), checked_imports(__file__))
