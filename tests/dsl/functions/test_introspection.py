"""Tests of queries of array properties, and of `copyto`.

Most queries neither evaluate arrays nor prevent fusion.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.functions import own_names
from weft.runtime import override

SHAPE = (40, 30)

QUESTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "broadcast": lambda xp, t, a: (lambda b: (b.shape, b.size, b.nd, b.ndim, b.numiter, b.index))(xp.broadcast(t, a[0], 3)),
    "can_cast": lambda xp, t, a: [xp.can_cast(t, kind) for kind in "ifdF"],
    "common_type": lambda xp, t, a: xp.common_type(t, a),
    "diag_indices_from": lambda xp, t, a: xp.diag_indices_from(t[:, :40].T[:30, :30]),
    "einsum_path": lambda xp, t, a: xp.einsum_path("ij,kj->ik", t, a),
    "iscomplexobj": lambda xp, t, a: xp.iscomplexobj(t),
    "isfortran": lambda xp, t, a: (xp.isfortran(t), xp.isfortran(t.T)),
    "isrealobj": lambda xp, t, a: xp.isrealobj(t),
    "isscalar": lambda xp, t, a: xp.isscalar(t),
    "iterable": lambda xp, t, a: xp.iterable(t),
    "may_share_memory": lambda xp, t, a: [xp.may_share_memory(x, y) for x, y in product((t, t[1:], t[::2], a), repeat=2)],
    "min_scalar_type": lambda xp, t, a: xp.min_scalar_type(t),
    "mintypecode": lambda xp, t, a: xp.mintypecode([t, "F"]) if xp is wf else np.mintypecode(["d", "F"]),
    "ndim": lambda xp, t, a: (xp.ndim(t), xp.ndim(3), xp.ndim([[1]])),
    "result_type": lambda xp, t, a: (xp.result_type(t, np.float32), xp.result_type(t, 3), xp.result_type(a, 1j)),
    "shape": lambda xp, t, a: (xp.shape(t), xp.shape([1, 2])),
    "shares_memory": lambda xp, t, a: [xp.shares_memory(x, y) for x, y in product((t, t[1::2], t[::2], a), repeat=2)],
    "size": lambda xp, t, a: (xp.size(t), xp.size(t, 1), xp.size(t, (0, 1))),
    "tril_indices_from": lambda xp, t, a: xp.tril_indices_from(t, 1),
    "triu_indices_from": lambda xp, t, a: xp.triu_indices_from(t),
    # properties of arrays, and functions of dtypes and shapes
    "attributes": lambda xp, t, a: (t.shape, t.dtype, t.ndim, t.size, t.strides, t.nbytes, t.itemsize, len(t), t.base is None),
    "flags": lambda xp, t, a: (t.flags.c_contiguous, t.T.flags.f_contiguous, t.flags.writeable, t.flags.owndata),
    "broadcast_shapes": lambda xp, t, a: xp.broadcast_shapes(t.shape, (1,)),
    "finfo": lambda xp, t, a: xp.finfo(t).eps if xp is wf else xp.finfo(t.dtype).eps,
    "isdtype": lambda xp, t, a: xp.isdtype(t.dtype, "real floating"),
    "isinstance": lambda xp, t, a: isinstance(t, xp.ndarray),
    "promote_types": lambda xp, t, a: xp.promote_types(t.dtype, a.dtype),
}  # fmt: skip
# NumPy's own functions do not pass these to the types of their arguments.
NOT_HANDED = {"broadcast", "mintypecode", "finfo", "isinstance"}


def _plain(found: Any) -> Any:
    return (
        np.asarray(found).tolist()
        if isinstance(found, (wf.Array, np.ndarray))
        else ([_plain(each) for each in found] if isinstance(found, (list, tuple)) else found)
    )


def test_all_functions_of_the_module_are_asked() -> None:
    listed = own_names._MODULES["functions.introspection"].split()
    assert {name.rpartition(":")[2] for name in listed} <= QUESTIONS.keys()


@pytest.mark.parametrize("namespace", [wf, np], ids=["weft", "numpy"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_runs_nothing(name: str, namespace: Any) -> None:
    if namespace is np and name in NOT_HANDED:
        pytest.skip("not dispatched by NumPy")
    values = np.arange(1200.0).reshape(SHAPE)
    wanted = QUESTIONS[name](np, values * 2, values)
    a = wf.asarray(values)
    wf.evaluate(a)
    t = a * 2
    before = wf.statistics()
    found = QUESTIONS[name](namespace, t, a)
    assert wf.statistics() == before
    total = (t + 1).sum()
    assert len(wf.explain(total).kernels) == 1
    assert float(total) == float((values * 2 + 1).sum())
    assert _plain(found) == _plain(wanted)


def test_a_number_of_its_own_is_looked_at() -> None:
    assert wf.min_scalar_type(wf.asarray(300)) == np.min_scalar_type(300)
    assert wf.min_scalar_type(-1) == np.dtype("i1")


def test_a_broadcast_iterates_over_elements() -> None:
    x, y = np.arange(3.0), np.arange(2)[:, None]
    found, wanted = wf.broadcast(wf.asarray(x) * 1, wf.asarray(y)), np.broadcast(x, y)
    assert found.index == 0 and next(found) == next(wanted) and found.index == wanted.index == 1
    found.reset()
    wanted.reset()
    assert list(found) == list(wanted)
    assert [list(each) for each in found.iters] == [list(each) for each in wanted.iters]
    assert isinstance(wanted, wf.broadcast) and isinstance(found, wf.broadcast)
    with pytest.raises(ValueError, match="shape mismatch"):
        wf.broadcast(wf.ones(3), wf.ones(4))


def test_a_copy_shares_no_memory_even_before_a_write() -> None:
    x = wf.arange(5000.0)
    wf.evaluate(x)
    y = x.copy()
    wf.evaluate(y)
    assert not wf.shares_memory(x, y) and not wf.may_share_memory(x, y)
    assert not wf.shares_memory(x * 2, np.ones(3)) and not np.shares_memory(x, np.ones(3))


@pytest.mark.parametrize("immediate", [0, 16384])
def test_views_of_another_dtype_share_memory(immediate: int) -> None:
    with override(immediate=immediate):
        x = wf.zeros((20, 30))
        y = x.view(np.int32)
        assert wf.shares_memory(x, y) and wf.may_share_memory(y[3:], x[5]) and not wf.may_share_memory(y[:2], x[3:])
        assert not wf.shares_memory(y, x.copy()) and not wf.shares_memory(x[:, ::2], x.view(np.complex128)[:0])


@pytest.mark.parametrize("code", "?bBhHiIlLefdFD")
@pytest.mark.parametrize("source", [True, 3, 300, -1, 3.5, 2j, np.float64(2), np.array(3), np.arange(3), [1, 2, 3]])
def test_copyto_casts_as_numpy(code: str, source: Any) -> None:
    def copied(xp: Any, casting: str, where: Any) -> Any:
        target = xp.zeros(3, code)
        try:
            xp.copyto(target, xp.asarray(source) if type(source) is np.ndarray else source, casting, where)
        except (TypeError, OverflowError) as error:
            return type(error)
        return np.asarray(target).tolist()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        for casting in ("no", "safe", "same_kind", "unsafe"):
            for where in (True, [True, False, True]):
                assert copied(wf, casting, where) == copied(np, casting, where)


def test_copyto_is_recorded() -> None:
    values = np.arange(3000.0)
    a = wf.asarray(values)
    wf.evaluate(a)
    target, source = a * 2, a + 1
    before = wf.statistics()
    wf.copyto(target, source, where=source > 5)
    np.copyto(target, source, where=source > 2000)
    assert wf.statistics() == before
    assert len(wf.explain(target.sum()).kernels) == 1
    expected = values * 2
    np.copyto(expected, values + 1, where=values + 1 > 5)
    np.testing.assert_array_equal(target, expected)


def test_a_broadcast_of_broadcasts_has_all_their_operands():
    values = np.arange(42).reshape(6, 7), np.arange(30).reshape(5, 6, 1), np.arange(7), np.arange(35).reshape(5, 1, 7)
    arrays = [wf.asarray(each) for each in values]
    expected = np.broadcast(*values)
    for found in (
        wf.broadcast(wf.broadcast(*arrays[:2]), wf.broadcast(*arrays[2:])),
        wf.broadcast(arrays[0], wf.broadcast(*arrays[1:-1]), arrays[-1]),
        wf.broadcast(wf.broadcast(), wf.broadcast(*arrays)),
    ):
        assert (found.shape, found.numiter, found.size) == (expected.shape, 4, expected.size)
        assert [tuple(each) for each in found] == [tuple(each) for each in np.broadcast(*values)]
