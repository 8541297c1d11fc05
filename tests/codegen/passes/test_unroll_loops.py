"""Tests of the pass that unrolls reductions over few elements.

The enclosing loop can then be vectorized.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from tests.codegen.kernels import GPU, HOST
from tests.oracle.interpret import interpret_kernel
from weft.codegen import (
    Kernel,
    KernelBuilder,
    Target,
    describe_shapes,
    lower_stages,
    resolve_target,
    verify_kernel,
)
from weft.codegen.passes.choose_lanes import choose_lanes
from weft.codegen.passes.map_axes import launch_data
from weft.codegen.passes.unroll_loops import SHORT, SHORT_ON_GPU, unroll_loops
from weft.codegen.pipeline import run_passes


def sums(name: str = "add") -> Kernel:
    """Return a kernel that reduces each row of a matrix. The string `name` is the op, such as "add" for sums."""
    b = KernelBuilder("sums")
    rows, columns, stride = b.scalar("rows"), b.scalar("columns"), b.scalar("stride")
    x, out = b.pointer("x", np.float32, noalias=True), b.pointer("out", np.float32, writable=True)
    with b.loop(rows, "parallel") as i:
        line = b.op("multiply", i.index, stride)
        with b.loop(columns, "reduce", initial=[b.constant(0, np.float32)], combine=(name,)) as j:
            j.yield_(b.op(name, j.carried[0], b.load(x, b.op("add", line, j.index))))
        b.store(out, i.index, j.results[0])
    return b.finish()


def described(columns: int, target: object = HOST) -> Kernel:
    return describe_shapes(sums(), {"rows": 50, "columns": columns, "stride": columns}, target)  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [1, 2, 3, SHORT])
def test_it_computes_the_same(columns: int) -> None:
    x = np.random.default_rng(0).random((50, columns)).astype(np.float32)
    out = np.zeros(50, np.float32)
    kernel = unroll_loops(described(columns))
    verify_kernel(kernel)
    assert not [o for o in kernel.walk() if o.attributes.get("role") == "reduce"]
    interpret_kernel(kernel, [50, columns, columns, x.ravel(), out])
    expected = np.zeros(50, np.float32)
    for k in range(columns):
        expected += x[:, k]
    assert np.array_equal(out, expected)


def test_the_loop_around_gets_lanes() -> None:
    (loop,) = [o for o in choose_lanes(unroll_loops(described(3)), HOST).walk() if o.attributes.get("lanes")]
    assert loop.attributes["role"] == "parallel"


@pytest.mark.parametrize(("target", "short"), [(HOST, SHORT), (GPU, SHORT_ON_GPU)], ids=["host", "gpu"])
def test_longer_folds_keep_their_kernel(target: Target, short: int) -> None:
    assert "short" not in described(short + 1, target).attributes
    assert "short" in described(short, target).attributes


def test_on_a_gpu_a_thread_folds_a_few_elements_by_itself() -> None:
    threaded = run_passes(described(3, GPU), GPU)
    assert not [o for o in threaded.walk() if o.opcode.startswith("shuffle")]
    assert launch_data(threaded)["scheme"] == "elements"


def test_one_sum_alone_is_for_every_length() -> None:
    b = KernelBuilder("sum")
    n, x, out = b.scalar("n"), b.pointer("x", np.float32), b.pointer("out", np.float32, writable=True)
    with b.loop(n, "reduce", initial=[b.constant(0, np.float32)], combine=("add",)) as i:
        i.yield_(b.op("add", i.carried[0], b.load(x, i.index)))
    b.store(out, b.constant(0), i.results[0])
    assert "short" not in describe_shapes(b.finish(), {"n": 3}, HOST).attributes


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8])
@pytest.mark.parametrize("columns", [2, 3, SHORT, SHORT + 1])
@pytest.mark.parametrize("rows", [1, 7, 64, 131])
def test_compiled_for_every_type_and_length(dtype: type, columns: int, rows: int) -> None:
    x = (np.random.default_rng(1).random((rows, columns)) * 50).astype(dtype)
    with wf.device("cpu"):
        a = wf.asarray(x)
        assert np.array_equal(a.max(axis=1), x.max(axis=1))
        assert np.array_equal(a.argmin(axis=1), x.argmin(axis=1))
        assert np.allclose(a.sum(axis=1), x.sum(axis=1), rtol=1e-6)
        # the last element is at the end of its memory
        assert np.allclose((a[:, None, :] * a[None]).sum(axis=2), (x[:, None, :] * x[None]).sum(axis=2), rtol=1e-6)


def test_columns_are_taken_out_of_whole_vectors() -> None:
    target = resolve_target("host")
    if target.vector_bytes < 64:
        pytest.skip("written for machines with vectors of 64 bytes")
    kernel = describe_shapes(sums(), {"rows": 9, "columns": 3, "stride": 3}, target)
    assert "vpermt2ps" in lower_stages(kernel, target)["asm"]
