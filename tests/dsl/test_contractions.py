"""Tests of matrix products and of `einsum`. The results are computed by generated kernels or by BLAS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion import reset_statistics, statistics
from weft.runtime import override

RANDOM = np.random.default_rng(7)

Program = Callable[[Any, Any, Any], Any]

# shapes of the two operands, the program, and its number of kernels (0: one library call)
PROGRAMS: dict[str, tuple[tuple[int, ...], tuple[int, ...], Program, int]] = {
    "dot": ((300,), (300,), lambda xp, x, y: (x * 2) @ y + 1, 1),
    "short sums": ((40, 3), (3, 50), lambda xp, x, y: xp.maximum((x * 2) @ (y + 1) - 1, 0), 1),
    "transposed": ((40, 8), (50, 8), lambda xp, x, y: x @ y.T * 2, 1),
    "many small ones": ((30, 4, 5), (30, 5, 6), lambda xp, x, y: x @ y + 1, 1),
    "broadcast": ((30, 4, 5), (5, 6), lambda xp, x, y: x @ y + 1, 1),
    "small by vectors": ((30, 4, 5), (5,), lambda xp, x, y: x @ y + 1, 1),
    "vector by small ones": ((5,), (30, 5, 4), lambda xp, x, y: x @ y + 1, 1),
    "outer": ((40,), (50,), lambda xp, x, y: xp.einsum("i,j->ij", x * 2, y) + 1, 1),
    "einsum of short sums": ((40, 3), (50, 3), lambda xp, x, y: xp.einsum("ik,jk->ij", x, y) * 2, 1),
    "rows by rows": ((40, 30), (40, 30), lambda xp, x, y: xp.einsum("ij,ij->i", x, y) + 1, 1),
    "all": ((40, 30), (40, 30), lambda xp, x, y: xp.einsum("ij,ij", x, y) + 1, 1),
    "diagonals": ((40, 40), (40, 40), lambda xp, x, y: xp.einsum("ii,ii->i", x, y) + 1, 1),
    "trace": ((40, 40), (2,), lambda xp, x, y: xp.einsum("ii", x * 2), 1),
    "permuted": ((4, 5, 6), (2,), lambda xp, x, y: xp.einsum("ijk->kji", x * 2) + 1, 1),
    "tensordot": ((4, 5, 6), (7, 6, 3), lambda xp, x, y: xp.tensordot(x, y, ((2,), (1,))) + 1, 1),
    "tensordot of two axes": ((4, 2, 3), (3, 2, 5), lambda xp, x, y: xp.tensordot(x, y, ((1, 2), (1, 0))) + 1, 1),
    "inner": ((4, 8), (5, 8), lambda xp, x, y: xp.inner(x, y) + 1, 1),
    "large": ((40, 30), (30, 50), lambda xp, x, y: x @ y, 0),
    "large, einsum": ((40, 30), (30, 50), lambda xp, x, y: xp.einsum("ij,jk->ik", x, y), 0),
    "large, around": ((40, 30), (50, 30), lambda xp, x, y: (x * 2) @ y.T + 1, 2),
    "with lengths of one": ((40, 1), (1, 50), lambda xp, x, y: xp.einsum("ij,jk->ik", x, y), 1),
    "large, turned": ((40, 30), (30, 50), lambda xp, x, y: xp.einsum("ij,jk->ki", x, y), 0),
    "attention": ((2, 20, 3, 16), (2, 24, 3, 16), lambda xp, x, y: xp.einsum("bqhd,bkhd->bhqk", x, y), 0),
    "attention, any leading axes": ((2, 3, 20, 16), (24, 16), lambda xp, x, y: xp.einsum("...qd,kd->...qk", x, y), 0),
    "three operands": ((40, 30), (30, 50), lambda xp, x, y: xp.einsum("ij,jk,kl->il", x, y, y.T), 0),
    "form": ((30,), (30, 50), lambda xp, x, y: xp.einsum("i,ij,j", x, y, y[0]) + 1, 1),
    "summed before": ((40, 30, 9), (30, 50), lambda xp, x, y: xp.einsum("ijs,jk->ik", x, y), 1),
    "diagonal by a matrix": ((40, 40), (40, 50), lambda xp, x, y: xp.einsum("ii,ij->j", x, y), 0),
    "empty sums": ((4, 0), (0, 5), lambda xp, x, y: x @ y + 1, 1),
    "no rows": ((0, 4), (4, 5), lambda xp, x, y: x @ y + 1, 0),
}


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("name", PROGRAMS)
def test_against_numpy(name: str, dtype: type) -> None:
    shape, other, program, kernels = PROGRAMS[name]
    x, y = (RANDOM.standard_normal(s).astype(dtype) for s in (shape, other))
    if name == "short sums" and dtype is np.complex128:
        pytest.skip("complex numbers have no maximum in kernels")
    wanted = program(np, x, y)
    with wf.device("cpu"):
        result = program(wf, wf.asarray(x), wf.asarray(y))
        reset_statistics()
        found = np.asarray(result)
        assert statistics()["kernels"] == kernels
    assert found.dtype == np.asarray(wanted).dtype
    assert found.shape == np.shape(wanted)
    # the tolerance for float64 includes NumPy's own error
    np.testing.assert_allclose(found, wanted, rtol=1e-4 if dtype is np.float32 else 1e-11, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint32, bool])
def test_integers_and_bools_to_the_bit(dtype: type) -> None:
    x, y = (RANDOM.integers(0, 100, s).astype(dtype) for s in ((33, 47), (47, 29)))
    with wf.device("cpu"):
        a, b = wf.asarray(x), wf.asarray(y)
        np.testing.assert_array_equal(a @ b, x @ y, strict=True)
        np.testing.assert_array_equal(wf.einsum("ij,jk->ki", a, b), np.einsum("ij,jk->ki", x, y), strict=True)
        np.testing.assert_array_equal(wf.tensordot(a, b, 1), np.tensordot(x, y, 1), strict=True)
        assert wf.vdot(a, a).dtype == np.vdot(x, x).dtype
        assert int(wf.vdot(a, a)) == int(np.vdot(x, x))


def test_a_vector_stays_on_a_gpu() -> None:
    x, y = RANDOM.standard_normal((40, 30)), RANDOM.standard_normal(30)
    with wf.device("simt"):
        result = wf.asarray(x) @ wf.asarray(y) + 1
        reset_statistics()
        np.testing.assert_allclose(np.asarray(result), x @ y + 1, rtol=1e-12)
        assert statistics()["kernels"] == 1


@pytest.mark.parametrize("dtype", [np.int64, np.bool_, np.float32, np.complex64])
def test_a_product_is_cast_as_the_rule_says(dtype: Any) -> None:
    a, b = np.arange(6).reshape(2, 3), np.linspace(0, 2, 12).reshape(3, 4)
    ours, theirs = wf.zeros((2, 4), dtype=dtype), np.zeros((2, 4), dtype=dtype)
    assert wf.matmul(wf.asarray(a), wf.asarray(b), out=ours, casting="unsafe") is ours
    np.matmul(a, b, out=theirs, casting="unsafe")
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6)
    if dtype in (np.int64, np.bool_):
        with pytest.raises(TypeError, match="Cannot cast ufunc 'matmul' output"):
            wf.matmul(wf.asarray(a), wf.asarray(b), out=ours)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("...kl,k...", ((2, 1, 1, 2), (4,))),
        ("ij,j->", ((2, 1), (3,))),
        ("ij,kj->i", ((2, 1), (2, 3))),
        ("ij,k->ij", ((2, 3), (4,))),
    ],
)
@pytest.mark.parametrize("second", [np.bool_, np.int8])
def test_operands_are_cast_before_they_are_added(subscripts: str, shapes: Any, second: Any) -> None:
    a = np.arange(1, np.prod(shapes[0]) + 1, dtype=np.int32).reshape(shapes[0])
    b = np.full(shapes[1], 1 if second is np.bool_ else 100, second)
    expected = np.einsum(subscripts, a, b.astype(np.int32))
    assert wf.einsum(subscripts, wf.asarray(a), wf.asarray(b)).tolist() == expected.tolist()


@pytest.mark.parametrize("immediate", [0, 16384])
@pytest.mark.parametrize("optimize", [True, "optimal", ["einsum_path", (0, 1), (0, 1)]])
def test_an_optimized_order_casts_first_as_well(optimize: Any, immediate: int) -> None:
    operands = RANDOM.integers(0, 2, (3, 3)) > 0, RANDOM.integers(0, 2, (3, 3)) > 0, np.arange(9).reshape(3, 3)
    with override(immediate=immediate):
        found = wf.einsum("ij,jk,kl", *map(wf.asarray, operands), optimize=optimize)
        assert found.tolist() == np.einsum("ij,jk,kl", *operands).tolist()
        operands = (
            *(np.arange(24).reshape(shape) > 3 for shape in ((2, 3, 4), (4, 6))),
            np.arange(24.0).reshape(2, 3, 4),
        )
        found = wf.einsum(
            "a...,...b,c...->abc...",
            *map(wf.asarray, (operands[0], operands[1][:, :3], operands[2])),
            optimize=optimize,
        )
        wanted = np.einsum("a...,...b,c...->abc...", operands[0], operands[1][:, :3], operands[2])
        assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize(("subscripts", "shape"), [("...->", (2, 2)), ("i...->i", (2, 3)), ("ii", (1, 3))])
def test_subscripts_that_numpy_refuses(subscripts: str, shape: tuple[int, ...]) -> None:
    for xp in (np, wf):
        with pytest.raises(ValueError, match="einstein sum|collapsing index"):
            xp.einsum(subscripts, xp.ones(shape))
