"""A generator of the page that lists where each NumPy function runs. It calls the functions and listens to launches.

``python -m tests.dsl.coverage`` writes `docs/functions.md`; test_coverage.py checks that the page is current.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import weft as wf
from weft.dsl.functions.libraries import TABLE, describe_libraries
from weft.dsl.script.numpy_face import submodule
from weft.runtime import LaunchNote, Listening, override

FILE = Path(__file__).parents[2] / "docs" / "functions.md"
MODULES = ("numpy", "numpy.linalg", "numpy.fft")
DEVICES = {"GPU": "simt", "CPU": "cpu"}

HEAD = """# Where NumPy's functions run

This page was generated with NumPy {version} by calling each function on the CPU and on the `simt` device, which uses the schedules of a GPU. Each
function was called with float64 arrays if it accepts float64 arrays, and with arrays of another dtype otherwise. With other dtypes or
options, a function may run on the host instead of on the GPU. If a function with arguments on a GPU runs on the host, weft issues a
`weft.HostFallbackWarning`. The last table lists the functions that are computed by libraries.

| entry | meaning |
| --- | --- |
| fused | weft records the function, and fuses it into kernels together with other operations |
| view | the function does not read elements; it returns a view, or a property of the array such as its dtype or shape |
| library | a library computes the function: BLAS or cuBLAS for products, cuFFT or cuSOLVER on a GPU, or NumPy on all threads of a CPU |
| host | NumPy computes the function immediately, on the host; arrays on a GPU are copied to the host first |
| no arrays | the function does not accept weft arrays; examples are functions for text, dates, files and printing |

"""

LIBRARIES = """## Libraries of linear algebra and Fourier transforms

The CUDA column of the table applies if nvmath-python is installed (`pip install 'weft[nvmath]'`). Without nvmath-python, and on `simt`,
NumPy computes the functions marked cuFFT or cuSOLVER on the host. Most tests replace cuFFT and cuSOLVER with stand-ins. To test the real
libraries on a GPU, run `pytest -m gpu tests/gpu/test_libraries.py`.

"""

_A = np.arange(1.0, 37.0).reshape(6, 6) + np.eye(6) * 40
_V = np.arange(1.0, 7.0)
_I = np.array([3, 1, 2, 0, 2, 1])
_C: list[tuple[Any, ...]] = [
    (_A,), (_A, _A), (_V,), (_V, _V), (_I,), (_I, _I), (_A > 50,), (_V, 2), (_I, 2), (_A > 50, _A, _A), ([_A, _A],), (_A, 2),
    (_A, (6, 6)), (_A, 0), (_A, 0, 1), (_I, _I, _I), (_A[None], 2), (_V, _V, _V), (_A, 1, 2.0), (_A, -50.0, 50.0), (_V, _V, 1),
    (_I % 3, [_V, _V, _V]), (_I, (4, 4)), ((_I, _I), (6, 6)), (_V, [0, 1], [7.0, 8.0]), (_V, _V > 2, [1.0]), (3,), (3, 3),
    (_A, [[0]], 1), (_A, [[0]], 1.0, 1), ("ij,jk", _A, _A), ([_V > 2], [_V]), (_V, [_V > 2], [1.0, 0.0]), (np.sum, 0, _A), (np.sum, _A, [0]),
    (lambda i, j: i + j, (3, 3)), ((6, 6),), ((6, 6), 2.0), (0, 1), (_A * 1j,), (_A.astype("u1"),),
]  # fmt: skip
# Calls of functions for which the arguments above are unsuitable.
CALLS: dict[str, tuple[Any, ...]] = {
    "numpy.astype": (_A, np.float32), "numpy.where": (_A > 50, _A, _A), "numpy.take": (_V, _I), "numpy.fill_diagonal": (_A, 1.0),
    "numpy.copyto": (_A, _A[::-1]), "numpy.select": ([_V > 2], [_V]), "numpy.choose": (_I % 3, [_V, _V, _V]), "numpy.apply_over_axes": (np.sum, _A, [0]),
    "numpy.einsum": ("ij,jk", _A, _A), "numpy.einsum_path": ("ij,jk", _A, _A), "numpy.block": ([_A, _A],), "numpy.put": (_V, [0, 1], [7.0, 8.0]),
    "numpy.piecewise": (_V, [_V > 2], [1.0, 0.0]), "numpy.unravel_index": (_I, (4, 4)), "numpy.ravel_multi_index": ((_I, _I), (6, 6)),
    "numpy.insert": (_V, 1, 2.0), "numpy.delete": (_V, 1), "numpy.roll": (_A, 1), "numpy.clip": (_A, 2.0, 50.0), "numpy.place": (_V, _V > 2, [1.0]),
    "numpy.putmask": (_V, _V > 2, [1.0]), "numpy.pad": (_A, 1), "numpy.can_cast": (_A, np.float32), "numpy.bincount": (_I,), "numpy.from_dlpack": (_A,),
    "numpy.broadcast_shapes": ((3, 1), (1, 4)), "numpy.linspace": (0.0, 1.0, 50), "numpy.logspace": (0.0, 1.0, 50), "numpy.geomspace": (1.0, 2.0, 50),
    "numpy.convolve": (_V, _V[:3]), "numpy.correlate": (_V, _V[:3], "full"), "numpy.trim_zeros": (_V,), "numpy.polyval": ([1.0, 2.0], _V),
    "numpy.histogramdd": (_A[:, :2], 3), "numpy.polyfit": (_V, _V, 2), "numpy.poly": (_V,), "numpy.linalg.multi_dot": ([_A, _A, _A],), "numpy.unstack": (_A,),
}  # fmt: skip


# The reasons why NumPy computes functions of a GPU's arrays on the host.
REASONS: dict[str, str] = {
    "apply_along_axis": "calls a Python function for each row",
    "polydiv": "each coefficient depends on the previous coefficient",
    "roots": "computes the eigenvalues of a matrix, like `linalg.eigvals`",
}


# Functions that a library of the last table computes for others.
BY_LIBRARIES = frozenset({"polyfit"})
# Functions of text, files, dates, printing, matrices and NumPy's own state, which are not called.
NUMPYS = frozenset(
    """array2string array_repr array_str asmatrix bmat busday_count busday_offset datetime_as_string frombuffer fromfile fromregex
    fromstring genfromtxt info is_busday isnat load loadtxt printoptions save savetxt savez savez_compressed set_printoptions setbufsize seterr seterrcall
    show_config show_runtime""".split()
)


class _Heard:
    """A listener that keeps the names of launches."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def launch(self, device: Any, note: LaunchNote, start: Callable[[], None]) -> None:
        """Keep the name of a launch."""
        self.names.append(note.name)
        start()

    def built(self, note: Any) -> None:
        """Ignore a compilation."""


@contextmanager
def _heard() -> Iterator[_Heard]:
    listener = _Heard()
    Listening.add(listener)
    try:
        yield listener
    finally:
        Listening.remove(listener)


def public_functions(module: str) -> list[str]:
    """Return the names of a NumPy module's public functions."""
    numpys = import_module(module)
    found = [name for name in dir(numpys) if not name.startswith("_") and callable(getattr(numpys, name))]
    return [name for name in found if not isinstance(getattr(numpys, name), type) and name != "test"]


def _suits(function: Any, arguments: tuple[Any, ...]) -> bool:
    """Return whether NumPy's function accepts arguments, and reads arrays among them."""
    try:
        function(*_copied(arguments, np.array))
    except Exception:
        return False
    return True


def _copied(value: Any, make: Callable[[Any], Any]) -> Any:
    if isinstance(value, np.ndarray):
        return make(value)
    return type(value)(_copied(each, make) for each in value) if type(value) in (tuple, list) else value


def _arrays(value: Any) -> list[wf.Array]:
    if isinstance(value, (tuple, list)):
        return [each for item in value for each in _arrays(item)]
    return [value] if isinstance(value, wf.Array) else []


def arguments_of(module: str, name: str) -> tuple[Any, ...] | None:
    """Return arguments for a function, with arrays among them if it takes some, or None if it takes none."""
    if name in NUMPYS:
        return None
    known = CALLS.get(f"{module}.{name}")
    if known is not None:
        return known
    function = getattr(import_module(module), name)
    given = [each for each in _C if _suits(function, each)]
    return next(iter([each for each in given if _has_array(each)] or given), None)


def _has_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (isinstance(value, (tuple, list)) and any(map(_has_array, value)))


def where_a_gpu_runs(module: str, name: str, arguments: tuple[Any, ...]) -> str:
    """Return the page's word for the location at which a function runs, on a GPU that has NVIDIA's libraries."""
    word = where_it_runs(module, name, arguments, DEVICES["GPU"])
    service = TABLE.get(module, {}).get(name)
    if word != "host":
        return word
    if (service is not None and service.cuda != "host") or name in BY_LIBRARIES:
        return "library"
    return f"host: {REASONS[name] if service is None else service.reason}"


def where_it_runs(module: str, name: str, arguments: tuple[Any, ...], device: str) -> str:
    """Call a function on a device, and return the page's word for the location at which it ran."""
    wf.set_default_device(device)
    try:
        with override(immediate=0, interpret="never", host_fallback="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = _copied(arguments, lambda values: wf.asarray(values.copy()))
            wf.evaluate(*_arrays(given))
            with _heard() as heard:
                found = getattr(submodule(module), name)(*given)
                wf.evaluate(*_arrays(found), *_arrays(given))
            names = heard.names
    finally:
        wf.set_default_device(None)
    if any("on the host" in each for each in names):
        return "host"
    # (on a GPU without libraries, NumPy computes what a library would)
    if device != "cpu" and any(
        each.startswith("call ") and each[5:] not in ("matmul", "sort", "argsort") for each in names
    ):
        return "host"
    if any(each.startswith("call ") and not ("sort" in each and device != "cpu") for each in names):
        return "library"
    return "fused" if names else "view"


def rows(module: str, names: list[str]) -> Iterator[str]:
    """Return the rows of a module's table."""
    for name in names:
        arguments = arguments_of(module, name)
        if arguments is None or not (_has_array(arguments) or name in wf.dsl.OWN):  # type: ignore[attr-defined]
            yield f"| `{name}` | no arrays | no arrays |"
            continue
        there, here = where_a_gpu_runs(module, name, arguments), where_it_runs(module, name, arguments, DEVICES["CPU"])
        yield f"| `{name}` | {there} | {here} |"


def version() -> str:
    """Return the version of NumPy, whose functions are listed, without the last number."""
    return ".".join(np.__version__.split(".")[:2])


def written() -> str:
    """Return the text of the page."""
    text = HEAD.format(version=version())
    for module in MODULES:
        body = "\n".join(rows(module, public_functions(module)))
        text += f"## {module}\n\n| function | {' | '.join(DEVICES)} |\n| --- | --- | --- |\n{body}\n\n"
    return text + LIBRARIES + describe_libraries()


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
