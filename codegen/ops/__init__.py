"""The public interface of the op table."""

from weft.codegen.ops.definition import OpDef
from weft.codegen.ops.op_table import (
    FOLD_LANES,
    OPS,
    NoLoopError,
    accumulators,
    add_op,
    add_user_op,
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
    "add_user_op",
    "add_op",
    "find_op",
    "fold",
    "fold_later",
    "identity_of",
    "resolve_dtypes",
]
