"""Reference evaluation: expressions by NumPy, one operation at a time, nothing fused.

The oracle that plans are compared with. In: expressions and what their epoch's slots hold.
Out: NumPy arrays. Iterative, since graphs are deep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from weft.codegen import dtype_kind, find_op, widened
from weft.fusion.expr import Expr, constant_value


def topological(roots: Iterable[Expr], stop: Callable[[Expr], bool] = lambda node: False) -> list[Expr]:
    """Every node that `roots` need, operands first; operands of nodes that `stop` accepts are left out."""
    order: list[Expr] = []
    seen: set[Expr] = set()
    for root in roots:
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                order.append(node)
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                if not stop(node):
                    stack.extend((child, False) for child in reversed(node.operands) if child not in seen)
    return order


def cast_array(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`values` in `dtype` by weft's rule: float to integer saturates, NaN gives 0."""
    if values.dtype.kind == "c" and dtype.kind != "c":
        values = values.real if dtype.kind != "b" else values != 0
    if dtype_kind(values.dtype) == "f" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        wide = values.astype(np.float64)
        low, high = wide <= float(limits.min), wide >= float(limits.max)
        result = np.where(np.isnan(wide) | low | high, 0, wide).astype(dtype)
        result[low] = limits.min
        result[high] = limits.max
        result[np.isnan(wide)] = 0
        return result
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def evaluate_reference(roots: Sequence[Expr], slots: Sequence[Any]) -> list[np.ndarray]:
    """The arrays of `roots`; `slots[k]` is the NumPy array (or number) bound to slot k."""
    values: dict[Expr, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for node in topological(roots):
            operands = [values[child] for child in node.operands]
            values[node] = np.ascontiguousarray(_EVALUATE[node.kind](node, operands, slots)).reshape(node.shape)
    return [values[root] for root in roots]


def _map(node: Expr, operands: list[np.ndarray], slots: Sequence[Any]) -> np.ndarray:
    if node.op == "cast":
        return cast_array(operands[0], node.dtype)
    row = find_op(node.op)
    typed = [cast_array(x, dtype) for x, dtype in zip(operands, node.attrs, strict=True)]
    function: Any = getattr(np, row.ufunc) if row.ufunc else row.reference
    return np.asarray(function(*typed)).astype(node.dtype, copy=False)


def _view(node: Expr, operands: list[np.ndarray], slots: Sequence[Any]) -> np.ndarray:
    strides, offset = node.attrs
    return _strided(operands[0], node.shape, strides, offset).copy()


def _strided(base: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> np.ndarray:
    if not np.prod(shape):
        return np.empty(shape, base.dtype)
    return as_strided(base.reshape(-1)[offset:], shape, tuple(s * base.itemsize for s in strides))


def _reduce(node: Expr, operands: list[np.ndarray], slots: Sequence[Any]) -> np.ndarray:
    axes, keepdims = node.attrs
    (x,) = operands
    if node.op in ("argmin", "argmax"):
        kept = [k for k in range(x.ndim) if k not in axes]
        rows = x.transpose(*kept, *axes).reshape(*(x.shape[k] for k in kept), -1)
        return getattr(rows, node.op)(-1).reshape(node.shape)
    function = getattr(np, find_op(node.op).ufunc)
    typed = cast_array(x, widened(node.dtype))
    if typed.size == 0 and function.identity is None:
        raise ValueError(f"zero-size array to reduction operation {node.op} which has no identity")
    return function.reduce(typed, axis=axes, keepdims=keepdims).astype(node.dtype)


def _scan(node: Expr, operands: list[np.ndarray], slots: Sequence[Any]) -> np.ndarray:
    return getattr(np, find_op(node.op).ufunc).accumulate(cast_array(operands[0], node.dtype), axis=node.attrs[0])


def _positions(terms: Any, shape: tuple[int, ...], indices: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    grid = np.indices(shape, sparse=True)
    result = []
    for start, steps, which in terms:
        position = np.int64(start) + sum((grid[axis] * step for axis, step in steps), np.int64(0))
        if which >= 0:
            position = position + indices[which].astype(np.int64)
        result.append(np.broadcast_to(position, shape))
    return tuple(result)


def _gather(node: Expr, operands: list[np.ndarray], slots: Sequence[Any]) -> np.ndarray:
    base, *indices = operands
    terms = node.attrs[0]
    return (base if len(terms) == base.ndim else base.reshape(-1))[_positions(terms, node.shape, indices)]


def _update(node: Expr, operands: list[np.ndarray], slots: Sequence[Any]) -> np.ndarray:
    previous, value = operands
    shape, strides, offset = node.attrs
    result = previous.copy()
    _strided(result, shape, strides, offset)[...] = value
    return result


def _scatter(node: Expr, operands: list[np.ndarray], slots: Sequence[Any]) -> np.ndarray:
    previous, value, *indices = operands
    terms, shape = node.attrs
    result = previous.copy()
    positions = tuple(p.reshape(-1) for p in _positions(terms, shape, indices))
    target = result if len(terms) == result.ndim else result.reshape(-1)
    if node.op and node.op != "same":
        getattr(np, node.op).at(target, positions, value.reshape(-1))
    else:
        target[positions] = value.reshape(-1)
    return result


def _opaque(node: Expr, operands: list[np.ndarray], slots: Sequence[Any]) -> np.ndarray:
    out = np.empty(node.shape, node.dtype)
    node.attrs[0](out, *operands)
    return out


_EVALUATE: dict[str, Callable[[Expr, list[np.ndarray], Sequence[Any]], Any]] = {
    "leaf": lambda node, operands, slots: slots[node.attrs[0]],
    "scalar": lambda node, operands, slots: np.asarray(slots[node.attrs[0]], node.dtype),
    "constant": lambda node, operands, slots: np.broadcast_to(constant_value(node), node.shape),
    "empty": lambda node, operands, slots: np.zeros(node.shape, node.dtype),
    "iota": lambda node, operands, slots: np.broadcast_to(
        np.indices(node.shape, sparse=True)[node.attrs[0]].astype(node.dtype), node.shape
    ),
    "map": _map,
    "view": _view,
    "reduce": _reduce,
    "scan": _scan,
    "gather": _gather,
    "update": _update,
    "scatter": _scatter,
    "opaque": _opaque,
}
