"""Tests of NumPy's namespace in scripts that run on weft.

Small arrays are NumPy's and large arrays are weft's. Both behave as under NumPy.
"""

from __future__ import annotations

import builtins
import copy
import inspect
import pickle
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays.array import Array
from weft.dsl.script import native_script, script_function, script_namespace
from weft.dsl.script.redirect import load_program
from weft.dsl.script.script_function import ScriptFunction, choose, install_native_code, is_few
from weft.dsl.script.script_namespace import script_module
from weft.runtime import override

IMMEDIATE = 16384
FEW = 128


@pytest.fixture(params=["python", "native"])
def xp(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a new namespace for scripts, with functions in Python or in native code."""
    script_module.cache_clear()
    monkeypatch.setattr(script_namespace, "is_program", lambda frame: "__name__" not in frame.f_globals)
    if request.param == "python":
        monkeypatch.setattr(script_function, "_native", [])
        monkeypatch.setattr(script_function, "_count_call", lambda: None)
    else:
        install_native_code()
    yield script_module("numpy")
    script_module.cache_clear()


def test_few_elements_are_the_square_root_of_tier_zero() -> None:
    assert is_few(FEW) and not is_few(FEW + 1)
    with override(immediate=0):
        assert not is_few(1)
    with override(immediate=100):
        assert is_few(10) and not is_few(11)


SMALL = """
xp.zeros(3)
xp.zeros((8, 16))
xp.full((2, 2), 1000)
xp.arange(1000, 1010)
xp.linspace(0, 1000, 11)
xp.eye(3)
xp.array([1000, 2000])
xp.array([[1.0, 2.0], [3.0, 4.0]])
xp.array((1, 2), dtype=xp.float32)
xp.array(["text", "more"])
xp.tile([1, 2], 3)
xp.exp(xp.ones(128))
xp.add(xp.ones((128, 1)), xp.ones((1, 128)))
xp.outer(xp.ones(128), xp.ones(128))
xp.sum(xp.ones((4, 4)), axis=0)
xp.sum([1, 2, 3], keepdims=True)
xp.add.reduce(xp.ones((3, 4)))
xp.add.outer([1, 2], [3, 4])
xp.linalg.solve(xp.eye(3), xp.ones(3))
xp.linalg.eigvals(xp.zeros((2, 2)) + 1j)
xp.fft.fft(xp.ones(8))
xp.random.rand(3)
xp.random.default_rng(1).normal(size=(5, 5))
xp.random.RandomState(1).randn(3)
xp.where(xp.ones(3) > 0, 1.0, 0.0)
xp.concatenate([xp.ones(3), xp.zeros(3)])
xp.mgrid[0:3, 0:4]
xp.r_[1:4, 7]
xp.broadcast_to(xp.ones(3), (1000, 3))
xp.apply_along_axis(lambda row: row * 2, 0, xp.ones((3, 3)))
xp.vectorize(lambda v: v + 1)(xp.arange(3))
xp.fromfunction(lambda i, j: i + j, (3, 3))
xp.poly1d([1, 2, 3])(xp.arange(3))
xp.asarray(range(5))
xp.frombuffer(b"abcdefgh", xp.uint8)
""".strip().splitlines()

LARGE = """
xp.zeros(129)
xp.ones((100, 100))
xp.eye(100)
xp.arange(1000)
xp.arange(0, 1, 0.001)
xp.linspace(0, 1, 1000)
xp.array(list(range(1000)))
xp.array([[1.0] * 100] * 100)
xp.tile([1.0, 2.0], 1000)
xp.repeat(xp.ones(3), 1000)
xp.pad(xp.ones(3), 200)
xp.indices((20, 20))
xp.fromfunction(lambda i, j: i + j, (30, 30))
xp.random.rand(1000)
xp.random.default_rng(1).normal(size=1000)
xp.random.default_rng(1).permutation(1000)
xp.random.RandomState(1).randn(30, 30)
xp.mgrid[0:30, 0:30]
xp.exp(xp.linspace(0, 1, 1000))
xp.linalg.solve(xp.eye(20) * 2, xp.ones((20, 20)))
xp.fft.fftfreq(1000)
""".strip().splitlines()


def _run(program: str, xp: Any) -> Any:
    return eval(program, {"xp": xp})


@pytest.mark.parametrize("program", SMALL)
def test_small_arrays_are_numpys(program: str, xp: Any) -> None:
    found, wanted = _run(program, xp), _run(program, np)
    assert type(found) is type(wanted) is np.ndarray and found.dtype == wanted.dtype
    if "random.rand(" not in program:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("program", LARGE)
def test_large_arrays_are_wefts(program: str, xp: Any) -> None:
    found, wanted = _run(program, xp), _run(program, np)
    assert isinstance(found, Array) and type(wanted) is np.ndarray and found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    if "random.rand(" not in program:
        np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-300)


def test_a_large_grid_is_not_copied(xp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[np.ndarray] = []
    monkeypatch.setattr("weft.dsl.script.script_namespace.adopt_array", lambda grid, taken: made.append(grid))
    xp.mgrid[0:30, 0:30]
    assert made[0].shape == (2, 30, 30) and made[0].flags.owndata


def test_numbers_are_numpys(xp: Any) -> None:
    assert type(xp.sqrt(2.0)) is np.float64 and type(xp.sum([1, 2])) is np.int64 and xp.sqrt(2.0) == np.sqrt(2.0)
    assert isinstance(xp.random.default_rng(0).random(), float)
    assert isinstance(xp.mean(xp.arange(1000.0)), (Array, np.floating))


def test_large_arrays_of_numpys_become_wefts(xp: Any) -> None:
    theirs = np.arange(IMMEDIATE + 265.0)
    square = np.arange(130.0**2).reshape(130, 130) % 7 + np.eye(130) * 1e3
    for found in (xp.exp(-theirs), xp.add(theirs, 1), xp.array(theirs), xp.sort(theirs), xp.linalg.inv(square)):
        assert isinstance(found, Array)
    assert isinstance(xp.array(np.ones(FEW + 1)), Array)
    assert isinstance(xp.sort(list(range(IMMEDIATE + 1))), Array)


def test_numpys_arrays_up_to_tier_zeros_limit_stay_numpys_in_computations(xp: Any) -> None:
    theirs = np.arange(900.0)
    square = theirs.reshape(30, 30) + np.eye(30) * 1e3
    for found in (xp.exp(-theirs), xp.add(theirs, 1), xp.sort(theirs), xp.linalg.inv(square), xp.cumsum(theirs)):
        assert type(found) is np.ndarray
    assert type(xp.einsum("ij,ij,j->i", square, square, theirs[:30])) is np.ndarray
    # ... unless the result or the number of products may be large
    assert isinstance(xp.add(theirs, theirs[:, None]), Array)
    assert isinstance(xp.outer(theirs, theirs), Array)
    assert isinstance(xp.einsum("i,j->ij", theirs, theirs), Array)


def test_long_sequences_are_numpys_until_they_are_large(xp: Any) -> None:
    pairs = [(i, i + 1) for i in range(300)]
    made = xp.array(pairs, dtype=np.float32)
    assert type(made) is Array and made.dtype == np.float32
    np.testing.assert_array_equal(made, np.array(pairs))
    assert xp.array(["name"] * 300).dtype.kind == "U"
    of_arrays = xp.array([(made[0], made[1])] * 300)
    assert type(of_arrays) is Array and of_arrays.shape == (300, 2, 2)
    endless: list[Any] = [1]
    endless.append(endless)
    with pytest.raises(ValueError, match="inhomogeneous"):
        xp.array(endless)


def test_what_may_be_a_view_stays_one(xp: Any) -> None:
    for n in (4, 100, 200):
        square = np.zeros((n, n))
        for view in (xp.reshape(square, -1), xp.ravel(square), xp.transpose(square), xp.atleast_1d(square)):
            assert type(view) is np.ndarray and np.shares_memory(view, square)
        assert all(np.shares_memory(part, square) for part in xp.split(square, 2))
    middle = np.zeros((100, 100))
    assert xp.asarray(middle) is middle and xp.ascontiguousarray(middle) is middle
    assert xp.array(np.zeros(3), copy=False) is not None
    large = np.zeros(20_000)
    assert isinstance(xp.asarray(large), Array)


def test_what_is_written_to_numpys_arrays_arrives(xp: Any) -> None:
    for n in (4, 300):
        square = np.zeros((n, n))
        assert xp.add(square, 1, out=square) is square and square.sum() == n * n
        assert xp.add(square, xp.ones((n, n)), square) is square and square[0, 0] == 2
        xp.fill_diagonal(square, 0)
        xp.put(square, [1], 9)
        xp.copyto(square[1:], xp.ones((n - 1, n)) * 7)
        xp.add.at(square, (xp.array([2]), xp.array([2])), 1.0)
        assert square[0, 0] == 0 and square[0, 1] == 9 and square[1, 0] == 7 and square[2, 2] == 8
        xp.cumsum(np.ones(n), out=square[0])
        assert square[0, -1] == n
    order = list(range(10))
    xp.random.shuffle(order)
    assert sorted(order) == list(range(10))
    many = xp.arange(1000)
    xp.random.default_rng(0).shuffle(many)
    wanted = np.arange(1000)
    np.random.default_rng(0).shuffle(wanted)
    assert isinstance(many, Array) and many.tolist() == wanted.tolist()


def test_small_and_large_meet(xp: Any) -> None:
    small, large = xp.ones(3), xp.ones((1000, 3))
    for found in (small + large, large + small, xp.add(small, large), small @ large.T, xp.dot(large, small)):
        assert isinstance(found, Array) and found.size >= 1000
    assert isinstance(xp.concatenate([small, large[0]]), (Array, np.ndarray))
    small += large[0]
    assert type(small) is np.ndarray and small.tolist() == [2, 2, 2]
    large[0] = small
    large[xp.array([1, 2])] = 5
    assert large[:4, 0].tolist() == [2, 5, 5, 1]
    assert isinstance(xp.stack([small, large[0]]), (Array, np.ndarray))


def test_functions_stand_for_numpys(xp: Any) -> None:
    assert (
        isinstance(xp.add, ScriptFunction)
        and xp.add == np.add
        and {np.add: 1}[xp.add] == 1
        and {xp.sum: 2}[np.sum] == 2
    )
    assert xp.add != xp.subtract and xp.add.nin == 2 and xp.add.__name__ == "add" and repr(xp.add) == "<ufunc 'add'>"
    assert inspect.signature(xp.mean) == inspect.signature(np.mean) and xp.mean.__doc__ == np.mean.__doc__
    assert pickle.loads(pickle.dumps(xp.add)) == np.add and copy.deepcopy(xp.sum) == np.sum
    assert (
        isinstance(xp.zeros(3), xp.ndarray)
        and isinstance(xp.zeros(3000), xp.ndarray)
        and type(xp.zeros(3)) == xp.ndarray  # noqa: E721
        and type(xp.broadcast_to(xp.zeros(3000), (2, 3000))) == xp.ndarray  # noqa: E721
        and type(xp.zeros(3000, complex).real) == xp.ndarray  # noqa: E721
    )
    with pytest.raises(TypeError, match="argument"):
        xp.add(1)
    with pytest.raises(ValueError, match="broadcast"):
        xp.add(xp.ones(2), xp.ones(3))
    with pytest.raises(TypeError):
        xp.zeros()
    with pytest.raises(AttributeError):
        _ = xp.nothing_of_the_kind
    assert "einsum" in dir(xp)


def test_functions_with_a_method_of_their_name(xp: Any) -> None:
    host = np.random.default_rng(2).normal(size=(40, 10))
    x = wf.asarray(host)
    for program in (
        "xp.sum(x)",
        "xp.sum(x, 1)",
        "xp.sum(x, axis=(0, 1), keepdims=True)",
        "xp.amax(x, 0)",
        "xp.mean(x, axis=0, dtype=xp.float32)",
        "xp.std(x, ddof=1)",
        "xp.clip(x, -1, 1)",
        "xp.clip(x, a_min=-1, a_max=None)",
        "xp.dot(x, x.T)",
        "xp.take(x, [1, 2], axis=1)",
        "xp.argsort(x, axis=0)",
        "xp.nonzero(x > 0)[0]",
        "xp.transpose(x, (1, 0))",
        "xp.cumsum(x, 1)",
        "xp.squeeze(x[:1])",
        "xp.sum(a=x)",
    ):
        found, wanted = eval(program, {"xp": xp, "x": x}), eval(program, {"xp": np, "x": host})
        np.testing.assert_allclose(found, wanted, rtol=1e-5 if "float32" in program else 1e-12, err_msg=program)
    with pytest.raises(TypeError):
        xp.sum(x, nothing=1)
    assert xp.sum(x, axis=0, out=(out := wf.zeros(10))) is out and out[0] == pytest.approx(host[:, 0].sum())


def test_a_protocol_of_the_scripts_own(xp: Any) -> None:
    class Own:
        def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
            return {xp.sum: "summed", xp.concatenate: "joined"}[function]

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
            return {xp.add: "added"}[ufunc]

    assert xp.sum(Own()) == "summed" and xp.concatenate([xp.ones(3), Own()]) == "joined"
    assert xp.add(xp.ones(3), Own()) == "added" and xp.add(xp.ones(3000), Own()) == "added"


def test_generators_are_numpys(xp: Any) -> None:
    made = xp.random.default_rng(3)
    assert isinstance(made, np.random.Generator) and isinstance(np.random.default_rng(3), xp.random.Generator)
    assert xp.random.default_rng(made) is made and not isinstance(made, xp.random.RandomState)
    assert type(pickle.loads(pickle.dumps(made)).normal(size=3)) is np.ndarray
    assert type(made.normal(size=1000)) is np.ndarray  # (the caller is a module, not a script)
    assert xp.random.default_rng(3).integers(0, 10**6) == np.random.default_rng(3).integers(0, 10**6)


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937"])
def test_copies_and_children_of_generators(xp: Any, kind: str) -> None:
    ours = xp.random.Generator(getattr(xp.random, kind)(3))
    theirs = np.random.Generator(getattr(np.random, kind)(3))
    for one, other in (
        (pickle.loads(pickle.dumps(ours)), copy.deepcopy(theirs)),
        (copy.deepcopy(ours), copy.deepcopy(theirs)),
        (ours.spawn(1)[0], theirs.spawn(1)[0]),
        (ours, theirs),
    ):
        assert isinstance(one, np.random.Generator) and isinstance(one, xp.random.Generator)
        np.testing.assert_array_equal(one.normal(size=20_000), other.normal(size=20_000))
        assert one.bytes(50_001) == other.bytes(50_001)
        np.testing.assert_array_equal(one.choice(77, 20_000), other.choice(77, 20_000))
        assert str(one.bit_generator.state) == str(other.bit_generator.state)


def test_many_numbers_are_drawn_as_numpy_draws_them(xp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    filled: list[str] = []

    def fill(values: np.ndarray, generator: np.random.Generator, draw: Any) -> bool:
        filled.append(draw.method)
        method, _, dtype = draw.method.partition(" ")
        drawn = getattr(np.random.Generator(generator.bit_generator), method)(values.shape, dtype or draw.dtype)
        np.add(draw.loc, np.multiply(draw.scale, drawn), out=values)
        return True

    monkeypatch.setattr("weft.runtime.cpu.random.generators.fill_with_draw", fill)
    native = {
        "random": [((40_000,), {}), (((300, 200),), {}), ((20_000, np.float32), {})],
        "uniform": [((-2, 5, 30_000), {}), ((), {"high": 0.5, "size": (10, 4000)})],
        "normal": [((3.0, 2.0, 20_000), {}), ((), {"size": 20_000, "scale": 0.0})],
        "standard_normal": [((20_000,), {})],
        "exponential": [((2.5, 20_000), {})],
        "standard_exponential": [((20_000,), {})],
    }
    numpys = {
        "random": [((20_000, np.int32), {}), ((5,), {})],
        "uniform": [((0, [1.0, 2.0]), {}), ((0, np.inf, 20_000), {})],
        "normal": [((0, -1, 20_000), {}), ((np.zeros(3),), {}), (("a",), {})],
        "standard_normal": [((-4,), {}), ((), {}), ((20_000,), {"out": np.zeros(20_000)})],
        "integers": [((9, 10, 20_000), {})],
    }
    ours, theirs = xp.random.default_rng(6), np.random.default_rng(6)
    for expected, cases in ((1, native), (0, numpys)):
        for name, calls in cases.items():
            for arguments, options in calls:
                filled.clear()
                results = []
                for generator in (ours, theirs):
                    try:
                        results.append(getattr(generator, name)(*arguments, **options))
                    except (ValueError, OverflowError, TypeError) as error:
                        results.append((type(error), str(error)))
                np.testing.assert_equal(*map(_plain, results))
                assert len(filled) == expected, (name, arguments, options)
    assert ours.bit_generator.state == theirs.bit_generator.state


def test_only_numbers_that_are_copied_to_a_gpu_are_reported(xp: Any) -> None:
    made = xp.random.default_rng(6)
    calls = "normal(size=1000)", "random(5000)", "gamma(2.0, 1.0, 1000)", "permutation(5000)"
    with wf.device("simt"), override(immediate=IMMEDIATE, host_fallback="raise"):
        for call in calls:
            assert isinstance(eval(f"made.{call}", {"made": made}), Array)
        with pytest.raises(wf.HostFallbackWarning, match="random.gamma draws .* host: 160,000 bytes"):
            eval("made.gamma(2.0, 1.0, 20_000)", {"made": made})


def _plain(result: Any) -> Any:
    return np.asarray(result) if isinstance(result, Array) else result


def test_without_tier_zero_all_arrays_are_wefts(xp: Any) -> None:
    with override(immediate=0):
        assert (
            isinstance(xp.zeros(3), Array)
            and isinstance(xp.exp(np.ones(3)), Array)
            and isinstance(xp.random.rand(3), Array)
        )


def test_python_chooses_as_native_code_does() -> None:
    called: list[str] = []
    function = choose(np.ones_like, lambda *a, **o: called.append("own"), script_function.MemoryEffect.COMPUTE)
    function([1, 2]), function(np.ones(FEW)), function(1.5)
    assert not called
    function(np.ones(IMMEDIATE)), function([np.ones(IMMEDIATE)])
    assert not called
    function([0] * (FEW + 1)), function([[0] * FEW] * 2)  # (conversion takes most of the time)
    assert not called
    function(np.ones(IMMEDIATE + 1)), function(wf.ones(3))
    assert called == ["own"] * 2


def test_new_arrays_of_some_elements_are_made_in_native_code() -> None:
    called: list[str] = []

    def slow(*given: Any, **options: Any) -> None:
        called.append("slow")

    for function, value in ((np.zeros, ()), (np.ones, ()), (np.full, (2.5,))):
        make = native_script.make_native(function, slow, slow, script_function.MemoryEffect.CREATE)
        for shape in (IMMEDIATE, (30, 100), FEW + 1):
            found, wanted = make(shape, *value, dtype=np.float32), function(shape, *value, dtype=np.float32)
            assert type(found) is Array and found.dtype == wanted.dtype and np.array_equal(np.asarray(found), wanted)
        assert type(make(FEW, *value)) is np.ndarray
        assert not called
        make(IMMEDIATE + 1, *value), make((2, IMMEDIATE), *value), make(1000, *value, device="cpu")
        assert called == ["slow"] * 3
        called.clear()


@pytest.mark.parametrize("native", [True, False])
def test_numbers_and_small_arrays_are_repeated_by_numpy(native: bool) -> None:
    called: list[str] = []

    def slow(*given: Any, **options: Any) -> None:
        called.append("slow")

    create, few, some = script_function.MemoryEffect.CREATE, np.arange(float(FEW)), IMMEDIATE // FEW
    for function, cases in (
        (np.repeat, [(0.5, IMMEDIATE), (few, some), (few, 2), (few[:3], 1)]),
        (np.tile, [(few, some), (few, (some, 1)), (2.5, (3, 4))]),
        (np.indices, [((FEW, some // 2),), ((3, 4),), ((0, 5),)]),
    ):
        make: Any = (
            native_script.make_native(function, slow, slow, create) if native else choose(function, slow, create)
        )
        for given in cases:
            if type(given[-1]) is int and given[-1] < 0:
                with pytest.raises(ValueError, match="negative"):
                    make(*given)
                continue
            found, wanted = make(*given), function(*given)
            assert type(found) is (Array if wanted.size > FEW else np.ndarray)
            assert found.dtype == wanted.dtype and np.array_equal(np.asarray(found), wanted)
    assert not called
    make = native_script.make_native(np.repeat, slow, slow, create) if native else choose(np.repeat, slow, create)
    make(few, some + 1), make(0.5, IMMEDIATE + 1)
    assert called == ["slow"] * 2
    found = make(wf.arange(3), 2)  # (native code calls the method of the array)
    assert np.array_equal(found, [0, 0, 1, 1, 2, 2]) if native else called == ["slow"] * 3


def test_ranges_of_some_elements_are_made_in_native_code() -> None:
    """Test that native code makes short ranges: ``np.arange`` with nonnegative integers up to the limit of immediate execution.

    Python code handles all other arguments, such as floats, and negative or large integers.
    """
    called: list[str] = []

    def slow(*given: Any, **options: Any) -> None:
        called.append("slow")

    make = native_script.make_native(np.arange, slow, slow, script_function.MemoryEffect.CREATE)
    for given in ((IMMEDIATE,), (1000, IMMEDIATE), (IMMEDIATE - 1000, IMMEDIATE, 2), (0, 1000, 1), (9000, 200)):
        for options in ({}, {"dtype": np.float32}):
            found, wanted = make(*given, **options), np.arange(*given, **options)  # type: ignore[arg-type]
            assert type(found) is (Array if wanted.size > FEW else np.ndarray)
            assert found.dtype == wanted.dtype and np.array_equal(np.asarray(found), wanted)
    assert not called
    for given in ((IMMEDIATE + 1,), (0, 1e9), (1e9,), (-5, 1000), (1000, 0, -1), (np.int64(1000),), (10**30,)):
        make(*given)
    make(1000, device="cpu")
    assert called == ["slow"] * 8


def test_scripts_import_the_namespace(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, numpy.random as nr\nfrom numpy import linalg, sin\nfrom numpy.random import default_rng\n"
        "small, large = np.zeros(3), np.zeros(1000)\ndrawn = default_rng(0).normal(size=1000)\ntold = np.mean(drawn)\n"
    )
    left = load_program(script, "script")
    assert type(left["small"]) is np.ndarray and isinstance(left["large"], Array) and isinstance(left["drawn"], Array)
    assert float(left["told"]) == pytest.approx(np.random.default_rng(0).normal(size=1000).mean())


def test_numbers_that_only_the_script_has_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = np.zeros(30_000)
    monkeypatch.setattr(builtins, "kept", kept, raising=False)
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nrng = np.random.default_rng(0)\nfirst = rng.random(out=kept)\nsecond = rng.random(30_000)\n"
        "third = rng.binomial(9, 0.5, (200, 300)).T\nsecond[1:] += first[:-1]\nfirst[0] = 7\n"
    )
    left = load_program(script, "script")
    rng = np.random.default_rng(0)
    wanted = [rng.random(30_000), rng.random(30_000), rng.binomial(9, 0.5, (200, 300)).T]
    assert np.array_equal(kept, wanted[0])  # (NumPy's array still contains the drawn numbers)
    wanted[1][1:] += wanted[0][:-1]
    wanted[0][0] = 7
    for name, expected in zip(("first", "second", "third"), wanted, strict=True):
        assert isinstance(left[name], Array) and np.array_equal(left[name].numpy(), expected)
    assert left["third"]._storage.buffer.values is left["third"]._storage.buffer._owner  # the memory belongs to NumPy


def test_packages_beside_the_script(tmp_path: Path) -> None:
    package = tmp_path / "beside"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("from . import first\nfrom beside import second\nfrom .inner import *\n")
    (package / "first.py").write_text("import beside.second as later\nimport numpy\nmade = numpy.zeros(1000)\n")
    (package / "second.py").write_text("from beside import first\nfrom beside.inner.deep import DEPTH\n")
    (package / "inner" / "__init__.py").write_text("from .deep import DEPTH\n__all__ = ['DEPTH']\n")
    (package / "inner" / "deep.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom typing import ClassVar\n"
        "DEPTH = 2\n@dataclass\nclass Point:\n    x: float\n    of: ClassVar[str] = ''\n"
    )
    script = tmp_path / "script.py"
    script.write_text(
        "import beside.inner.deep, pickle\nfrom beside import first, DEPTH, second\nfrom beside.inner.deep import Point\n"
        "class Own:\n    pass\n"
        "same = pickle.loads(pickle.dumps(Point(1.5))), type(pickle.loads(pickle.dumps(Own()))) is Own\n"
    )
    left = load_program(script, "script")
    assert left["DEPTH"] == 2 and left["same"][0].x == 1.5 and left["same"][1]
    assert isinstance(left["first"].made, Array) and left["beside"].second is left["second"]
    assert not [name for name in sys.modules if name.startswith("beside")]


def test_a_module_that_fails_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "broken_beside.py").write_text("raise ValueError('as it loads')\n")
    script = tmp_path / "script.py"
    script.write_text(
        "found = []\nfor _ in range(2):\n    try:\n        import broken_beside\n    except ValueError as error:\n        found.append(str(error))\n"
    )
    assert load_program(script, "script")["found"] == ["as it loads"] * 2 and "broken_beside" not in sys.modules


def test_what_ends_with_a_program(tmp_path: Path) -> None:
    """Test that weft no longer replaces NumPy in new modules after a program has ended. The functions of the program continue to use weft."""
    (tmp_path / "beside_program.py").write_text("import numpy as np\nmade = np.zeros(1000)\n")
    script = tmp_path / "script.py"
    script.write_text("def draw():\n    import numpy as np\n    return np.random.default_rng(0).random(1000)\n")
    left = load_program(script, "script")
    assert isinstance(left["draw"](), Array)
    assert isinstance(load_program(script, "script", to_weft=False)["draw"](), np.ndarray)
    assert type(runpy.run_path(str(tmp_path / "beside_program.py"))["made"]) is np.ndarray
