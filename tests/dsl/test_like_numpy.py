"""Tests of programs for which weft once differed from NumPy."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime import override

# `A(values, dtype)` makes an array; the result of a program is `r`.
PROGRAMS = """
a = A(np.arange(6.)).reshape(2, 3); c = xp.zeros((2, 4, 5)); r = xp.dot(a, A(np.arange(60.)).reshape(4, 3, 5), out=c) is c, c
a = xp.ones((2, 3)); r = xp.dot(a, a.T, out=xp.zeros((2, 2), np.float32))
a = xp.ones((2, 3), np.float32); r = xp.dot(a, a.T, out=xp.zeros((2, 2)))
a = xp.ones((2, 3)); r = xp.dot(a, a.T, out=xp.zeros((3, 2)))
a = xp.ones((2, 3)); r = xp.dot(a, a.T, out=xp.zeros((2, 2), order="F"))
a = xp.ones((2, 3)); r = xp.dot(a, a.T, out=xp.zeros((4, 2))[::2])
c = xp.zeros(3); xp.dot(2.0, xp.ones(3), out=c); r = c
a = xp.broadcast_to(A(np.arange(3.)), (4, 3)); r = a.ravel("K"), xp.ravel(a, "K"), a.flatten("K"), a.T.ravel("K")
a = xp.broadcast_to(A(np.arange(3.))[:, None], (3, 4)); r = a.ravel("K"), a.T.ravel("K"), a[::-1].ravel("K")
a = A(np.arange(24.)).reshape(2, 3, 4); r = a[::-1].ravel("K"), a.transpose(2, 0, 1).ravel("K"), a[:, :, ::-2].transpose(1, 2, 0).ravel("K")
x = A([0., 1, 0, 2]); xp.logical_or.at(x, [0, 2], A([1., 0])); xp.logical_xor.at(x, [0, 1, 1], 3); r = x
x = A([0., 1, 0, 2], "D"); xp.logical_and.at(x, [0, 1, 1], 3); xp.greater.at(x, [3], True); r = x
v = xp.meshgrid(xp.arange(2), xp.arange(3)); r = type(v).__name__, *v
r = xp.ndarray((2, 3), order="F").flags.f_contiguous, xp.ndarray((2, 3), "i4", np.arange(10, dtype="i4"), 4, order="F")
a = xp.ones((2, 3)); v = xp.einsum("ij,jk->ik", a, a.T, order="F"); r = v, v.flags.f_contiguous, xp.einsum("ij->ij", a, order="F").flags.c_contiguous
a = xp.ones((2, 3)); r = xp.einsum("ij,jk->ik", a, a.T, out=xp.zeros((2, 2), "i4"))
a = xp.ones((2, 3)); r = xp.einsum("ij,jk->ik", a, a.T, out=xp.zeros((2, 2), "i4"), casting="unsafe")
r = xp.einsum("i,i->", xp.ones(3), xp.ones(3, "i4"), casting="no")
a = xp.ones((2, 3)); r = xp.einsum("ij,jk->ik", a, a.T, dtype="f4", casting="safe")
a = xp.arange(5); m = xp.zeros(0, bool); r = a[m], a[np.array([], bool)], xp.ones((5, 3))[:, m], xp.ones((5, 3))[xp.zeros((0, 3), bool)]
a = xp.ones(5); a[xp.zeros(0, bool)] = 7; r = a
r = xp.ones(5)[xp.zeros(4, bool)]
r = xp.zeros((0, 0)).max(axis=0)
r = xp.zeros((0, 3)).max(axis=1), xp.zeros((3, 0, 0)).sum(axis=(0, 1))
r = xp.max(xp.zeros((3, 0, 0)), axis=(0, 1))
r = xp.argmax(xp.ones((2, 3)), axis=(0, 1))
r = xp.ones((2, 3)).argmin(axis=[0])
x = xp.arange(6.).reshape(2, 3); i = A(1); y = x[i]; y[0] = 77; z = x[:, i]; z[0] = 9; x[1, 1] = 99; r = x, y, z
x = xp.arange(6.).reshape(2, 3); y = x[np.array(1)]; y[0] = 77; z = x[np.int64(0)]; z[0] = 5; r = x, y, z
x = xp.arange(6.).reshape(2, 3); i = A(1); x[i] = 5; x[i, 0] += 3; x[0, i] -= 1; r = x
r = xp.add(xp.ones(3, "i4"), xp.ones(3), casting="no")
r = xp.add(xp.ones(3, "i4"), xp.ones(3, "i4"), casting="equiv"), xp.add(xp.ones(3, "i8"), xp.ones(3, "f4"), casting="safe")
r = xp.add(xp.ones(3), 1, casting="bogus")
r = xp.sin(xp.ones(3, "i4"), casting="no")
r = [xp.add(xp.ones(3, "f4"), v, casting=c).dtype for _ in range(9) for c in ("equiv", "safe") for v in (3.0, 3)]
r = xp.add(3.0, 4.0, dtype="f4", casting="equiv")
r = [xp.arange(40_000, -1, -1, dtype=t) for t in ("u2", "u4", "i4", "u8")], xp.arange(0, 40_000, 3, dtype="i2")
r = xp.arange(0, 1000, 300, dtype="u1")
r = xp.ones((1,) * 64)[(A([0]),) * 64]
r = xp.ones((1,) * 63)[(A([0]),) * 63]
a = xp.asarray(np.arange(12.).reshape(3, 4, order="F")); v = xp.delete(a, [0], 1), xp.delete(a, 1, 0); r = v, [b.flags.f_contiguous for b in v]
a = xp.asarray(np.arange(12.).reshape(3, 4, order="F")); v = [xp.pad(a, ((1, 2), (0, 1)), mode=m) for m in ("edge", "reflect", "symmetric", "wrap")]; r = v, [b.flags.f_contiguous for b in v]
r = xp.add(3.0, 4.0, dtype=int, casting="safe")
r = xp.sin(xp.ones(3), casting="safe", out=xp.zeros(3, "f4"))
r = xp.add(xp.ones(3), 1.0, dtype="f4", casting="safe")
r = xp.add(xp.ones(3), 1.0, dtype="f4")
x = xp.zeros(3); r = xp.add(1, x, out=(x, x))
r = xp.add(1, xp.zeros(3), out=())
x = xp.zeros(3); r = xp.add(1, x, out=(x,)) is x, x, xp.add(1, x, out=(None,))
r = xp.add(xp.ones(3), 1, where=A([1., 0, 1]), out=xp.zeros(3))
r = xp.add(xp.ones(3), 1, where=A([1, 0, 1]), out=xp.zeros(3))
m = A([True, False, True]); r = xp.add(xp.ones(3), 1, where=m, out=None)[m], xp.sqrt(xp.ones((2, 1)) + 3, where=m, out=None)[:, m]
r = xp.sum(xp.ones(3), where=A([1., 0, 1]))
x = A([1., 6, 0.25]); v, w = xp.zeros(3), xp.zeros(3, "i4"); r = [a is b for a, b in zip(xp.frexp(x, v, w), (v, w))], v, w
x = A([1., 6, 0.25]); v = xp.zeros(3); w = xp.frexp(x, v); r = w[0] is v, w, xp.frexp(x, out=(None, None))
x = A([1., 6]); r = xp.modf(x, xp.zeros(2), out=(None, xp.zeros(2)))
x = A([1., 6, 0.25]); w = xp.zeros(3, "i4"); v = xp.frexp(x, out=(None, w), where=x > 0); r = v[1] is w, v
x = A([1., 6, 0.25]); r = xp.frexp(x, x, x, x)
r = xp.array_equal(A([1, 2]), np.array([1, 2])), xp.array_equal([1, 2.5], A([1, 2.5])), xp.array_equal(A([1, 2]), np.array(["1", "2"]))
r = xp.vectorize(lambda: 3)()
r = xp.roll(A(np.arange(6)).reshape(2, 3), (1, 2, 3), axis=(0, 1))
a = A(np.arange(6)).reshape(2, 3); r = xp.roll(a, (1, 2, 3), axis=1), xp.roll(a, 1, axis=(0, 1, 0)), xp.roll(a, (1,), axis=(0, 1))
r = xp.ones(3)[1.5:2]
r = A([2, 3], "u8") ** -3
r = A([2, 3], "i4") ** -3
r = xp.logical_or(A([True, False]), 2**63)
r = xp.logical_and(A([1, 0]), 2**63)
r = xp.logical_and(A([1, 0], "u8"), 2**63), xp.logical_or(A([1., 0]), 2**70)
v = xp.tensordot(xp.ones(3), xp.ones(3), 1); w = v; v -= np.float64(2); r = w, w is v
v = xp.tensordot(xp.ones(3, "f4"), xp.ones(3, "f4"), 1); v -= np.float64(2); r = v
r = xp.inner(xp.ones(3), xp.ones(3)), xp.inner(xp.ones((2, 3)), xp.ones(3))
r = xp.ones((1,) * 64)[None].shape
r = xp.expand_dims(xp.ones((1,) * 64), 0).ndim
r = xp.ones(1).reshape((1,) * 65).ndim
r = (xp.ones((1,) * 64) + 1).ndim
z = A(3 + 4j); v = z.real; v -= 2; z.imag[...] = 7; r = z, v
z = A([3 + 4j, 1, 2j]); v = z.real[1:]; v[0] = 7; z.imag[::2][1] = 8; r = z, v
z = A([3 + 4j, 1, 2j]); xp.add(z.real, 1, out=z.real); z.imag.fill(2); z.real.sort(); r = z
z = A([3 + 4j, 1, 2j]); v = z.real; z[0] = 5; w = v + 1; z *= 2; r = z, v, w
z = A([3 + 4j, 1, 2j]); v = z.real; z[1] = 50; v[0] = 7; r = z, v
z = A([3 + 4j, 1, 2j]); v = z.real; s = float(v.sum()); z[1] = 50; w = v + 1; z *= 2; r = z, v, w, s
z = A(np.arange(6) * (1 + 2j)).reshape(2, 3); z.real.T[1] = 9; z.imag.reshape(-1)[::2] = 8; z.real[:, None][0] += 1; z.real.mT[0] -= 1; r = z
z = A(np.arange(6) * (1 + 2j)); w = z[2:]; v = z.real; del z; v.sum(); w[0] = 99; r = v, w
z = A(np.arange(6) * (1 + 2j)); v = (z * 2).real; s = float(v.sum()); v[1] = 3; r = v, s, z
z = A(np.arange(6) * (1 + 2j)); z.imag[A([0, 1])] = 5; z.real[z.real > 2] = 1; z.real.partition(2); r = z
z = A(np.arange(6) * (1 + 2j)); z.real.flat[2] = 5; z.real.put([0, 1], [7, 8]); r = z
z = A(np.arange(6) * (1 + 2j)); z.real += z.imag; z.imag -= z.real; xp.copyto(z.real, z.imag); xp.cumsum(z.imag, out=z.imag); r = z
z = A(np.arange(6) * (1 + 2j)); v, w = z.real.ravel(), z.real.flatten(); v[0] = 4; c = z.real.copy(); c[2] = 1; z[1] = 0; r = z, v, w, c
z = A(np.arange(6) * (1 + 2j)); z.flags.writeable = False; z.real[0] = 3
z = A(np.arange(6) * (1 + 2j)); r = [[z.__setitem__(k, 10 * k), float(z.real[k]), float(z.real.sum())] for k in range(4)]
z = A(np.arange(6) * (1 + 2j)).reshape(2, 3); xp.transpose(z.real)[0] = 9; xp.expand_dims(z.imag, 0)[0, 1] = 8; z.imag.view()[0, 0] = 6; r = z
z = A(np.arange(6) * (1 + 2j)).reshape(2, 3); xp.moveaxis(z.real, 0, 1)[1] = 7; xp.rot90(z.imag)[0] = 5; xp.einsum("ij->ji", z.real)[0] = 3; r = z
z = A(np.arange(6) * (1 + 2j)).reshape(2, 3); v = z.T.real.reshape(-1); v[0] = 9; xp.reshape(z.imag, -1)[1] = 8; xp.ravel(z.real)[0] = 7; r = z, v
z = A(np.arange(6) * (1 + 2j)).reshape(2, 3); v = z.real.flags; r = z.real.strides, v.c_contiguous, v.f_contiguous, z.real[:1, :1].flags.c_contiguous
z = A(np.arange(6) * (1 + 2j)); xp.add.at(z.real, [0, 0, 1], 4.0); xp.add.at(z.imag, slice(1, 3), [1.0, 2]); r = z
z = A(np.arange(6) * (1 + 2j)).reshape(2, 3).T; v = xp.lib.stride_tricks.as_strided(z.real, (2, 2), z.real.strides); v[1] = 9; r = v, z
x = A([[0, 1], [2, 3]]); x @= A([[1.5, 0], [0, 1.5]]); r = x
x = xp.ones((2, 2)); x @= A([[1j, 0], [0, 1]]); r = x
x = xp.zeros(3); x.fill([1, 2, 3]); r = x
x = xp.ones(3); r = x.put([], []), x
r = xp.ones(3).copy("X")
r = float(A(1 + 2j))
x = xp.ones(3); x.real = 3j; r = x
z = A([1j, 2]); z.imag = 3j; r = z
x = xp.ones(3); x[x > 0] = 2j; r = x
r = A([120, -3], "i1").round(-3), A([250, 149], "u1").round(-2), A([32767, -5], "i2").round(-5)
x = A([[0., 1], [2, 3]]); r = x.flat == 2, x.flat != 2, x.T.flat > 1, x.flat <= 2
r = xp.zeros((3, 0)).flat.coords
v = A([[0., 1], [2, 3]]).flags; r = v["CA"], v["FA"], v["B"], v.carray
""".strip().splitlines()


def run(program: str, xp: Any) -> Any:
    """Return the result of a program, or its error."""
    names: dict[str, Any] = {
        "xp": xp,
        "np": np,
        "A": lambda values, dtype=None: xp.asarray(np.array(values, dtype)),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        try:
            exec(program, names)
        except Exception as error:
            return type(error).__name__, str(error)
    return shown(names["r"])


def shown(value: Any) -> Any:
    if isinstance(value, (wf.Array, np.ndarray, np.generic)):
        return str(value.dtype), value.shape, np.asarray(value).tolist()
    return [shown(each) for each in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("immediate", [0, 16384])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_gives_numpys_result_or_error(program: str, immediate: int) -> None:
    with override(immediate=immediate):
        assert run(program, wf) == run(program, np)


def test_generators_are_numpys_generators() -> None:
    rng = wf.random.default_rng(3)
    assert isinstance(rng, wf.random.Generator) and isinstance(rng, np.random.Generator)
    expected = np.random.default_rng(3).random(3).tolist()
    for same in (copy.deepcopy(rng), pickle.loads(pickle.dumps(rng)), wf.random.Generator(wf.random.PCG64(3)), rng):
        drawn = same.random(3)
        assert isinstance(drawn, wf.Array) and drawn.tolist() == expected
    assert wf.random.default_rng(rng).random() == np.random.default_rng(3).random(4)[3]
    assert isinstance(rng.spawn(1)[0].random(2), wf.Array)
    state = wf.random.RandomState(3)
    assert isinstance(state, wf.random.RandomState) and isinstance(state.rand(2), wf.Array)
    assert (wf.random.Generator | None) == (np.random.Generator | None)
