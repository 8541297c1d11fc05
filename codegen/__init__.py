"""Public interface of the code generator.

llvmlite is loaded when LLVM first compiles a kernel or describes this machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.codegen.kernel_ir.dtypes import (
    bfloat16,
    dtype_kind,
    is_bfloat16,
    is_half,
    is_supported,
    native_dtype,
    widened,
)
from weft.codegen.ops.definition import OpDef
from weft.codegen.ops.op_table import (
    EXTREMES,
    OPS,
    SUM_LANES,
    TESTS,
    NoLoopError,
    accumulators,
    add_user_op,
    combine_accumulators,
    combine_all,
    find_op,
    fits_dtype,
    identity_of,
    resolve_dtypes,
)
from weft.runtime import Registered
from weft.runtime.lazy_names import checked_imports, lazy_names

if TYPE_CHECKING:
    from weft.codegen.compile import compile_kernel, lower_stages
    from weft.codegen.host_description import host_has_masks, is_host_described
    from weft.codegen.host_target import order_target, resolve_target, streaming_threshold
    from weft.codegen.index_width import choose_index_dtype
    from weft.codegen.kernel_ir.builder import KernelBuilder, LoopBuilder
    from weft.codegen.kernel_ir.operation import (
        STRUCTURAL,
        Block,
        Function,
        Kernel,
        Operation,
        Parameter,
        Pointer,
        Type,
        Value,
    )
    from weft.codegen.kernel_ir.text import print_kernel
    from weft.codegen.kernel_ir.verify import InvalidKernelError, verify_kernel
    from weft.codegen.machines import CPU, GPU, Machine, machine_of
    from weft.codegen.obtain import (
        CompileCounts,
        code_version,
        find_function,
        is_loaded,
        kernel_digest,
        obtain_code,
        obtain_function,
    )
    from weft.codegen.passes.choose_lanes import find_reduction_lanes
    from weft.codegen.passes.describe_shapes import describe_shapes
    from weft.codegen.passes.find_spans import find_spans
    from weft.codegen.passes.flatten_branches import flatten_branches
    from weft.codegen.passes.merge_kernels import merge_kernels
    from weft.codegen.passes.merge_pointers import merge_pointers
    from weft.codegen.pipeline import run_passes
    from weft.codegen.schedules.columns import halve_columns, threads_below
    from weft.codegen.schedules.lookback import TILE as SHARED_ROW
    from weft.codegen.schedules.lookback import share_rows
    from weft.codegen.schedules.planes import RowPlanes
    from weft.codegen.schedules.rows import threads_of
    from weft.codegen.schedules.rows_and_columns import RowColumnReduction
    from weft.codegen.schedules.split_reductions import can_merge
    from weft.codegen.schedules.temporal_blocking import TemporalBlocking
    from weft.codegen.target import Target

__getattr__ = lazy_names(globals(), checked_imports(__file__))

# (the module is loaded when the target of a device is requested)
Registered.target_module = "weft.codegen.host_target"
