"""The functions of `weft` under NumPy's names, for type checkers and editors; everything else of NumPy's is found as it runs.

No module of the running program: `weft.dsl.script.numpy_face` has the functions. Invariant: it names what there is, with the same
parameters (``python -m tests.dsl.declarations`` writes it).
"""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from weft.dsl.arrays.annotations import ArrayLike, DTypeLike, Output, ShapeLike
from weft.dsl.arrays.array import Array
from weft.dsl.arrays.ufunc import UFunc
from weft.runtime import Device

class _Elementwise(UFunc):
    def __call__(self, *operands: Any, **options: Any) -> Array: ...

abs: _Elementwise
absolute: _Elementwise
acos: _Elementwise
acosh: _Elementwise
add: _Elementwise
arccos: _Elementwise
arccosh: _Elementwise
arcsin: _Elementwise
arcsinh: _Elementwise
arctan: _Elementwise
arctan2: _Elementwise
arctanh: _Elementwise
asin: _Elementwise
asinh: _Elementwise
atan: _Elementwise
atan2: _Elementwise
atanh: _Elementwise
bitwise_and: _Elementwise
bitwise_count: _Elementwise
bitwise_invert: _Elementwise
bitwise_left_shift: _Elementwise
bitwise_not: _Elementwise
bitwise_or: _Elementwise
bitwise_right_shift: _Elementwise
bitwise_xor: _Elementwise
brev: _Elementwise
cbrt: _Elementwise
ceil: _Elementwise
clz: _Elementwise
conj: _Elementwise
conjugate: _Elementwise
copysign: _Elementwise
cos: _Elementwise
cosh: _Elementwise
cospi: _Elementwise
deg2rad: _Elementwise
degrees: _Elementwise
divide: _Elementwise
equal: _Elementwise
erf: _Elementwise
erfc: _Elementwise
exp: _Elementwise
exp10: _Elementwise
exp2: _Elementwise
expm1: _Elementwise
fabs: _Elementwise
ffs: _Elementwise
float_power: _Elementwise
floor: _Elementwise
floor_divide: _Elementwise
fma: _Elementwise
fmax: _Elementwise
fmin: _Elementwise
fmod: _Elementwise
gamma: _Elementwise
gcd: _Elementwise
greater: _Elementwise
greater_equal: _Elementwise
heaviside: _Elementwise
hypot: _Elementwise
invert: _Elementwise
isfinite: _Elementwise
isinf: _Elementwise
isnan: _Elementwise
lcm: _Elementwise
ldexp: _Elementwise
left_shift: _Elementwise
less: _Elementwise
less_equal: _Elementwise
lgamma: _Elementwise
log: _Elementwise
log10: _Elementwise
log1p: _Elementwise
log2: _Elementwise
logaddexp: _Elementwise
logaddexp2: _Elementwise
logical_and: _Elementwise
logical_not: _Elementwise
logical_or: _Elementwise
logical_xor: _Elementwise
maximum: _Elementwise
minimum: _Elementwise
mod: _Elementwise
multiply: _Elementwise
negative: _Elementwise
nextafter: _Elementwise
not_equal: _Elementwise
positive: _Elementwise
pow: _Elementwise
power: _Elementwise
rad2deg: _Elementwise
radians: _Elementwise
reciprocal: _Elementwise
remainder: _Elementwise
right_shift: _Elementwise
rint: _Elementwise
rsqrt: _Elementwise
sign: _Elementwise
signbit: _Elementwise
sin: _Elementwise
sinc: _Elementwise
sinh: _Elementwise
sinpi: _Elementwise
sqrt: _Elementwise
square: _Elementwise
subtract: _Elementwise
tan: _Elementwise
tanh: _Elementwise
true_divide: _Elementwise
trunc: _Elementwise

def all(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    out: Output | None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Array: ...
def allclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> bool: ...
def amax(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    out: Output | None = None,
    keepdims: bool = False,
    initial: complex | None = None,
    where: ArrayLike = True,
) -> Array: ...
def amin(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    out: Output | None = None,
    keepdims: bool = False,
    initial: complex | None = None,
    where: ArrayLike = True,
) -> Array: ...
def angle(z: ArrayLike, deg: bool = False) -> Array: ...
def any(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    out: Output | None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Array: ...
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array: ...
def apply_over_axes(func: Any, a: Any, axes: Any) -> Any: ...
def arange(
    start: Any = 0,
    stop: Any = None,
    step: Any = None,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    like: object = None,
) -> Array: ...
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array: ...
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array: ...
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: str | None = None) -> Array: ...
def argsort(
    a: ArrayLike,
    axis: int = -1,
    kind: str | None = None,
    order: str | None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> Array: ...
def argwhere(a: ArrayLike) -> Array: ...
def around(a: Any, decimals: int = 0, out: Any = None) -> Array: ...
def array(
    object: Any,
    dtype: DTypeLike | None = None,
    *,
    copy: bool | None = True,
    order: str | None = None,
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
    like: object = None,
) -> Array: ...
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool: ...
def array_equiv(a1: Any, a2: Any) -> Any: ...
def array_split(ary: ArrayLike, indices_or_sections: ArrayLike, axis: int = 0) -> list[Array]: ...
def asanyarray(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Device | str | None = None,
    like: object = None,
) -> Array: ...
def asarray(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Device | str | None = None,
    like: object = None,
) -> Array: ...
def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any: ...
def ascontiguousarray(a: ArrayLike, dtype: DTypeLike | None = None, *, like: object = None) -> Array: ...
def asfortranarray(a: ArrayLike, dtype: DTypeLike | None = None, *, like: object = None) -> Array: ...
def astype(a: Any, dtype: Any, /, *, copy: bool = True, device: Device | str | None = None) -> Array: ...
def atleast_1d(*arrays: Any) -> Any: ...
def atleast_2d(*arrays: Any) -> Any: ...
def atleast_3d(*arrays: Any) -> Any: ...
def average(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any: ...
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Array: ...
def block(arrays: Any) -> Any: ...
def broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Array, ...]: ...
def broadcast_to(array: ArrayLike, shape: ShapeLike, subok: bool = False) -> Array: ...
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> Any: ...
def choose(a: ArrayLike, choices: Any, out: Output | None = None, mode: str = "raise") -> Array: ...
def clip(
    a: ArrayLike,
    min: Any = ...,
    max: Any = ...,
    out: Output | None = None,
    *,
    a_min: Any = ...,
    a_max: Any = ...,
    **options: Any,
) -> Array: ...
def column_stack(tup: Sequence[ArrayLike]) -> Array: ...
def common_type(*arrays: Any) -> Any: ...
def compress(condition: ArrayLike, a: ArrayLike, axis: int | None = None, out: Output | None = None) -> Array: ...
def concat(
    arrays: Any, axis: int | None = 0, out: Any = None, dtype: Any = None, casting: str = "same_kind"
) -> Array: ...
def concatenate(
    arrays: Any, axis: int | None = 0, out: Any = None, dtype: Any = None, casting: str = "same_kind"
) -> Array: ...
def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> Array: ...
def copy(a: ArrayLike, order: str = "K", subok: bool = False) -> Array: ...
def copyto(dst: Output, src: ArrayLike, casting: str = "same_kind", where: ArrayLike = True) -> None: ...
def corrcoef(x: Any, y: Any = None, rowvar: Any = True, *, dtype: Any = None) -> Any: ...
def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> Array: ...
def count_nonzero(a: ArrayLike, axis: ShapeLike | None = None, *, keepdims: bool = False) -> Array: ...
def cov(
    m: Any,
    y: Any = None,
    rowvar: Any = True,
    bias: Any = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any: ...
def cross(a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Array: ...
def cumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: Output | None = None
) -> Array: ...
def cumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: Output | None = None
) -> Array: ...
def cumulative_prod(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: Any = False
) -> Any: ...
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: Output | None = None,
    include_initial: bool = False,
) -> Array: ...
def delete(arr: ArrayLike, obj: Any, axis: int | None = None) -> Array: ...
def diag(v: ArrayLike, k: int = 0) -> Array: ...
def diag_indices_from(arr: Any) -> Any: ...
def diagflat(v: Any, k: Any = 0) -> Any: ...
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array: ...
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Array: ...
def digitize(x: ArrayLike, bins: ArrayLike | str, right: bool = False) -> Array: ...
def dot(a: ArrayLike, b: Any, out: Output | None = None) -> Array: ...
def dsplit(ary: Any, indices_or_sections: Any) -> Any: ...
def dstack(tup: Sequence[ArrayLike]) -> Array: ...
def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array: ...
def einsum(subscripts: str, *operands: Any, out: Output | None = None, **options: Any) -> Array: ...
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: Any = False) -> Any: ...
def empty(
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    device: Any = None,
    like: object = None,
) -> Array: ...
def empty_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    subok: bool = True,
    shape: ShapeLike | None = None,
    *,
    device: Device | str | None = None,
) -> Array: ...
def expand_dims(a: ArrayLike, axis: ShapeLike) -> Array: ...
def extract(condition: ArrayLike, arr: ArrayLike) -> Array: ...
def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: DTypeLike = ...,
    order: str = "C",
    *,
    device: Any = None,
    like: object = None,
) -> Array: ...
def fill_diagonal(a: Any, val: Any, wrap: Any = False) -> Any: ...
def fix(x: Any, out: Any = None) -> Any: ...
def flatnonzero(a: ArrayLike) -> Array: ...
def flip(m: ArrayLike, axis: ShapeLike | None = None) -> Array: ...
def fliplr(m: ArrayLike) -> Array: ...
def flipud(m: ArrayLike) -> Array: ...
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array: ...
def fromfunction(function: Any, shape: Sequence[int], *, dtype: DTypeLike = ..., **options: Any) -> Array: ...
def full(
    shape: ShapeLike,
    fill_value: Any,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    device: Any = None,
    like: object = None,
) -> Array: ...
def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    subok: bool = True,
    shape: ShapeLike | None = None,
    *,
    device: Device | str | None = None,
) -> Array: ...
def gradient(f: Any, *varargs: Any, axis: int | None = None, edge_order: int = 1) -> Array: ...
def histogram(
    a: Any, bins: ArrayLike | str = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> Any: ...
def histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any: ...
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any: ...
def histogramdd(sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any: ...
def hsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[Array]: ...
def hstack(tup: Sequence[ArrayLike], *, dtype: DTypeLike | None = None, casting: str = "same_kind") -> Array: ...
def i0(x: Any) -> Any: ...
def identity(n: int, dtype: DTypeLike | None = None, *, like: object = None) -> Array: ...
def imag(val: ArrayLike) -> Array: ...
def indices(dimensions: Sequence[int], dtype: DTypeLike = ..., sparse: bool = False) -> Array: ...
def inner(a: ArrayLike, b: Any) -> Array: ...
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any: ...
def interp(
    x: Any, xp: ArrayLike, fp: ArrayLike, left: Any = None, right: Any = None, period: float | None = None
) -> Array: ...
def intersect1d(ar1: Any, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False) -> Any: ...
def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array: ...
def iscomplex(x: Any) -> Any: ...
def iscomplexobj(x: Any) -> Any: ...
def isfortran(a: Any) -> bool: ...
def isin(
    element: Any,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Array: ...
def isneginf(x: Any, out: Any = None) -> Any: ...
def isposinf(x: Any, out: Any = None) -> Any: ...
def isreal(x: Any) -> Any: ...
def isrealobj(x: Any) -> Any: ...
def isscalar(element: Any) -> bool: ...
def iterable(y: Any) -> bool: ...
def ix_(*args: Any) -> Any: ...
def kron(a: ArrayLike, b: ArrayLike) -> Array: ...
def lexsort(keys: Any, axis: int = -1) -> Array: ...
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Array: ...
def matmul(a: ArrayLike, b: ArrayLike, /, out: Output | None = None, **options: Any) -> Array: ...
def matrix_transpose(x: ArrayLike, /) -> Array: ...
def max(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    out: Output | None = None,
    keepdims: bool = False,
    initial: complex | None = None,
    where: ArrayLike = True,
) -> Array: ...
def may_share_memory(a: ArrayLike, b: ArrayLike, /, max_work: Any = None) -> bool: ...
def mean(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    out: Output | None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Array: ...
def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False
) -> Array: ...
def meshgrid(*vectors: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Array, ...]: ...
def min(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    out: Output | None = None,
    keepdims: bool = False,
    initial: complex | None = None,
    where: ArrayLike = True,
) -> Array: ...
def min_scalar_type(a: ArrayLike, /) -> np.dtype: ...
def mintypecode(typechars: Any, typeset: Any = "GDFgdf", default: Any = "d") -> Any: ...
def moveaxis(a: ArrayLike, source: ShapeLike, destination: ShapeLike) -> Array: ...
def nan_to_num(x: ArrayLike, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Array: ...
def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = ...) -> Any: ...
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = ...) -> Any: ...
def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: Output | None = None
) -> Array: ...
def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: Output | None = None
) -> Array: ...
def nanmax(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    out: Output | None = None,
    keepdims: bool = False,
    initial: complex | None = None,
    where: ArrayLike = True,
) -> Array: ...
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = ..., *, where: Any = ...
) -> Array: ...
def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False
) -> Array: ...
def nanmin(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    out: Output | None = None,
    keepdims: bool = False,
    initial: complex | None = None,
    where: ArrayLike = True,
) -> Array: ...
def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Array: ...
def nanprod(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    out: Output | None = None,
    keepdims: bool = False,
    initial: complex | None = None,
    where: ArrayLike = True,
) -> Array: ...
def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Array: ...
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = ...,
    *,
    where: Any = ...,
    mean: Any = ...,
    correction: Any = ...,
) -> Array: ...
def nansum(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    out: Output | None = None,
    keepdims: bool = False,
    initial: complex | None = None,
    where: ArrayLike = True,
) -> Array: ...
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = ...,
    *,
    where: Any = ...,
    mean: Any = ...,
    correction: Any = ...,
) -> Array: ...
def ndim(a: ArrayLike) -> int: ...
def nonzero(a: Any) -> tuple[Array, ...]: ...
def ones(
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    device: Device | str | None = None,
    like: object = None,
) -> Array: ...
def ones_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    subok: bool = True,
    shape: ShapeLike | None = None,
    *,
    device: Device | str | None = None,
) -> Array: ...
def outer(a: ArrayLike, b: ArrayLike, out: Output | None = None) -> Array: ...
def pad(array: Any, pad_width: ArrayLike, mode: Any = "constant", **options: Any) -> Array: ...
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: str | None = None) -> Array: ...
def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Array: ...
def permute_dims(a: ArrayLike, axes: ShapeLike | None = None) -> Array: ...
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any: ...
def place(arr: Array, mask: ArrayLike, vals: ArrayLike) -> None: ...
def polyadd(a1: Any, a2: Any) -> Any: ...
def polyder(p: Any, m: Any = 1) -> Any: ...
def polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: Any = False, w: Any = None, cov: Any = False) -> Any: ...
def polymul(a1: Any, a2: Any) -> Any: ...
def polysub(a1: Any, a2: Any) -> Any: ...
def polyval(p: Any, x: Any) -> Array: ...
def prod(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    out: Output | None = None,
    keepdims: bool = False,
    initial: complex | None = None,
    where: ArrayLike = True,
) -> Array: ...
def ptp(a: ArrayLike, axis: ShapeLike | None = None, out: Output | None = None, keepdims: bool = False) -> Array: ...
def put(a: Any, ind: Any, v: Any, mode: Any = "raise") -> Any: ...
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None = -1) -> None: ...
def putmask(a: Array, mask: ArrayLike, values: ArrayLike) -> None: ...
def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = False,
    *,
    weights: Any = None,
) -> Array: ...
def ravel(a: ArrayLike, order: str = "C") -> Array: ...
def ravel_multi_index(multi_index: Any, dims: ShapeLike, mode: str = "raise", order: str = "C") -> Array: ...
def real(val: ArrayLike) -> Array: ...
def real_if_close(a: Any, tol: Any = 100) -> Any: ...
def repeat(a: ArrayLike, repeats: ArrayLike, axis: int | None = None) -> Array: ...
def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Any: ...
def reshape(
    a: ArrayLike,
    /,
    shape: ShapeLike | None = None,
    order: str = "C",
    *,
    newshape: ShapeLike | None = None,
    copy: bool | None = None,
) -> Array: ...
def resize(a: Any, new_shape: Any) -> Any: ...
def result_type(*arrays_and_dtypes: Any) -> Any: ...
def roll(a: ArrayLike, shift: Any, axis: ShapeLike | None = None) -> Array: ...
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array: ...
def rot90(m: ArrayLike, k: int = 1, axes: Any = ...) -> Array: ...
def round(a: Any, decimals: int = 0, out: Any = None) -> Array: ...
def row_stack(tup: Sequence[ArrayLike], *, dtype: DTypeLike | None = None, casting: str = "same_kind") -> Array: ...
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Array: ...
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Array: ...
def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array: ...
def setxor1d(ar1: Any, ar2: ArrayLike, assume_unique: bool = False) -> Array: ...
def shape(a: ArrayLike) -> tuple[int, ...]: ...
def shares_memory(a: ArrayLike, b: ArrayLike, /, max_work: Any = None) -> bool: ...
def size(a: ArrayLike, axis: Any = None) -> int: ...
def sort(
    a: ArrayLike,
    axis: int = -1,
    kind: str | None = None,
    order: str | None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> Array: ...
def sort_complex(a: Any) -> Any: ...
def split(ary: ArrayLike, indices_or_sections: ArrayLike, axis: int = 0) -> list[Array]: ...
def squeeze(a: ArrayLike, axis: ShapeLike | None = None) -> Array: ...
def stack(
    arrays: Sequence[ArrayLike],
    axis: int = 0,
    out: Output | None = None,
    *,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> Array: ...
def std(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    out: Output | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: Any = None,
    correction: float | None = None,
) -> Array: ...
def sum(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    out: Output | None = None,
    keepdims: bool = False,
    initial: complex | None = None,
    where: ArrayLike = True,
) -> Array: ...
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array: ...
def take(
    a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: Output | None = None, mode: str = "raise"
) -> Array: ...
def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Array: ...
def tensordot(a: ArrayLike, b: Any, axes: Any = 2) -> Array: ...
def tile(A: Any, reps: Any) -> Array: ...
def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: Output | None = None,
) -> Array: ...
def transpose(a: ArrayLike, axes: ShapeLike | None = None) -> Array: ...
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array: ...
def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = ..., *, like: object = None) -> Array: ...
def tril(m: ArrayLike, k: int = 0) -> Array: ...
def tril_indices_from(arr: Any, k: Any = 0) -> Any: ...
def trim_zeros(filt: Any, trim: Any = "fb", axis: Any = None) -> Any: ...
def triu(m: ArrayLike, k: int = 0) -> Array: ...
def triu_indices_from(arr: Any, k: Any = 0) -> Any: ...
def union1d(ar1: ArrayLike, ar2: ArrayLike) -> Array: ...
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: ShapeLike | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any: ...
def unique_all(x: ArrayLike) -> Any: ...
def unique_counts(x: ArrayLike) -> Any: ...
def unique_inverse(x: ArrayLike) -> Any: ...
def unique_values(x: ArrayLike) -> Array: ...
def unravel_index(indices: ArrayLike, shape: ShapeLike, order: str = "C") -> Array: ...
def unstack(x: Any, /, *, axis: Any = 0) -> Any: ...
def unwrap(p: Any, discont: Any = None, axis: Any = -1, *, period: Any = 6.283185307179586) -> Any: ...
def vander(x: Any, N: Any = None, increasing: Any = False) -> Any: ...
def var(
    a: ArrayLike,
    axis: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    out: Output | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: Any = None,
    correction: float | None = None,
) -> Array: ...
def vdot(a: ArrayLike, b: ArrayLike) -> Array: ...
def vsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[Array]: ...
def vstack(tup: Sequence[ArrayLike], *, dtype: DTypeLike | None = None, casting: str = "same_kind") -> Array: ...
@overload
def where(condition: ArrayLike, /) -> tuple[Array, ...]: ...
@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> Array: ...
def zeros(
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    device: Device | str | None = None,
    like: object = None,
) -> Array: ...
def zeros_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    subok: bool = True,
    shape: ShapeLike | None = None,
    *,
    device: Device | str | None = None,
) -> Array: ...
