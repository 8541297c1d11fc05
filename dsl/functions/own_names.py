"""Table that maps the names of NumPy's functions to weft's implementations.

A function's module is imported on first use.

In: a name, or a NumPy function. Out: weft's function. Invariant: a name that is not in this table refers to NumPy's
function.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping
from functools import cache, wraps
from importlib import import_module
from math import prod
from typing import Any

from weft.dsl.arrays.array import Array, adopt_new
from weft.dsl.arrays.call_sites import on_operands_device
from weft.dsl.arrays.foreign import has_foreign
from weft.dsl.arrays.on_host import WRITERS, call_numpy, keep_byte_order, or_numpy
from weft.dsl.arrays.ufunc import UFUNCS
from weft.dsl.arrays.validation import NUMPY_VERSION
from weft.dsl.immediate.at_call import COMMON, NUMBERS, PLAIN, at_once, from_numpy_result
from weft.dsl.immediate.host_values import values_of
from weft.dsl.immediate.index_at_call import write_at_once
from weft.runtime import IMMEDIATE, default_device, limit_on


def _made_by(**makers: str) -> str:
    """Return table entries for the functions that weft makes from NumPy's functions.

    A maker is a function, in the weft module of the entries, that converts NumPy's function to weft's. Each keyword
    is the name of a maker, and its value lists the functions that the maker converts.
    """
    return " ".join(f"{maker}:{name}" for maker, names in makers.items() for name in names.split())


# Names of NumPy's functions, by the weft module that implements them. ``new=old``: the module's own name is `old`.
_MODULES = {
    "functions.creation": "asarray array full zeros ones empty zeros_like ones_like empty_like full_like arange eye identity "
    "copy ascontiguousarray asanyarray=asarray asfortranarray",
    "functions.triangles": "tri tril triu",
    "functions.manipulation": "reshape transpose permute_dims=transpose swapaxes moveaxis squeeze expand_dims broadcast_to "
    "broadcast_arrays ravel flip rot90 repeat tile diagonal trace",
    "functions.padding": "diag pad",
    "functions.grids": "indices linspace",
    "functions.joining": "concatenate concat=concatenate stack array_split split roll"
    + (" row_stack" if NUMPY_VERSION < (2, 5) else ""),
    "functions.reductions": "sum max min all any count_nonzero mean var std argmax argmin cumsum cumprod ptp "
    "average prod=prod_ amax=max amin=min",
    "functions.linear": "dot einsum inner kron matmul outer tensordot vdot",
    "arrays.standard": "__array_api_version__=API_VERSION __array_namespace_info__=NamespaceInfo from_dlpack",
    "arrays.indexing": "nonzero",
    "functions.histograms": "bincount digitize histogram histogram2d searchsorted",
    "functions.sorting": "argpartition argsort lexsort partition sort",
    "functions.quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
    "functions.sets": "isin setdiff1d unique",
    "functions.along_axis": "put_along_axis take_along_axis",
    "functions.selection": "append where clip take compress delete choose extract isclose nan_to_num place putmask select",
    "functions.nan_statistics": "nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum nanvar",
    "functions.calculus": "cross cumulative_sum ediff1d gradient interp",
    "functions.signals": "convolve correlate ravel_multi_index unravel_index",
    "arrays.methods": "round=round_ around=round_",
    "functions.attribute_functions": "astype copyto",
    "functions.introspection": "broadcast isscalar may_share_memory min_scalar_type shares_memory size "
    + _made_by(
        of_stand_ins="can_cast common_type diag_indices_from einsum_path iscomplexobj isrealobj mintypecode result_type "
        "tril_indices_from triu_indices_from"
    ),
    "functions.several_outputs": "divmod=divmod_ fix frexp matvec modf spacing vecdot vecmat",
    "functions.bits": "packbits unpackbits",
    "functions.compositions": _made_by(
        compose="allclose apply_over_axes argwhere array_equal array_equiv asarray_chkfinite atleast_1d atleast_2d "
        "atleast_3d block cumulative_prod diagflat dsplit fill_diagonal flatnonzero fliplr flipud "
        "fromfunction histogramdd hsplit imag iscomplex isfortran isneginf isposinf isreal iterable ix_ "
        "matrix_transpose meshgrid ndim piecewise polyadd polyder polyfit polymul polysub polyval put real real_if_close "
        "require resize rollaxis shape trim_zeros unique_all unique_counts unique_inverse unique_values unstack unwrap vsplit",
        compose_on_gpu="corrcoef cov histogram_bin_edges i0 insert intersect1d nanargmax nanargmin poly polyint setxor1d "
        "sort_complex union1d vander",
        compose_index="c_ mgrid ogrid r_",
        compose_memoized="angle diff trapezoid",
        compose_stack="column_stack dstack hstack vstack",
    ),
    "script.numpy_face": "ndarray",
}


# Names of the functions in NumPy's submodules, by the weft module that implements them.
_SUBMODULES = {
    "numpy.linalg": {
        "functions.compositions": _made_by(
            compose="cross diagonal matmul matrix_norm matrix_power matrix_transpose multi_dot norm outer svdvals tensordot "
            "vecdot vector_norm",
            compose_on_gpu="matrix_rank tensorinv",
        ),
        "functions.manipulation": "trace=linalg_trace",
        "functions.decompositions": "cholesky cond det eigh eigvalsh inv lstsq pinv qr slogdet solve svd tensorsolve",
    },
    "numpy.fft": {
        "functions.fourier": "fft ifft irfft rfft",
        "functions.compositions": _made_by(
            compose="fft2 fftn hfft ifft2 ifftn ihfft irfft2 irfftn rfft2 rfftn", compose_on_gpu="fftshift ifftshift"
        ),
        "functions.creation": "fftfreq rfftfreq",
    },
    "numpy.lib.stride_tricks": {"functions.manipulation": "as_strided broadcast_to sliding_window_view"},
}


# Functions that create, move or inspect arrays, or that consist of ops whose results are not bit-identical to NumPy's.
_NEVER_AT_ONCE = {name.rpartition(":")[2] for name in _MODULES["functions.introspection"].split()}.union(
    "angle array asarray asanyarray ascontiguousarray asfortranarray astype arange copy empty empty_like eye "
    "fromfunction full full_like i0 identity imag indices isfortran iterable linspace nan_to_num ndim ones "
    "ones_like real shape tri zeros zeros_like".split()
)


# NumPy's ufuncs that are implemented by functions in this folder instead of ops.
COMPOSED = frozenset({"divmod", "frexp", "matmul", "matvec", "modf", "spacing", "vecdot", "vecmat"})
# Functions that convert objects of other libraries, which NumPy's functions would copy.
_CONVERTERS = frozenset({"from_dlpack"})
# Functions that create arrays from numbers.
_MADE = frozenset({"arange", "empty", "full", "ones", "zeros"})
# Functions that create arrays like another array.
_MADE_LIKE = frozenset({"empty_like", "full_like", "ones_like", "zeros_like"})
# Functions that read the dtypes, shapes or strides of arrays, and return neither arrays nor anything that depends on
# whether memory is shared.
_DESCRIBING = frozenset("iscomplexobj isfortran isrealobj iterable ndim shape size".split())


class OwnNames(Mapping[str, Any]):
    """A mapping from names in a NumPy module to weft's objects of these names."""

    def __init__(self, module: str, tables: Mapping[str, str], ops: Mapping[str, Any]) -> None:
        self._numpys = module
        self._found: dict[str, Any] = dict(ops)
        self.replaced: dict[str, Any] = {}  # original functions, by name, that native or other functions have replaced
        self.at_once: list[str] = []  # loaded functions that call NumPy's for small arguments
        # makers of native code: for memoized recording, and for calls to NumPy's functions on small arrays
        self.recorder: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
        self.native: Callable[[OwnNames, str, Callable[..., Any]], Callable[..., Any]] | None = None
        self._origin: dict[str, tuple[str, str]] = {}
        for module, names in tables.items():
            for entry in names.split():
                name, _, old = entry.partition("=")
                self._origin[name.rpartition(":")[2]] = module, old or name
        for name in self._origin:  # (matmul is an op, too)
            self._found.pop(name, None)

    def __getitem__(self, name: str) -> Any:
        found = self._found.get(name)
        if found is None:
            module, old = self._origin[name]
            found = getattr(import_module(f"weft.dsl.{module}"), old.partition(":")[0])
            theirs = self.numpys(name)
            if ":" in old:
                found = found(theirs)
            if isinstance(found, types.FunctionType) and theirs is not None and name not in _CONVERTERS:
                found = _or_numpy(found, theirs)
                if found.__name__ not in self._origin:  # (the name within weft differs)
                    found.__name__ = name
                if self._numpys != "numpy.lib.stride_tricks":
                    found = self._for_small_or_large(name, found, theirs)
            if isinstance(found, types.FunctionType):  # (shown by IPython and `help`, and stored in pickles)
                found.__module__, found.__qualname__ = self.module, name
            self._found[name] = found
        return found

    def _for_small_or_large(
        self, name: str, found: Callable[..., Any], theirs: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Wrap weft's function `found`, so that NumPy's function `theirs` handles small arrays.

        If the function only inspects arrays, NumPy's function handles all arrays in host memory. Some functions, such
        as `asarray`, are returned unchanged.
        """
        if name in _MADE:
            found = _made_at_once(found, theirs, name)
        if name in _DESCRIBING:
            found = _described(found, theirs)
        if name in _MADE_LIKE:
            found = _made_like_at_once(found, theirs)
        if name in WRITERS or name not in _NEVER_AT_ONCE:
            found = write_at_once(found, theirs) if name in WRITERS else at_once(found, theirs, name)
            self.at_once.append(name)
            python = found
            if self.recorder is not None:
                found = self.recorder(found)
            if self.native is not None:
                found = self.native(self, name, found)
            if found is not python:
                self.replaced[name] = python
        return found

    @property
    def module(self) -> str:
        """The name of weft's module that corresponds to the NumPy module, such as ``weft.linalg``."""
        return self._numpys.replace("numpy", "weft", 1)

    def numpys(self, name: str) -> Any:
        """Return NumPy's object with this name, or None if the installed NumPy has no such object."""
        return getattr(import_module(self._numpys), name, None)

    def replace(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        """Replace functions in this mapping by equivalent ones, for example native ones. Also replace the old functions in loaded modules and scripts."""
        old = {name: self._found[name] for name in functions}
        self._found.update(functions)
        self.replaced = old | self.replaced
        for module in self._modules():
            for name, function in functions.items():
                if vars(module).get(name) is old[name]:
                    setattr(module, name, function)
        scripts = sys.modules.get("weft.dsl.script.script_function")
        if scripts is not None:
            scripts.replace_own({old[name]: function for name, function in functions.items()})

    def _modules(self) -> list[types.ModuleType]:
        """Return the loaded modules that have this mapping's functions as attributes. They must be changed if a function is replaced."""
        names = ["weft", "weft.dsl"] if self._numpys == "numpy" else []
        faces = sys.modules.get("weft.dsl.script.numpy_face")
        return [*filter(None, map(sys.modules.get, names)), *([faces.submodule(self._numpys)] if faces else ())]

    def __contains__(self, name: object) -> bool:
        return name in self._origin or name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter({**self._origin, **self._found})

    def __len__(self) -> int:
        return len({**self._origin, **self._found})


def _or_numpy(own: Callable[..., Any], numpys: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap weft's function `own`, so that NumPy's function executes the calls that weft does not support.

    These are calls with arrays of other libraries or with unsupported dtypes.
    """
    supported = or_numpy(own, numpys)

    @wraps(own)
    def called(*arguments: Any, **options: Any) -> Any:
        if has_foreign(arguments) or (options and has_foreign(options.values())):
            return call_numpy(numpys, arguments, options, keep_byte_order)
        return supported(*arguments, **options)

    return on_operands_device(called, "" if own.__name__ in _ON_ANY_DEVICES else own.__name__)


# Functions that only describe their arguments, so that these may be on different devices.
_ON_ANY_DEVICES = frozenset("can_cast common_type einsum_path may_share_memory result_type shares_memory".split())


def _made_at_once(own: Callable[..., Any], numpys: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap weft's function `own`, such as `zeros`. If the new array is small, the wrapper calls NumPy's function."""

    @wraps(own)
    def called(*arguments: Any, **options: Any) -> Any:
        if arguments and len(arguments) <= 2 and not options:
            device = default_device()
            if device.small_on_host and 0 <= _length_of(name, *arguments) <= limit_on(device.name):
                made = numpys(*arguments)
                if (COMMON >> made.dtype.num) & 1:
                    return adopt_new(made, device)
        return own(*arguments, **options)

    return called


def _made_like_at_once(own: Callable[..., Any], numpys: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `own`, one of weft's functions such as `zeros_like`. If the new array is small, the wrapper calls NumPy's function instead."""

    count = 2 if own.__name__ == "full_like" else 1

    @wraps(own)
    def called(*arguments: Any, **options: Any) -> Any:
        if len(arguments) == count and not options and type(model := arguments[0]) is Array:
            values = values_of(model)
            if values is not None and 0 < values.size <= IMMEDIATE[0] and (COMMON >> values.dtype.num) & 1:
                filled = count == 1 or (type(arguments[1]) in NUMBERS and values.dtype.kind == "f")
                if filled and model.device.small_on_host:
                    return from_numpy_result(numpys(values, *arguments[1:]), model.device)
        return own(*arguments, **options)

    return called


def _described(own: Callable[..., Any], numpys: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a weft function such as `shape`. For arrays in host memory, the wrapper calls NumPy's function of the same name."""

    @wraps(own)
    def called(*arguments: Any, **options: Any) -> Any:
        first = values_of(arguments[0]) if arguments and type(arguments[0]) is Array else None
        if first is None or options or not PLAIN.issuperset(map(type, arguments[1:])):
            return own(*arguments, **options)
        return numpys(first, *arguments[1:])

    return called


def _length_of(name: str, first: Any, second: Any = 0) -> int:
    """Return an upper bound on the number of elements of a new array.

    Return a negative number for arguments with which NumPy's function should not be called.
    """
    if name == "arange":
        whole = type(first) is int and type(second) is int
        return first or -1 if whole and not second else second - first if whole else -1
    if name == "full" and type(second) not in NUMBERS:
        return -1
    if type(first) is int:
        return first
    return prod(first) if type(first) is tuple and all(type(n) is int and n >= 0 for n in first) else -1


OWN = OwnNames("numpy", _MODULES, UFUNCS)
OWN_IN: dict[str, OwnNames] = {
    "numpy": OWN,
    **{module: OwnNames(module, tables, {}) for module, tables in _SUBMODULES.items()},
}


@cache
def _origins() -> dict[Any, tuple[OwnNames, str]]:
    """For each NumPy function that weft implements, return the `OwnNames` table that contains it, and its name in that table."""
    found: dict[Any, tuple[OwnNames, str]] = {}
    for module, own in reversed(OWN_IN.items()):
        numpys = import_module(module)
        functions = {getattr(numpys, name, None): (own, name) for name in own if name != "ndarray"}
        found |= {function: origin for function, origin in functions.items() if callable(function)}
    return found


def find_own(function: Any) -> Any | None:
    """Return weft's implementation of a NumPy function, or None if there is none."""
    own, name = _origins().get(function, (None, ""))
    return None if own is None else own[name]
