"""Tests of the table of libraries, and of results that the libraries compute."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.libraries import TABLE, names_of
from tests.runtime.cuda import test_fourier, test_solver
from tests.stand_in import RunningDevice, RunningStandIn
from weft.runtime import override, set_default_device
from weft.runtime.cuda.fourier import Fourier
from weft.runtime.cuda.solver import Solver

_A = np.arange(1.0, 17.0).reshape(4, 4) / 9 + np.eye(4) * 5
_V = np.arange(1.0, 4.0)
CALLS: dict[str, tuple[Any, ...]] = {
    "solve": (_A, _A), "lstsq": (_A, _A), "tensorinv": (_A.reshape(2, 2, 4), 2), "tensorsolve": (_A.reshape(4, 2, 2), _V[[0, 1, 2, 0]]),
    "matmul": (_A, _A), "matrix_power": (_A, 3), "multi_dot": ([_A, _A, _A],), "tensordot": (_A, _A), "cross": (_V, _V[::-1]),
    "outer": (_V, _V), "vecdot": (_V, _V), "cholesky": (_A @ _A.T,), "fftfreq": (5,), "rfftfreq": (5,),
}  # fmt: skip
FUNCTIONS = [(module, name) for module, services in TABLE.items() for name in services]


@pytest.fixture
def device() -> Iterator[RunningDevice]:
    """Yield a CUDA device on a stand-in driver, with stand-ins of cuFFT and cuSOLVER."""
    driver = RunningStandIn()
    made = RunningDevice(driver)
    made.fourier = Fourier(made._driver, made._order, made.allocate, test_fourier.Library(driver))
    made.solver = Solver(made._driver, made._order, made.allocate, made.read, test_solver.Library(driver))
    set_default_device(made)
    yield made
    set_default_device(None)


def weft_of(value: Any) -> Any:
    if isinstance(value, list):
        return [weft_of(each) for each in value]
    return wf.asarray(value) if isinstance(value, np.ndarray) else value


def parts(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("module", TABLE)
def test_every_function_is_in_the_table(module: str) -> None:
    assert set(TABLE[module]) == names_of(module)


@pytest.mark.parametrize(("module", "name"), FUNCTIONS)
def test_what_a_gpu_leaves_to_the_host(module: str, name: str, device: RunningDevice) -> None:
    service = TABLE[module][name]
    arguments = CALLS.get(name, (_A,))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = getattr(getattr(wf, module[6:]), name)(*map(weft_of, arguments))
        wf.evaluate(*(each for each in parts(found) if isinstance(each, wf.Array)))
    messages = [str(each.message) for each in caught if issubclass(each.category, wf.HostFallbackWarning)]
    assert bool(messages) == (service.cuda == "host"), messages
    assert bool(service.reason) == (service.cuda == "host")
    expected = getattr(getattr(np, module[6:]), name)(*arguments)
    if name not in (
        "eigh",
        "svd",
        "qr",
        "eig",
    ):  # (vectors are determined up to their signs: see the tests of each library)
        for ours, theirs in zip(parts(found), parts(expected), strict=True):
            np.testing.assert_allclose(np.asarray(ours), theirs, atol=1e-9)


@pytest.mark.parametrize("p", [None, 2, -2])
@pytest.mark.parametrize("matrix", [_A, np.stack([_A, 2 * _A.T]), np.zeros((3, 3)), np.arange(1.0, 7.0).reshape(2, 3)])
def test_condition_numbers(p: int | None, matrix: np.ndarray, device: RunningDevice) -> None:
    found = wf.linalg.cond(wf.asarray(matrix), p)
    np.testing.assert_allclose(np.asarray(found), np.linalg.cond(matrix, p), rtol=1e-9)


@pytest.mark.parametrize("options", [{}, {"rtol": None}, {"rcond": 1e-3}, {"rtol": 1e-10}])
@pytest.mark.parametrize("on_gpu", [False, True])
def test_the_cutoff_of_a_pseudo_inverse(options: dict[str, Any], on_gpu: bool, device: RunningDevice) -> None:
    matrix = np.diag([1, 1e-8]).astype("f4")
    found = wf.linalg.pinv(wf.asarray(matrix) if on_gpu else matrix, **options)
    np.testing.assert_allclose(np.asarray(found), np.linalg.pinv(matrix, **options), rtol=1e-5)


def test_polynomials_are_fitted_by_a_library(device: RunningDevice) -> None:
    x, y = np.linspace(-1, 1, 20), np.linspace(-1, 1, 20) ** 3 + 1
    with override(host_fallback="raise"):
        found = wf.polyfit(wf.asarray(x), wf.asarray(y), 3)
    np.testing.assert_allclose(np.asarray(found), [1, 0, 0, 1], atol=1e-12)
