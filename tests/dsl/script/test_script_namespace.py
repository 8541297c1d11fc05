"""Tests of the `numpy` namespace that scripts see under weft."""

from __future__ import annotations

import pickle
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import weft as wf
import weft.runtime as runtime
from weft.dsl.functions import creation
from weft.dsl.script import script_function
from weft.dsl.script.kinds import MemoryEffect
from weft.dsl.script.redirect import load_program
from weft.dsl.script.script_namespace import script_module

SIZE = 20_000
NUMPY = script_module("numpy")
DRAW = MemoryEffect.DRAW

DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "random": lambda rng, out: rng.random(out=out),
    "random by position": lambda rng, out: rng.random(SIZE, np.float64, out),
    "standard_normal": lambda rng, out: rng.standard_normal(out=out),
    "standard_exponential": lambda rng, out: rng.standard_exponential(method="inv", out=out),
    "standard_gamma": lambda rng, out: rng.standard_gamma(2.0, out=out),
    "permuted": lambda rng, out: rng.permuted(np.arange(SIZE, dtype=float), out=out),
    "permuted in place": lambda rng, out: rng.permuted(out, out=out),
}


@pytest.mark.parametrize("name", DRAWS)
def test_generators_write_to_arrays(name: str) -> None:
    out, expected = wf.arange(float(SIZE)), np.arange(float(SIZE))
    ours, theirs = NUMPY.random.default_rng(5), np.random.default_rng(5)
    assert DRAWS[name](ours, out) is out
    DRAWS[name](theirs, expected)
    assert out.tolist() == expected.tolist() and ours.random() == theirs.random()


def test_generators_write_to_views() -> None:
    x = wf.zeros((3, SIZE))
    NUMPY.random.default_rng(5).random(out=x[1])
    assert x[1].tolist() == np.random.default_rng(5).random(SIZE).tolist() and not x[::2].any()


@pytest.mark.cpu
@pytest.mark.parametrize("name", ["array", "asarray"])
def test_lists_of_small_arrays_become_numpy_arrays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script_function.install_native_code()
    x = wf.asarray(np.random.default_rng(5).random((4, 100)))
    monkeypatch.setattr(creation, "_stack", [])  # (weft's own function would record each item)
    with runtime.override(immediate=1 << 14):
        for function in (getattr(NUMPY, name), script_function.choose(getattr(np, name), getattr(wf, name), DRAW)):
            found = function([x[:, 3], x[:, 5]])
            assert type(found) is np.ndarray and found.tolist() == [x[:, 3].tolist(), x[:, 5].tolist()]
            assert isinstance(function([x[0], x[1], x[2]]), wf.Array)
            assert function([x[:, 3], [1.0, 2.0, 3.0, 4.0]]).tolist() == [x[:, 3].tolist(), [1.0, 2.0, 3.0, 4.0]]
            np.testing.assert_array_equal(function([[x[:, 3]], [x[:, 1]]]), np.asarray(x)[:, [3, 1]].T[:, None])


@pytest.mark.parametrize(
    "name", ["array", "asarray", "concatenate", "stack", "vstack", "hstack", "column_stack", "block"]
)
def test_numpy_joins_numpy_arrays(name: str) -> None:
    rows = [np.array([k, 2.0]) for k in range(300)]
    kind = MemoryEffect.COMPUTE if name not in ("array", "asarray") else DRAW
    function = script_function.choose(getattr(np, name), pytest.fail, kind)
    with runtime.override(immediate=1 << 14):
        found = function(rows)
        assert isinstance(found, wf.Array) and found.tolist() == getattr(np, name)(rows).tolist()
        out = np.empty((300, 2))
        assert name != "stack" or (function(rows, out=out) is out and out[7, 0] == 7)


@pytest.mark.parametrize("join", [NUMPY.array, NUMPY.concatenate, NUMPY.vstack, wf.array, wf.stack])
def test_numpy_joins_many_small_weft_arrays(join: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [wf.arange(1000.0) + k for k in range(40)]
    monkeypatch.setattr("weft.dsl.functions.joining.assign_recorded", pytest.fail)
    with runtime.override(immediate=1 << 14):
        evaluated = [wf.asarray(row.numpy()) for row in rows]
        found = join(evaluated)
        assert isinstance(found, wf.Array) and found.size == 40_000 and found.ravel()[39_001] == 40
    assert found.dtype == float and found.ravel()[1003] == 4


@pytest.mark.parametrize(("name", "alias"), [("absolute", "abs"), ("invert", "bitwise_not"), ("conjugate", "conj")])
def test_aliases_are_one_object(name: str, alias: str) -> None:
    assert getattr(NUMPY, alias) is getattr(NUMPY, name)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("numpy.lib._stride_tricks_impl", "broadcast_to"),
        ("numpy._core.numeric", "concatenate"),
        ("numpy._core.umath", "exp"),
        ("numpy.linalg._linalg", "linalg.norm"),
        ("numpy.lib._stride_tricks_impl", "lib.stride_tricks.as_strided"),
        ("numpy.ma.core", "ma.array"),
        (np._utils.asbytes.__module__, "_utils.asbytes"),  # (renamed in NumPy 2.5)
    ],
)
def test_functions_in_private_modules_are_the_public_functions(module: str, name: str) -> None:
    expected = script_module("numpy")
    for part in name.split("."):
        expected = getattr(expected, part)
    assert getattr(script_module(module), name.rpartition(".")[2]) is expected


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_bmat_reads_variables_of_the_caller() -> None:
    block = wf.ones((200, 200))
    assert NUMPY.bmat("block, block").shape == (200, 400) == NUMPY.bmat([[block, block]]).shape


@pytest.mark.parametrize("size", [5, SIZE])
def test_views_of_numpys_class(size: int) -> None:
    held = np.arange(float(size)).view(np.matrix)
    view = held.view(NUMPY.ndarray)
    view += 1
    assert held[0, 1] == 2 and isinstance(view, NUMPY.ndarray) and type(view + 1) is np.ndarray
    assert {type(view), type(held.view(type=NUMPY.ndarray))} == {np.ndarray}
    assert repr(view[:, :2]) == "array([[1., 2.]])" and type(pickle.loads(pickle.dumps(view))) is np.ndarray
    assert NUMPY.sum(view) == size * (size + 1) / 2


def test_classes_that_derive_from_an_abstract_class_and_ndarray() -> None:
    class Named(ABC):
        @property
        @abstractmethod
        def name(self) -> str: ...

    class Series(Named, NUMPY.ndarray):
        @property
        def name(self) -> str:
            return f"{len(self)} values"

    held = np.arange(3.0).view(Series)
    assert Series.__mro__ == (Series, Named, ABC, np.ndarray, object)
    assert held.name == "3 values" and isinstance(held, NUMPY.ndarray) and type(held + 1) is Series


def test_arrays_over_a_buffer_keep_its_byte_order() -> None:
    found = NUMPY.ndarray((2,), ">i2", bytes([0, 1, 3, 2]))
    assert found.dtype == np.dtype(">i2") and found.tolist() == [1, 770]


def test_dictionaries_of_modules(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import numpy as np\nnames, of_linalg = vars(np), np.linalg.__dict__\n")
    left = load_program(script, "script")
    early = {
        name for name, value in vars(np).items() if not isinstance(value, ModuleType)
    }  # (NumPy loads modules lazily)
    assert early <= set(left["names"]) and set(vars(np.linalg)) <= set(left["of_linalg"])
    with pytest.raises(AttributeError):
        left["names"]["__getattr__"]("__all__")
    assert left["names"]["sin"] is left["np"].sin and left["of_linalg"]["norm"] is left["np"].linalg.norm


def test_arrays_of_a_program_have_one_namespace(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nfound = {x.__array_namespace__() for x in (np.zeros(3), np.zeros(1000), np.zeros(50_000) + 1)}\n"
    )
    assert load_program(script, "script")["found"] == {np}
    script.write_text("import numpy as np, weft\nfound = np.zeros(1000).__array_namespace__()\n")
    assert load_program(script, "script")["found"] is wf


# Calls with numbers only, whose results are small or large.
CALLS: list[tuple[str, tuple[float, ...]]] = [
    ("random", ()), ("random", (5,)), ("random", (SIZE,)), ("standard_normal", (128,)), ("standard_normal", (129,)),
    ("normal", (1.0, 2.0)), ("normal", (1, 2, 3)), ("uniform", (0, SIZE)), ("integers", (10,)), ("integers", (0, 10, SIZE)),
    ("permutation", (4,)), ("choice", (SIZE, 2)), ("exponential", (2.0, 3)),
]  # fmt: skip
LEGACY: list[tuple[str, tuple[float, ...]]] = [("rand", (SIZE, 2)), ("randn", (3, 2)), ("rand", ()), ("randint", (5,))]


@pytest.mark.parametrize("make, name, arguments", [
    *[("default_rng", *call) for call in CALLS], *[("RandomState", *call) for call in LEGACY],
])  # fmt: skip
def test_random_numbers_of_all_sizes(make: str, name: str, arguments: tuple[float, ...], tmp_path: Path) -> None:
    path = tmp_path / "draws.py"
    path.write_text("import numpy as np\n\ndef draw(make, name, arguments):\n"
                    "    return getattr(getattr(np.random, make)(5), name)(*arguments)\n")  # fmt: skip
    found = load_program(path, "draws")["draw"](make, name, arguments)
    expected = getattr(getattr(np.random, make)(5), name)(*arguments)
    assert isinstance(found, wf.Array) == (np.ndim(expected) > 0 and np.size(expected) ** 2 > runtime.IMMEDIATE[0])
    assert type(found) is type(expected) or isinstance(found, wf.Array)
    assert np.array_equal(found, expected) and found.dtype == expected.dtype if np.ndim(expected) else found == expected


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_r_reads_variables_of_the_caller() -> None:
    block = wf.ones((2, 2))
    assert NUMPY.r_["block, block"].tolist() == np.ones((2, 4)).tolist() and block.shape == (2, 2)


@pytest.mark.cpu
@pytest.mark.parametrize("name", ["array", "asarray", "masked_array"])
def test_masked_arrays_share_the_memory_of_arrays(name: str) -> None:
    x = wf.ones(SIZE)
    masked = getattr(NUMPY.ma, name)(x)
    masked[2] = 9
    masked[3] = np.ma.masked
    assert float(x[2]) == 9 and masked.mask.sum() == 1


@pytest.mark.parametrize("size", [10, SIZE])
@pytest.mark.parametrize("made", ["default_rng", "RandomState"])
def test_shuffles_of_lists(made: str, size: int) -> None:
    items, expected = [(k, wf.full(3, k)) for k in range(size)], list(range(size))
    getattr(NUMPY.random, made)(7).shuffle(items)
    getattr(np.random, made)(7).shuffle(expected)
    assert [k for k, _ in items] == expected == [int(array[1]) for _, array in items[:20]] + expected[20:]
    numbers = list(range(size))
    NUMPY.random.seed(7), NUMPY.random.shuffle(numbers)
    np.random.seed(7), np.random.shuffle(ordered := list(range(size)))
    assert numbers == ordered


def test_seeds_may_be_arrays() -> None:
    seed = wf.arange(SIZE)[1:4]
    assert NUMPY.random.default_rng(seed).random() == np.random.default_rng([1, 2, 3]).random()


def test_names_of_submodules_are_found_without_warnings() -> None:
    made = script_module.__wrapped__("numpy.random")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(made.bytes(3)) == 3
