"""The public interface of the op table."""

from weft.codegen.ops.definition import OpDef
from weft.codegen.ops.op_table import (
    FOLD_LANES,
    OPS,
    NoLoopError,
    accumulators,
    add_function_row,
    add_row,
    find_op,
    fold,
    fold_later,
    identity_of,
    resolve_dtypes,
)

__all__ = [
    "FOLD_LANES",
    "OPS",
    "NoLoopError",
    "OpDef",
    "accumulators",
    "add_function_row",
    "add_row",
    "find_op",
    "fold",
    "fold_later",
    "identity_of",
    "resolve_dtypes",
]
