"""LLVM text of threaded kernels for the host.

In: a threaded kernel after the passes, written by a user or by a GPU schedule. Out: its text, its external symbols,
and additions to its launch parameters. This module is imported only for such kernels.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.llvm.host_coroutines import emit_coroutines
from weft.codegen.llvm.host_split import emit_split
from weft.codegen.passes.find_private_arrays import find_private_arrays
from weft.codegen.passes.forward_variables import forward_variables
from weft.codegen.passes.mark_addresses import mark_addresses
from weft.codegen.passes.share_strides import share_strides
from weft.codegen.passes.split_at_barriers import split_at_barriers
from weft.codegen.passes.store_branch_results import store_branch_results
from weft.codegen.passes.unwrap_indices import unwrap_indices
from weft.codegen.target import Target


def emit_threads(ready: Kernel, target: Target) -> tuple[str, set[str], dict[str, Any]]:
    """Emit a threaded kernel as loops over threads if possible, otherwise as coroutines.

    Loops are impossible if `split_at_barriers` cannot split the kernel, for example because threads may diverge at a
    block-wide barrier. Traced kernels, and kernels whose threads run in reverse order, always run as coroutines.

    Return the text, its external symbols, and additions to the launch parameters.
    """
    ready = unwrap_indices(forward_variables(ready))
    if not (ready.attributes.get("trace") or target.backward):
        for form in chain(share_strides(ready), [ready]):
            kernel = mark_addresses(store_branch_results(form))
            if (split := split_at_barriers(kernel)) is not None:
                text, symbols, sites = emit_split(kernel, target, split)
                private = bool(find_private_arrays(kernel))
                return text, symbols, _launch(sites, strided="in_step" in kernel.attributes, private=private)
    text, symbols, sites = emit_coroutines(mark_addresses(store_branch_results(ready)), target)
    return text, symbols, _launch(sites)


def _launch(sites: list[str], **others: bool) -> dict[str, Any]:
    return {**({"sites": sites} if sites else {}), **{name: True for name, holds in others.items() if holds}}
