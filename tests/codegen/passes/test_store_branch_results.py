"""Tests of the pass `store_branch_results`. If a branch contains a barrier, the pass stores the branch's results in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen import kernels
from tests.codegen.kernels import GPU, numbers
from tests.oracle.interpret import interpret_kernel
from weft.codegen import Kernel, verify_kernel
from weft.codegen.kernel_ir.operation import SYNCHRONIZATION
from weft.codegen.passes.index_steps import program_order
from weft.codegen.passes.map_axes import map_axes
from weft.codegen.passes.split_at_barriers import split_at_barriers
from weft.codegen.passes.store_branch_results import store_branch_results


def giving(kernel: Kernel) -> int:
    """Return the number of branches that contain a barrier and have results."""
    return sum(
        o.opcode == "if"
        and bool(o.results)
        and any(i.opcode in SYNCHRONIZATION for r in o.regions for i in program_order(r.operations))
        for o in kernel.walk()
    )


@pytest.mark.parametrize(
    ("dtype", "combine"),
    [("f4", ("add",)), ("i8", ("argmax",)), ("?", ("logical_and", "logical_or")), ("f2", ("maximum",))],
)
@pytest.mark.parametrize(("count", "length"), [(3, 20), (2, 300)])
def test_folds_of_rows(dtype: str, combine: tuple[str, ...], count: int, length: int) -> None:
    x: Any = numbers(count * length, dtype)
    threaded = map_axes(kernels.rows(dtype, combine), GPU)
    assert giving(threaded)
    stored = store_branch_results(threaded)
    verify_kernel(stored)
    assert not giving(stored)
    assert split_at_barriers(threaded) is None
    assert split_at_barriers(stored) is not None
    found = []
    for kernel in (threaded, stored):
        outputs = [np.zeros(count, p.value.type.dtype) for p in kernel.parameters if p.writable]  # type: ignore[union-attr]
        interpret_kernel(kernel, [x, count, length, *outputs], grid=(2,))
        found.append([out.tobytes() for out in outputs])
    assert found[0] == found[1]


def test_kernels_without_such_branches_stay_as_they_are() -> None:
    threaded = map_axes(kernels.columns("f4"), GPU)
    assert store_branch_results(threaded) is threaded
