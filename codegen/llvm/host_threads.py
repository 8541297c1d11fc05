"""LLVM text of kernels with threads for the host, as loops or as coroutines.

In: a threaded kernel after the passes, written by a user or by a GPU schedule. Out: its text, its external symbols,
and the locations of its synchronization points. The module is loaded only for such kernels.
"""

from __future__ import annotations

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.llvm.host_coroutines import emit_coroutines
from weft.codegen.llvm.host_split import emit_split
from weft.codegen.passes.forward_variables import forward_variables
from weft.codegen.passes.mark_addresses import mark_addresses
from weft.codegen.passes.split_at_meetings import split_at_meetings
from weft.codegen.passes.store_branch_results import store_branch_results
from weft.codegen.target import Target


def emit_threads(ready: Kernel, target: Target) -> tuple[str, set[str], list[str]]:
    """Emit loops over a block's threads if synchronization points allow it, otherwise a coroutine for each thread."""
    ready = mark_addresses(store_branch_results(forward_variables(ready)))
    if not (ready.attributes.get("watch") or target.backward) and (split := split_at_meetings(ready)) is not None:
        return emit_split(ready, target, split)
    return emit_coroutines(ready, target)
