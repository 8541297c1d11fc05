"""The public interface of the op table."""

from weft.codegen.ops.definition import OpDef
from weft.codegen.ops.op_table import (
    EXTREMES,
    OPS,
    SUM_LANES,
    NoLoopError,
    accumulators,
    add_op,
    add_user_op,
    combine_accumulators,
    combine_all,
    find_op,
    fits_dtype,
    identity_of,
    is_reduction,
    resolve_dtypes,
)

__all__ = [
    "EXTREMES",
    "SUM_LANES",
    "OPS",
    "NoLoopError",
    "OpDef",
    "accumulators",
    "add_user_op",
    "add_op",
    "find_op",
    "fits_dtype",
    "combine_accumulators",
    "combine_all",
    "identity_of",
    "is_reduction",
    "resolve_dtypes",
]
