"""Products of matrices: calls of the BLAS that NumPy brings, on whole arrays."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from weft.dsl.array import Array, expr_of, start
from weft.dsl.creation import asarray
from weft.dsl.manipulation import moveaxis, reshape
from weft.dsl.reductions import normalize_axis
from weft.dsl.ufunc import deliver
from weft.fusion import broadcast_shapes, cast, opaque


def _matmul(out: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    np.matmul(a, b, out=out)


def matmul(a: Any, b: Any, /, out: Any = None, **options: Any) -> Any:
    """Matrix product, broadcast over leading axes. Raises ValueError where the shapes do not match."""
    location = start()
    x, y = asarray(a), asarray(b)
    if not x.ndim or not y.ndim:
        raise ValueError(
            "matmul: Input operand 0 does not have enough dimensions (has 0, gufunc core with signature (n?,k),(k,m?)->(n?,m?) requires 1)"
        )
    inner = y.shape[-2] if y.ndim > 1 else y.shape[0]
    if x.shape[-1] != inner:
        raise ValueError(
            f"matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature (n?,k),(k,m?)->(n?,m?) (size {inner} is different from {x.shape[-1]})"
        )
    lead = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    shape = lead + x.shape[-2:-1] + (y.shape[-1:] if y.ndim > 1 else ())
    kind = np.dtype(options.get("dtype") or np.result_type(x.dtype, y.dtype))
    node = opaque(_matmul, [cast(expr_of(x), kind), cast(expr_of(y), kind)], shape, kind, "matmul", location)
    return deliver("multiply", node, out)


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Dot product, as `numpy.dot`."""
    x, y = asarray(a), asarray(b)
    if not x.ndim or not y.ndim:
        return x * y  # type: ignore[operator]
    if y.ndim <= 2:
        if x.shape[-1] != y.shape[0]:
            raise ValueError(
                f"shapes {_show(x.shape)} and {_show(y.shape)} not aligned: {x.shape[-1]} (dim {x.ndim - 1}) != {y.shape[0]} (dim 0)"
            )
        return matmul(x, y, out)
    return tensordot(x, y, ((x.ndim - 1,), (y.ndim - 2,)))


def _show(shape: tuple[int, ...]) -> str:
    return "(" + ",".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def vdot(a: Any, b: Any) -> Any:
    """Dot product of the flattened arrays, the first conjugated."""
    x, y = reshape(a, (-1,)), reshape(b, (-1,))
    return dot(x.conj(), y)  # type: ignore[attr-defined]


def inner(a: Any, b: Any) -> Any:
    """Sum of products over the last axes."""
    x, y = asarray(a), asarray(b)
    if not x.ndim or not y.ndim:
        return x * y  # type: ignore[operator]
    return tensordot(x, y, ((x.ndim - 1,), (y.ndim - 1,)))


def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Every product of elements of two vectors."""
    x, y = reshape(a, (-1, 1)), reshape(b, (1, -1))
    product = x * y  # type: ignore[operator]
    return product if out is None else deliver("multiply", expr_of(product), out)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum of products over pairs of axes, as `numpy.tensordot`."""
    x, y = asarray(a), asarray(b)
    if isinstance(axes, (int, np.integer)):
        first, second = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        first, second = ([int(i) for i in ([k] if isinstance(k, (int, np.integer)) else k)] for k in axes)
    first = [normalize_axis(k, x.ndim) for k in first]
    second = [normalize_axis(k, y.ndim) for k in second]
    if [x.shape[k] for k in first] != [y.shape[k] for k in second]:
        raise ValueError("shape-mismatch for sum")
    x_free = [k for k in range(x.ndim) if k not in first]
    y_free = [k for k in range(y.ndim) if k not in second]
    left = reshape(moveaxis(x, first, list(range(x.ndim - len(first), x.ndim))), (_size(x, x_free), _size(x, first)))
    right = reshape(moveaxis(y, second, list(range(len(second)))), (_size(y, second), _size(y, y_free)))
    return reshape(matmul(left, right), tuple(x.shape[k] for k in x_free) + tuple(y.shape[k] for k in y_free))


def _size(array: Array, axes: list[int]) -> int:
    total = 1
    for k in axes:
        total *= array.shape[k]
    return total


@lru_cache(maxsize=512)
def _einsum_call(subscripts: str) -> Any:
    def einsum_host(out: np.ndarray, *operands: np.ndarray) -> None:
        out[...] = np.einsum(subscripts, *operands, optimize=True)

    return einsum_host


def einsum(subscripts: Any, *operands: Any, out: Any = None, **options: Any) -> Any:
    """Sum of products by subscripts, as `numpy.einsum`."""
    location = start()
    if not isinstance(subscripts, str) or options.get("dtype") is not None:
        from weft.dsl.numpy_face import call_numpy

        return call_numpy(np.einsum, (subscripts, *operands), {**options, **({} if out is None else {"out": out})})
    found = [asarray(v) for v in operands]
    # NumPy itself says what is wrong with the subscripts, and what comes out: on arrays without data
    shape = _einsum_shape(subscripts, tuple(a.shape for a in found))
    kind = np.result_type(*(a.dtype for a in found))
    node = opaque(_einsum_call(subscripts), [expr_of(a) for a in found], shape, kind, "einsum", location)
    return deliver("multiply", node, out)


@lru_cache(maxsize=512)
def _einsum_shape(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """The result's shape: each letter's length, read off arrays that have one element a letter."""
    operands = [np.broadcast_to(np.zeros((), np.int8), shape) for shape in shapes]
    np.einsum_path(subscripts, *operands, optimize=False)
    terms, arrow, result = subscripts.replace(" ", "").partition("->")
    if "." in terms:
        return np.einsum(subscripts, *operands).shape
    sizes: dict[str, int] = {}
    for term, shape in zip(terms.split(","), shapes, strict=True):
        for letter, n in zip(term, shape, strict=True):
            if sizes.get(letter, 1) not in (1, n) and n != 1:
                raise ValueError(f"operands could not be broadcast together with remapped shapes for {subscripts!r}")
            sizes[letter] = max(sizes.get(letter, 1), n)
    if not arrow:
        letters = terms.replace(",", "")
        result = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return tuple(sizes[letter] for letter in result)


def kron(a: Any, b: Any) -> Any:
    """Kronecker product."""
    x, y = asarray(a), asarray(b)
    ndim = max(x.ndim, y.ndim)
    x_shape, y_shape = (1,) * (ndim - x.ndim) + x.shape, (1,) * (ndim - y.ndim) + y.shape
    left = reshape(x, tuple(n for m in x_shape for n in (m, 1)))
    right = reshape(y, tuple(n for m in y_shape for n in (1, m)))
    return reshape(left * right, tuple(n * m for n, m in zip(x_shape, y_shape, strict=True)))  # type: ignore[operator]


__all__ = ["dot", "einsum", "inner", "kron", "matmul", "outer", "tensordot", "vdot"]
