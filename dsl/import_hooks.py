"""Import hooks that register weft arrays with packages such as dask, JAX and torch.

Some packages have tables of types that contain only NumPy's arrays, or compiled functions that accept only NumPy's
arrays. For each such module, a hook calls the function that registers weft's arrays: directly after the module's
import, or immediately if the module was loaded before weft. Invariant: a hook imports no package that the program does
not import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from weft.runtime import setting
from weft.runtime.lazy_names import lazy_names

_MULTIGRID = "air evolution_strength graph krylov linalg relaxation ruge_stuben smoothed_aggregation"
_MAHOTAS = "bbox center_of_mass convex convolve distance histogram interpolate labeled morph thin"
_FEATURES = "lbp surf texture zernike"
# The modules for which each function of `registrations` is called.
_MODULES = {
    "register_abstract_arrays": "jax._src.abstract_arrays",
    "register_backend": "einops._backends",
    "register_box": "autograd.numpy.numpy_boxes",
    "register_calls": "h5py._hl.dataset numba.stencils.stencil polars scipy.sparse._coo torch",
    "register_collate": "torch.utils.data._utils.collate",
    "register_constants": "numba.core.interpreter",
    "register_dispatcher": "numba.core.dispatcher",
    "register_factors": "scipy.sparse.linalg._dsolve._superlu",
    "register_functions": "pyarrow.lib scipy.linalg._fblas scipy.linalg._flapack scipy.spatial._distance_pybind "
    "scipy.spatial._distance_wrap skimage.transform._hough_transform",
    "register_namespace": "array_api_compat.common._helpers scipy._lib.array_api_compat.common._helpers "
    "sklearn.externals.array_api_compat.common._helpers",
    "register_opencv": "cv2",
    "register_replace": "bottleneck",
    "register_shards": "jax._src.interpreters.pxla",
    "register_vector_space": "autograd.numpy.numpy_vspaces",
}
_WAITING: dict[str, str | Callable[[ModuleType], None]] = {
    "dask.array": "register_chunks",
    **{f"mahotas._{name}": "register_functions" for name in _MAHOTAS.split()},
    **{f"mahotas.features._{name}": "register_functions" for name in _FEATURES.split()},
    **{f"pyamg.amg_core.{name}": "register_functions" for name in _MULTIGRID.split()},
    **{module: function for function, modules in _MODULES.items() for module in modules.split()},
}
_find_lazy = lazy_names(
    globals(), {"weft.dsl.dask_chunks": "register_chunks", "weft.dsl.registrations": " ".join(_MODULES)}
)


def when_imported(name: str, function: Callable[[ModuleType], None]) -> None:
    """Call `function` with the module `name`: immediately if the module is loaded, otherwise after its import."""
    if name in sys.modules:
        function(sys.modules[name])
    else:
        _WAITING[name] = function


def _register(function: str | Callable[[ModuleType], None], module: ModuleType) -> None:
    (_find_lazy(function) if isinstance(function, str) else function)(module)


class _RegisteringLoader:
    """Module loader that registers weft arrays with a package after loading one of its modules.

    For one of weft's own modules, the loader instead hides the module's frames in pytest's tracebacks.
    """

    def __init__(self, loader: Any, function: str | Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._function = function  # empty for weft's own modules

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self._loader.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        if not self._function:
            _hide_frames(module)
        self._loader.exec_module(module)
        if self._function and _WAITING.pop(module.__name__, None) is not None:
            _register(self._function, module)


class _Finder:
    """Import finder for the modules in `_WAITING` and, under pytest, for weft's own modules."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        own = fullname.startswith("weft.") and "_pytest" in sys.modules
        # (keep the entry: a program may only search for a module, or its import may fail)
        function = "" if own else _WAITING.get(fullname)
        spec = PathFinder.find_spec(fullname, path, target) if function is not None else None
        if spec is not None and spec.loader is not None and function is not None:
            spec.loader = _RegisteringLoader(spec.loader, function)  # type: ignore[assignment]
        return spec


def _hide_frames(module: ModuleType) -> None:
    """Hide a module's frames in pytest's tracebacks, unless the `strict` setting (``WEFT_STRICT=1``) is on."""
    module.__dict__["__tracebackhide__"] = lambda error: not setting("strict")


def install() -> None:
    """Register weft arrays with packages as they are loaded, and hide weft's frames in pytest's tracebacks."""
    if "_pytest" in sys.modules:
        for name in [name for name in sys.modules if name.startswith("weft.")]:
            _hide_frames(sys.modules[name])
    for name in [name for name in _WAITING if name in sys.modules]:
        _register(_WAITING.pop(name), sys.modules[name])
    sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]
