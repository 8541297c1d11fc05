"""Tests of library functions in compiled kernels.

On the CPU, they agree with plain Python. GPU kernels call libdevice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.dsl.kernel.exact import same
from weft import cuda
from weft.dsl.cuda.libdevice import FUNCTIONS
from weft.dsl.kernel.launch.dispatcher import kernel
from weft.dsl.kernel.library.library_functions import BF16, FP16, LibraryFunction
from weft.runtime import find_libdevice

# Maximum difference between vector and scalar versions of C library functions, in units in the last place.
UNITS = 16
# Near the zeros of these functions, errors are measured in units of the number 1.
AMPLITUDE = ("j0", "j1", "jn", "y0", "y1", "yn", "lgamma")
BATCH = 14
SAMPLES = 160


def signature(function: LibraryFunction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(d.name for d in function.arguments), tuple(d.name for d in function.results)


def batches() -> Iterator[tuple[str, ...]]:
    """Yield batches of up to `BATCH` names of functions with the same dtypes. One kernel tests a batch."""
    tables = {"": FUNCTIONS, "fp16.": FP16, "bf16.": BF16}
    groups: dict[Any, list[str]] = {}
    for prefix, table in tables.items():
        for name, function in sorted(table.items()):
            groups.setdefault(signature(function), []).append(prefix + name)
    for names in groups.values():
        for start in range(0, len(names), BATCH):
            yield tuple(names[start : start + BATCH])


def find(name: str) -> LibraryFunction:
    space, _, own = name.rpartition(".")
    return {"": FUNCTIONS, "fp16": FP16, "bf16": BF16}[space][own]


def samples(dtype: np.dtype, generator: np.random.Generator) -> np.ndarray:
    """Return numbers of a dtype, including special and extreme values."""
    if dtype.kind == "f":
        edges = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, 5e-324, 1e-310, 1e300, -1e300, 26, -27]
        edges += [2.0**31 - 1, 2.0**31, -(2.0**31) - 1, 2.0**63, 1e10, 0.1]
        spread = np.exp(generator.uniform(-30, 30, 60)) * generator.choice([-1, 1], 60)
        some = np.concatenate([edges, generator.standard_normal(60), spread])
    else:
        info = np.iinfo(dtype)
        some = np.concatenate(
            [
                np.array([0, 1, 2, 7, 31, 33, 255, 12345], dtype),
                np.array([info.min, info.max], dtype),
                generator.integers(info.min, info.max, 60, dtype=dtype),
                generator.integers(0, 9, 30).astype(dtype),
            ]
        )
    with np.errstate(all="ignore"):
        return generator.permutation(np.resize(some, SAMPLES).astype(dtype))


def make_kernel(functions: tuple[LibraryFunction, ...]) -> Any:
    """Return a kernel that calls all functions of a batch.

    Function number `k` writes its results to row `k` of each output array.
    """
    taken, given = len(functions[0].arguments), len(functions[0].results)
    if given == 2 and taken == 1:

        @kernel
        def run(x, first, second):  # type: ignore[no-untyped-def]
            i = cuda.grid(1)
            if i < x.size:
                for k, function in enumerate(functions):
                    first[k, i], second[k, i] = function(x[i])
    elif given == 2:

        @kernel
        def run(x, y, first, second):  # type: ignore[no-untyped-def]
            i = cuda.grid(1)
            if i < x.size:
                for k, function in enumerate(functions):
                    first[k, i], second[k, i] = function(x[i], y[i])
    elif taken == 1:

        @kernel
        def run(x, out):  # type: ignore[no-untyped-def]
            i = cuda.grid(1)
            if i < x.size:
                for k, function in enumerate(functions):
                    out[k, i] = function(x[i])
    elif taken == 2:

        @kernel
        def run(x, y, out):  # type: ignore[no-untyped-def]
            i = cuda.grid(1)
            if i < x.size:
                for k, function in enumerate(functions):
                    out[k, i] = function(x[i], y[i])
    elif taken == 3:

        @kernel
        def run(x, y, z, out):  # type: ignore[no-untyped-def]
            i = cuda.grid(1)
            if i < x.size:
                for k, function in enumerate(functions):
                    out[k, i] = function(x[i], y[i], z[i])
    else:

        @kernel
        def run(x, y, z, w, out):  # type: ignore[no-untyped-def]
            i = cuda.grid(1)
            if i < x.size:
                for k, function in enumerate(functions):
                    out[k, i] = function(x[i], y[i], z[i], w[i])

    return run


def close(name: str, found: Any, wanted: Any) -> bool:
    """Return whether results agree. Finite floats may differ by `UNITS` units in the last place.

    For functions in `AMPLITUDE`, the units are at least those of the number 1.
    """
    if same(found, wanted) or (found == 0 and wanted == 0):
        return True
    if found.dtype.kind != "f" or not (np.isfinite(found) and np.isfinite(wanted)):
        return False
    wide = np.float64 if found.dtype.itemsize < 8 else found.dtype.type
    size = max(abs(float(wanted)), 1.0) if name.rstrip("f") in AMPLITUDE else abs(wanted)
    return abs(wide(found) - wide(wanted)) <= UNITS * np.spacing(found.dtype.type(size))


EXACT = frozenset(
    name
    for name in FUNCTIONS
    if name[-3:] in ("_rn", "_rd", "_ru", "_rz")
    or not any(d.kind == "f" for d in FUNCTIONS[name].results)
    or name.rstrip("f")
    in "ceil copysign fabs fdim floor fma fmod frexp ldexp logb modf nearbyint nextafter remainder".split()
    or name.rstrip("f") in "remquo rint round saturate scalbn sqrt trunc hiloint2double longlong_as_double".split()
)


@pytest.mark.parametrize("names", list(batches()), ids=lambda names: names[0])
def test_compiled_functions_give_what_plain_python_gives(names: tuple[str, ...]) -> None:
    functions = tuple(find(name) for name in names)
    generator = np.random.default_rng(len(names))
    given = [samples(d, generator) for d in functions[0].arguments]
    if "jn" in names or "jnf" in names:
        given[0] %= 40
    outputs = [np.zeros((len(names), SAMPLES), d) for d in functions[0].results]
    make_kernel(functions)[2, 96](*given, *outputs)
    for k, (name, function) in enumerate(zip(names, functions, strict=True)):
        for i in range(SAMPLES):
            arguments = [column[i] for column in given]
            wanted = function(*arguments)
            for output, value in zip(outputs, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
                agree = same(output[k, i], value) if name in EXACT else close(name, output[k, i], value)
                assert agree, (name, arguments, output[k, i], value)


@pytest.mark.skipif(find_libdevice() is None, reason="libdevice is not here")
@pytest.mark.parametrize(
    "name", ["erfinv", "dadd_rd", "frexp", "sincospif", "remquo", "byte_perm", "jn", "ull2double_rz"]
)
def test_a_gpu_gets_libdevices_own_function(name: str) -> None:
    from weft.dsl.kernel.language.types import from_dtype

    function = FUNCTIONS[name]
    taken, given = len(function.arguments), len(function.results)
    types = tuple(from_dtype(d)[:] for d in (*function.results, *function.arguments))
    if given == 2 and taken == 1:

        def run(r, s, x):  # type: ignore[no-untyped-def]
            r[0], s[0] = function(x[0])
    elif given == 2:

        def run(r, s, x, y):  # type: ignore[no-untyped-def]
            r[0], s[0] = function(x[0], y[0])
    elif taken == 1:

        def run(r, x):  # type: ignore[no-untyped-def]
            r[0] = function(x[0])
    elif taken == 2:

        def run(r, x, y):  # type: ignore[no-untyped-def]
            r[0] = function(x[0], y[0])
    else:

        def run(r, x, y, z):  # type: ignore[no-untyped-def]
            r[0] = function(x[0], y[0], z[0])

    text, _ = cuda.compile_ptx(run, types, cc=(8, 0))
    assert ".visible .entry" in text and ".extern" not in text
    if name == "dadd_rd":
        assert "add.rm.f64" in text
    if name == "byte_perm":
        assert "prmt.b32" in text
    if name == "ull2double_rz":
        assert "cvt.rz.f64.u64" in text
