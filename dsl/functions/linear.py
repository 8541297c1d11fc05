"""Matrix products and other contractions.

Contractions with much arithmetic per byte and, on the CPU, products of a matrix and a vector call BLAS on whole arrays:
NumPy's on the CPU, and cuBLAS on a CUDA device. Other contractions, including those of dtypes that BLAS does not
support, are sums of products, which fuse with other operations. The choice depends only on the device, the shapes and
the dtypes. NumPy's `einsum` computes summations that have neither form, for example with broadcast axes.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.codegen import is_bfloat16, widened
from weft.dsl.arrays.array import Array, expr_of, record, record_array, scalar, start
from weft.dsl.arrays.memoized import memoized
from weft.dsl.arrays.memory_order import in_requested_order
from weft.dsl.arrays.on_host import call_numpy
from weft.dsl.arrays.results import array_output, return_result, single_output, to_python
from weft.dsl.arrays.validation import MOST_AXES, check_axes, normalize_axis
from weft.dsl.arrays.windows import layout, window
from weft.dsl.functions.creation import asarray
from weft.dsl.functions.manipulation import expand_dims, reshape, swapaxes, transpose
from weft.dsl.functions.products import SHORT_SUM, is_fused, multiply, multiply_into
from weft.fusion import Expr, Location, broadcast_shapes, cast, map_, opaque, reduce_, shape_text
from weft.runtime import IMMEDIATE

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, Output


def _sum_of_products(factors: list[Expr], axes: tuple[int, ...], kind: np.dtype, location: Location) -> Expr:
    """Multiply operands elementwise, and sum the products along the given axes.

    16-bit floats are summed in float32 and rounded once.
    """
    times, plus = ("logical_and", "logical_or") if kind.kind == "b" else ("multiply", "add")
    wide = widened(kind)
    product = cast(factors[0], wide)
    for factor in factors[1:]:
        product = map_(times, [product, cast(factor, wide)], location=location)
    return reduce_(plus, product, axes, kind, False, location) if axes else cast(product, kind)


@memoized
def matmul(a: ArrayLike, b: ArrayLike, /, out: Output | None = None, **options: Any) -> Any:
    """Return the matrix product of two arrays, with broadcasting over the leading axes.

    Raises ValueError if the shapes do not match.

    Examples
    --------
    >>> wf.matmul([[1, 2], [3, 4]], [[1, 0], [0, 2]])
    array([[1, 4],
           [3, 8]])
    """
    location, out = start(), single_output(out)
    x, y = asarray(a), asarray(b)
    kind = np.dtype(options.get("dtype") or np.result_type(x.dtype, y.dtype))
    casting = options.get("casting", "same_kind")
    fits = all(np.can_cast(each.dtype, kind, casting) for each in (x, y))
    if not fits or options.keys() - {"dtype", "casting", "subok"}:  # axes, order, signature, or a misspelt option
        return call_numpy(np.matmul, (a, b), {"out": out, **options})
    if not x.ndim or not y.ndim:
        raise ValueError(
            f"matmul: Input operand {int(x.ndim > 0)} does not have enough dimensions (has 0, gufunc core with signature (n?,k),(k,m?)->(n?,m?) requires 1)"
        )
    inner = y.shape[-2] if y.ndim > 1 else y.shape[0]
    if x.shape[-1] != inner:
        raise ValueError(
            f"matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature (n?,k),(k,m?)->(n?,m?) (size {inner} is different from {x.shape[-1]})"
        )
    lead = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    shape = lead + x.shape[-2:-1] + (y.shape[-1:] if y.ndim > 1 else ())
    kind = widened(kind) if is_bfloat16(kind) else kind  # NumPy has no loop for bfloat16
    rows, columns = x.shape[-2] if x.ndim > 1 else 1, y.shape[-1] if y.ndim > 1 else 1
    if is_fused(x.device, kind, rows, columns, inner, prod(lead)):
        left, right = x, y
        if y.ndim > 1:
            left = expand_dims(x, -2)
            right = swapaxes(y, -1, -2)
            right = expand_dims(right, -3) if x.ndim > 1 else right
            left = left if x.ndim > 1 else reshape(x, (1, inner))
        node = _sum_of_products([expr_of(left), expr_of(right)], (len(shape),), kind, location)
    else:
        node = opaque(multiply_into, [cast(expr_of(x), kind), cast(expr_of(y), kind)], shape, kind, "matmul", location)
    return return_result("matmul", node, out, True, casting)


@memoized
def dot(a: ArrayLike, b: Any, out: Output | None = None) -> Any:
    """Return the dot product of two arrays, like `numpy.dot`.

    Examples
    --------
    >>> wf.dot([1, 2, 3], [4, 5, 6])
    np.int64(32)
    """
    x, y = asarray(a), asarray(b)
    if out is not None:
        return _into_dot_output(dot(x, y), out)
    if not x.ndim or not y.ndim:
        return x * y
    if y.ndim <= 2:
        if x.shape[-1] != y.shape[0]:
            raise ValueError(
                f"shapes {shape_text(x.shape)} and {shape_text(y.shape)} not aligned: {x.shape[-1]} (dim {x.ndim - 1}) != {y.shape[0]} (dim 0)"
            )
        kind = np.result_type(x.dtype, y.dtype)
        return matmul(x, y).astype(kind) if is_bfloat16(kind) else matmul(x, y)
    return tensordot(x, y, ((x.ndim - 1,), (y.ndim - 2,)))


def _into_dot_output(found: Array, out: Any) -> Any:
    """Write a product to `out`, or raise NumPy's ValueError if `out` is not a suitable C-contiguous array."""
    flags = array_output(out, "'out' must be an array").flags
    if out.ndim != found.ndim or out.dtype != found.dtype or not (flags["C_CONTIGUOUS"] and flags["WRITEABLE"]):
        raise ValueError(
            "output array is not acceptable (must have the right datatype, number of dimensions, and be a C-Array)"
        )
    if out.shape != found.shape:
        raise ValueError("output array has wrong dimensions")
    return return_result("multiply", expr_of(found), out)


@memoized
def vdot(a: ArrayLike, b: ArrayLike, /) -> Any:
    """Return the dot product of two flattened arrays, after conjugating the first.

    Examples
    --------
    >>> wf.vdot([1, 1j], [1, 1j])
    np.complex128(2+0j)
    """
    x, y = reshape(a, (-1,)), reshape(b, (-1,))
    return dot(x.conj() if x.dtype.kind == "c" else x, y)


@memoized
def inner(a: ArrayLike, b: Any, /) -> Any:
    """Return the inner product of two arrays along their last axes.

    Examples
    --------
    >>> wf.inner([[1, 2], [3, 4]], [1, 1])
    array([3, 7])
    """
    x, y = asarray(a), asarray(b)
    if not x.ndim or not y.ndim:
        return x * y
    if x.ndim == y.ndim == 2 and not (is_bfloat16(x.dtype) or is_bfloat16(y.dtype)):
        product = multiply(x, y.T)
        if product is not None:
            return product
    found = tensordot(x, y, ((x.ndim - 1,), (y.ndim - 1,)))
    return found if found.ndim else scalar(found._storage)


@memoized
def outer(a: ArrayLike, b: ArrayLike, out: Output | None = None) -> Any:
    """Return the products of all pairs of elements of two flattened arrays.

    Examples
    --------
    >>> wf.outer([1, 2], [10, 20, 30])
    array([[10, 20, 30],
           [20, 40, 60]])
    """
    product = asarray(a).reshape(-1, 1) * asarray(b).reshape(1, -1)
    return product if out is None else return_result("multiply", expr_of(product), out)


@memoized
def tensordot(a: ArrayLike, b: Any, axes: Any = 2) -> Any:
    """Return the sums of products of two arrays over pairs of axes, like `numpy.tensordot`.

    Examples
    --------
    >>> wf.tensordot(wf.ones((2, 3)), wf.ones((3, 2)), axes=1)
    array([[3., 3.],
           [3., 3.]])
    """
    axes = to_python(axes)
    location = start()
    x, y = asarray(a), asarray(b)
    if not isinstance(axes, (tuple, list)) and not np.ndim(axes):
        axes = operator.index(axes)
        if axes > min(x.ndim, y.ndim):
            raise IndexError(f"{axes} axes of arrays with {x.ndim} and {y.ndim}")
        first, second = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        first, second = (list(k if np.ndim(k) else (k,)) for k in axes)
    first = [normalize_axis(k, x.ndim) for k in first]
    second = [normalize_axis(k, y.ndim) for k in second]
    if len(set(first)) != len(first) or len(set(second)) != len(second):
        raise ValueError("duplicate axes are not allowed in tensordot")
    if [x.shape[k] for k in first] != [y.shape[k] for k in second]:
        raise ValueError("shape-mismatch for sum")
    x_free = [k for k in range(x.ndim) if k not in first]
    y_free = [k for k in range(y.ndim) if k not in second]
    check_axes(len(x_free) + len(y_free))
    # (any characters may be the names of axes)
    terms = ["".join(map(chr, range(x.ndim))), "".join(map(chr, range(MOST_AXES, MOST_AXES + y.ndim)))]
    for k, j in zip(first, second, strict=True):
        terms[1] = terms[1].replace(chr(MOST_AXES + j), terms[0][k])
    kind = np.result_type(x.dtype, y.dtype)
    if is_bfloat16(kind):
        return tensordot(x.astype(np.float32), y.astype(np.float32), (first, second)).astype(kind)
    free = "".join([terms[0][k] for k in x_free] + [terms[1][k] for k in y_free])
    found = _contract_pair(terms, [x, y], free, kind, location)
    assert found is not None, "no axis occurs twice in an operand, and none is broadcast"
    return found if found.ndim else record_array(expr_of(found))


@dataclass(frozen=True, slots=True)
class HostEinsum:
    """The host function that computes a recorded Einstein summation with NumPy."""

    subscripts: str

    def __call__(self, out: np.ndarray, *operands: np.ndarray) -> None:
        """Compute the Einstein summation (einsum) of `operands` with NumPy, and write the result to `out`."""
        np.einsum(self.subscripts, *operands, out=out, optimize=True)


@memoized
def einsum(subscripts: str, *operands: Any, out: Output | None = None, **options: Any) -> Any:
    """Evaluate an Einstein summation over the given operands, like `numpy.einsum`.

    Examples
    --------
    >>> wf.einsum('ij,j->i', [[1, 2], [3, 4]], [1, 10])
    array([21, 43])
    """
    if not isinstance(subscripts, str) or options.keys() - {"optimize", "order", "casting"}:
        return call_numpy(np.einsum, (subscripts, *operands), {**options, **({} if out is None else {"out": out})})
    found = [asarray(v) for v in operands]
    array_output(out, "keyword parameter out must be an array for einsum")
    casting, order = options.get("casting", "safe"), options.get("order", "K")
    _check_einsum_casts(found, out, casting)
    value = _einsum(subscripts, found)
    if out is not None:
        if np.shape(out) != value.shape:
            raise ValueError(f"output parameter for einsum has the wrong shape: {np.shape(out)}, not {value.shape}")
        return return_result("multiply", expr_of(value), out, casting="unsafe")
    is_view = value._storage is found[0]._storage
    return value if is_view else in_requested_order(value, order, found)


def _check_einsum_casts(operands: list[Array], out: Output | None, casting: str) -> None:
    """Raise NumPy's TypeError if the casting rule forbids a cast of an einsum's operand or result."""
    kind, rule = np.result_type(*(a.dtype for a in operands)), f"according to the rule {casting!r}"
    for k, array in enumerate(operands):
        if not np.can_cast(array.dtype, kind, casting):  # type: ignore[arg-type]
            raise TypeError(f"Iterator operand {k} dtype could not be cast from {array.dtype!r} to {kind!r} {rule}")
    if out is not None and not np.can_cast(kind, out.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(
            f"Iterator requested dtype could not be cast from {kind!r} to {out.dtype!r}, the operand {len(operands)} "
            f"dtype, {rule}"
        )


def _einsum(subscripts: str, found: list[Array]) -> Any:
    location = start()
    # NumPy itself checks the subscripts, on arrays without data
    shape = _einsum_shape(subscripts, tuple(a.shape for a in found))
    kind = np.result_type(*(a.dtype for a in found))
    if is_bfloat16(kind):
        return _einsum(subscripts, [a.astype(np.float32) for a in found]).astype(kind)
    spelt = _einsum_terms(subscripts, tuple(a.ndim for a in found))
    if spelt is not None and len(found) == 1 and set(spelt[1]) == set(*spelt[0]):
        (term,), result = spelt
        sizes = dict(zip(term, found[0].shape, strict=True))
        if found[0].shape == tuple(sizes[c] for c in term):
            return _with_axes(found[0], term, result, sizes)
    value = None if spelt is None else _contract_all(*spelt, found, kind, location)
    if value is not None:
        return value
    # (cast first, because NumPy's optimized order may add elements of an operand in the operand's own dtype)
    operands = [cast(expr_of(a), kind) for a in found]
    return record(opaque(HostEinsum(subscripts), operands, shape, kind, "einsum", location))


def _contract_all(
    terms: tuple[str, ...], result: str, found: list[Array], kind: np.dtype, location: Location
) -> Array | None:
    """Contract the operands of an einsum pairwise, or return None if NumPy must compute the result."""
    rest, arrays = list(terms), list(found)
    sizes = {c: n for term, array in zip(terms, found, strict=True) for c, n in zip(term, array.shape, strict=True)}
    while True:
        chosen = _next_pair(rest, result, sizes)
        pair = [rest[k] for k in chosen], [arrays[k] for k in chosen]
        rest = [term for k, term in enumerate(rest) if k not in chosen]
        arrays = [array for k, array in enumerate(arrays) if k not in chosen]
        term = _needed("".join(pair[0]), rest, result) if rest else result
        value = _contract_pair(*pair, term, kind, location)
        if value is None or not rest:
            return value
        rest.append(term)
        arrays.append(value)


def _needed(letters: str, rest: list[str], result: str) -> str:
    """Return the letters that are still needed: those in the result, or in an operand that is not contracted yet."""
    return "".join(c for c in dict.fromkeys(letters) if c in result or any(c in term for term in rest))


def _next_pair(terms: list[str], result: str, sizes: dict[str, int]) -> tuple[int, ...]:
    """Return the positions of the two operands to contract next, or (0,) if only one operand is left.

    The pair has the smallest difference between the size of its result and the sizes of its operands, and among such
    pairs the least arithmetic.
    """

    def size(letters: str) -> int:
        return prod(sizes[c] for c in set(letters))

    def cost(pair: tuple[int, ...]) -> tuple[int, int]:
        first, second = (terms[k] for k in pair)
        rest = [term for k, term in enumerate(terms) if k not in pair]
        grown = size(_needed(first + second, rest, result)) - size(first) - size(second)
        return grown, size(first + second)

    return min(combinations(range(len(terms)), 2), key=cost, default=(0,))


def _contract_pair(
    terms: list[str], found: list[Array], result: str, kind: np.dtype, location: Location
) -> Array | None:
    """Contract one or two operands, as a fused sum of products or by BLAS. Return None if neither is possible."""
    sizes: dict[str, int] = {}
    for term, array in zip(terms, found, strict=True):
        for letter, n in zip(term, array.shape, strict=True):
            if n != sizes.setdefault(letter, n):
                return None  # lengths of 1 are broadcast
    fused = _contract(terms, result, found, sizes, kind, location)
    if fused is not None:
        return fused
    if any(len(set(term)) < len(term) for term in terms):
        return None
    if result and result[-1] in terms[0]:
        # In a product by BLAS, the axes of the second operand come last.
        terms, found = terms[::-1], found[::-1]
    for k in range(2):
        own = "".join(c for c in terms[k] if c in terms[1 - k] or c in result)
        if own != terms[k]:
            summed = _contract([terms[k]], own, [found[k]], sizes, kind, location)
            assert summed is not None
            terms, found = [*terms], [*found]
            terms[k], found[k] = own, summed
    first, second = terms
    batch = "".join(c for c in result if c in first and c in second)
    rows, columns = ("".join(c for c in result if c in term and c not in batch) for term in terms)
    length = "".join(c for c in first if c not in result)

    def matrices(term: str, array: Array, *parts: str) -> Array:
        turned = transpose(array, [term.index(c) for c in batch + "".join(parts)])
        lengths = [prod(sizes[c] for c in part) for part in parts]
        return reshape(turned, (*(sizes[c] for c in batch), *lengths))

    pair = matrices(first, found[0], rows, length), matrices(second, found[1], length, columns)
    product = multiply(*pair) if pair[0].dtype == pair[1].dtype == kind else None
    if product is None:
        product = matmul(*pair, dtype=kind)
    made = batch + rows + columns
    return transpose(reshape(product, tuple(sizes[c] for c in made)), [made.index(c) for c in result])


def _contract(
    terms: list[str], result: str, found: list[Array], sizes: dict[str, int], kind: np.dtype, location: Location
) -> Array | None:
    """Contract one or two operands as a fused sum of products, or return None if BLAS is faster."""
    if len(terms) == 2:
        first, second = set(terms[0]), set(terms[1])
        parts = (first - second, second - first, (first & second) - set(result), first & second & set(result))
        rows, columns, length, batch = (prod(sizes[letter] for letter in part) for part in parts)
        if length > SHORT_SUM and not is_fused(found[0].device, kind, rows, columns, length, batch):
            return None
    letters = result + "".join(sorted(set("".join(terms)) - set(result)))
    factors = [_with_axes(array, term, letters, sizes) for term, array in zip(terms, found, strict=True)]
    axes = tuple(range(len(result), len(letters)))
    if not axes and prod(sizes.values()) <= IMMEDIATE[0] and kind.kind != "b":
        # The operator executes small products immediately.
        product: Any = factors[0] if len(factors) == 1 else factors[0] * factors[1]  # type: ignore[operator]
        return product if product.dtype == kind else product.astype(kind)
    return record(_sum_of_products([expr_of(factor) for factor in factors], axes, kind, location))


def _with_axes(array: Array, term: str, letters: str, sizes: dict[str, int]) -> Array:
    """Return a view of an array with one axis for each letter of `letters`, in this order.

    `term` contains the letters of the array's axes. The axes of other letters have length 1.
    """
    _, strides, offset = layout(array)
    steps = {letter: sum(s for c, s in zip(term, strides, strict=True) if c == letter) for letter in term}
    shape = tuple(sizes[c] if c in steps else 1 for c in letters)
    return window(array, shape, tuple(steps.get(c, 0) for c in letters), offset)


def _einsum_terms(subscripts: str, ranks: tuple[int, ...]) -> tuple[tuple[str, ...], str] | None:
    """Return the subscripts of each operand and of the result, with ellipses replaced by letters.

    Return None if there are too few unused letters.
    """
    given, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = given.split(",")
    wide = [rank - len(term) + 3 if "..." in term else 0 for term, rank in zip(terms, ranks, strict=True)]
    free = [c for c in map(chr, (*range(97, 123), *range(65, 91))) if c not in subscripts]
    if max(wide) > len(free):
        return None
    names = "".join(free[: max(wide)])
    terms = [term.replace("...", names[len(names) - n :]) for term, n in zip(terms, wide, strict=True)]
    if not arrow:
        letters = given.replace(",", "").replace(".", "")
        result = "..." + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return tuple(terms), result.replace("...", names)


@lru_cache(maxsize=512)
def _einsum_shape(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Return the shape of an einsum's result, computed from the shapes of the operands. Raise an error if the subscripts do not fit them."""
    operands = [np.broadcast_to(np.zeros((), np.int8), shape) for shape in shapes]
    np.einsum_path(subscripts, *operands, optimize=False)
    # (`einsum` makes the checks that `einsum_path` omits.)
    np.einsum(subscripts, *(np.zeros((1,) * len(shape), np.int8) for shape in shapes))
    spelt = _einsum_terms(subscripts, tuple(len(shape) for shape in shapes))
    if spelt is None:
        return np.einsum(subscripts, *operands).shape
    terms, result = spelt
    sizes: dict[str, int] = {}
    for k, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        own: dict[str, int] = {}
        for letter, n in zip(term, shape, strict=True):
            if own.setdefault(letter, n) != n:
                raise ValueError(
                    f"dimensions in operand {k} for collapsing index {letter!r} don't match ({own[letter]} != {n})"
                )
            if sizes.get(letter, 1) not in (1, n) and n != 1:
                raise ValueError(f"operands could not be broadcast together with remapped shapes for {subscripts!r}")
            if n != 1 or letter not in sizes:
                sizes[letter] = n
    return tuple(sizes[letter] for letter in result)


@memoized
def kron(a: ArrayLike, b: ArrayLike) -> Any:
    """Return the Kronecker product of two arrays.

    Examples
    --------
    >>> wf.kron([1, 10], [1, 2, 3])
    array([ 1,  2,  3, 10, 20, 30])
    """
    x, y = asarray(a), asarray(b)
    ndim = max(x.ndim, y.ndim)
    x_shape, y_shape = (1,) * (ndim - x.ndim) + x.shape, (1,) * (ndim - y.ndim) + y.shape
    left = reshape(x, tuple(n for m in x_shape for n in (m, 1)))
    right = reshape(y, tuple(n for m in y_shape for n in (1, m)))
    return reshape(left * right, tuple(n * m for n, m in zip(x_shape, y_shape, strict=True)))
