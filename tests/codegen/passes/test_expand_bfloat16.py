"""Tests that kernels with expanded bfloat16 operations match the interpreter.

The interpreter uses ml_dtypes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen.kernels import GPU, HOST
from tests.oracle.interpret import interpret_kernel
from tests.oracle.parse import parse_kernel
from weft.codegen import (
    InvalidKernelError,
    Kernel,
    KernelBuilder,
    compile_kernel,
    print_kernel,
    resolve_target,
    verify_kernel,
)
from weft.codegen.ops.op_table import find_op
from weft.codegen.passes.expand_bfloat16 import expand_bfloat16
from weft.codegen.pipeline import run_passes
from weft.runtime import assemble

ml_dtypes = pytest.importorskip("ml_dtypes")
BRAIN = np.dtype(ml_dtypes.bfloat16)
EVERY = np.arange(65536, dtype=np.uint16).view(BRAIN)


def _pointwise(write: Any, result: Any = BRAIN) -> Kernel:
    """Return the kernel out[i] = write(x[i], y[i])."""
    b = KernelBuilder("pointwise")
    x, y = b.pointer("x", BRAIN), b.pointer("y", BRAIN)
    out = b.pointer("out", result, writable=True)
    with b.loop(b.scalar("n"), "parallel") as i:
        b.store(out, i.index, write(b, b.load(x, i.index), b.load(y, i.index)))
    return b.finish()


def _chain(b: KernelBuilder, x: Any, y: Any) -> Any:
    third = b.op("divide", b.op("add", b.op("multiply", x, y), b.constant(0.1, BRAIN)), y)
    return b.op("where", b.op("less", x, y, dtype=np.bool_), third, b.op("minimum", x, b.op("negative", y)))


def _holds_none(kernel: Kernel) -> bool:
    values = [p.value for p in kernel.parameters] + [v for o in kernel.walk() for v in o.results]
    return not any("bfloat16" in str(v.type) for v in values)


def _run_both(kernel: Kernel, inputs: list[np.ndarray], result: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    n = len(inputs[0])
    wanted, found = np.zeros(n, result), np.zeros(n, np.uint16 if result == BRAIN else result)
    with np.errstate(all="ignore"):
        interpret_kernel(kernel, [*inputs, wanted, n])
        expanded = expand_bfloat16(kernel)
        verify_kernel(expanded)
        assert _holds_none(expanded)
        interpret_kernel(expanded, [*(v.view(np.uint16) for v in inputs), found, n])
    return wanted, found.view(result)


def _assert_same(found: np.ndarray, wanted: np.ndarray) -> None:
    both = np.isnan(found.astype(np.float32)) & np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(found.view(np.uint16)[~both], wanted.view(np.uint16)[~both])


@pytest.mark.parametrize("write", [_chain, lambda b, x, y: b.op("add", x, y), lambda b, x, y: b.op("exp", x)])
def test_arithmetic(write: Any) -> None:
    pick = np.random.default_rng(1)
    x, y = (pick.permutation(EVERY)[:400] for _ in range(2))
    wanted, found = _run_both(_pointwise(write), [x, y], BRAIN)
    _assert_same(found, wanted)


@pytest.mark.parametrize("code", "?bBhHiIqQefd")
def test_casts(code: str) -> None:
    x = np.array([0.0, -0.0, 1.5, -2.5, 130, 300, -300, 3e9, -1e20, np.inf, -np.inf, np.nan, 1e-40], BRAIN)
    wanted, found = _run_both(_pointwise(lambda b, x, y: b.cast(x, code), np.dtype(code)), [x, x], np.dtype(code))
    np.testing.assert_array_equal(found, wanted)


def test_casts_to_it_round_once() -> None:
    definition = find_op("_bfloat16_bits")
    words = np.random.default_rng(2).integers(0, 2**32, 4000, np.uint32)
    words[:8] = [0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800001, 0x00008001]
    x = words.view(np.float32)
    with np.errstate(all="ignore"):
        wanted = x.astype(BRAIN)
    assert definition.reference is not None
    _assert_same(definition.reference(x).view(BRAIN), wanted)


def test_text_parses_back() -> None:
    text = print_kernel(_pointwise(_chain))
    assert "ptr<bfloat16>" in text
    assert print_kernel(parse_kernel(text)) == text


def test_sums_are_not_folded_in_it() -> None:
    b = KernelBuilder("sum")
    x, out = b.pointer("x", BRAIN), b.pointer("out", BRAIN, writable=True)
    with b.loop(b.scalar("n"), "reduce", initial=[b.constant(0, BRAIN)], combine=("add",)) as i:
        i.yield_(b.op("add", i.carried[0], b.load(x, i.index)))
    b.store(out, b.constant(0), i.results[0])
    with pytest.raises(AssertionError, match="float32"):
        expand_bfloat16(b.finish())


def test_no_atomics() -> None:
    b = KernelBuilder("count")
    b.kernel.level = "threaded"
    out = b.pointer("out", BRAIN, writable=True)
    b.emit("atomic", (out, b.constant(0), b.constant(1, BRAIN)), (BRAIN,), kind="add")
    with pytest.raises(InvalidKernelError, match="atomic"):
        verify_kernel(b.finish())


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90"])
def test_ptx_assembles(architecture: str) -> None:
    code = compile_kernel(_pointwise(_chain), resolve_target(architecture))
    resources = assemble(code.code, architecture).launch
    assert resources["spills"] == resources["stack"] == 0


def test_targets_see_none_of_it() -> None:
    for target in (HOST, GPU):
        assert _holds_none(run_passes(_pointwise(_chain), target))
