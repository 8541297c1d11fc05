"""Tests that programs are interpreted until compilation pays off.

If planning or compilation fails, they are always interpreted.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import weft as wf
from tests.fusion.run.test_primitives import same_bits
from tests.fuzz.programs import Abandoned, Generator, differences, run_numpy, run_program
from weft.codegen import pipeline
from weft.codegen.llvm import host
from weft.fusion.lower import kernels
from weft.fusion.lower import lowering as lower
from weft.fusion.plan import horizontal_fusion, merge_groups, plan_cache, schedule, traced_plans
from weft.fusion.run import expanded_ops, planning, tiers
from weft.runtime import override

pytestmark = pytest.mark.cpu


@pytest.fixture
def plans() -> Any:
    """Enable the choice of tiers, and yield a function that returns the number of plans."""
    wf.reset_statistics()
    with override(interpret="auto"), mock.patch.object(tiers._Rate, "factor", 1.0):
        yield lambda: wf.statistics()["plans"]


def test_a_form_is_compiled_once_interpreting_has_cost_as_much(plans: Any) -> None:
    x = wf.asarray(np.arange(300.0))
    with mock.patch.object(tiers, "LOST", 1e3):
        results = [np.asarray((x * 2 - 7) / (x + 5)) for _ in range(200) if not plans()]
    assert 1 < len(results) < 200 and all(same_bits(r, results[0]) for r in results)


@pytest.mark.parametrize("share", [0.0, 1e6])
def test_calls_that_numpy_computes_at_once_bring_compilation_closer(plans: Any, share: float) -> None:
    x = wf.asarray(np.random.default_rng(1).integers(0, 256, 1_200_000, np.uint8))
    with override(immediate=1 << 15, threads=2, background=False), mock.patch.object(tiers, "LOST_IMMEDIATELY", share):
        results = [np.asarray(x + x) for _ in range(110)]
    counted = wf.statistics()
    assert plans() == (share > 0) and counted["interpreted"] == (2 if share else 4)
    assert counted["kernels"] == (44 if share else 0)
    assert all(same_bits(r, np.asarray(x) + np.asarray(x)) for r in results)


def test_a_form_that_does_not_come_back_is_not_compiled(plans: Any) -> None:
    x = wf.asarray(np.ones(9))
    for n in range(1, 40):
        y = x
        for _ in range(n):
            y = y * 2 - 1
        wf.evaluate(y)
    assert plans() == 0


def test_a_program_that_is_interpreted_again_is_found_by_its_expressions(plans: Any) -> None:
    x = wf.asarray(np.arange(321.0))
    with mock.patch.object(plan_cache, "find_form", wraps=plan_cache.find_form) as analyzed:
        results = [np.asarray(x * 3 - 7) for _ in range(9)]
    assert analyzed.call_count <= 2 and wf.statistics()["interpreted"] == 9
    assert all(same_bits(r, np.arange(321.0) * 3 - 7) for r in results)
    with override(interpret="never"):
        wf.evaluate(x * 3 - 7)
    assert plans() == 1


def test_a_program_serves_other_offsets_and_constants(plans: Any) -> None:
    values = np.arange(900.0).reshape(30, 30)
    x, y = wf.asarray(values), wf.zeros((30, 30))
    with mock.patch.object(tiers, "make_program", wraps=tiers.make_program) as made:
        for k in range(1, 30):
            y[k, 3:9] = (x[k, 5:11] * (k + 0.5)).sum() + x[k, 1:7]
            wf.evaluate(y)
            assert np.array_equal(np.asarray(y)[k, 3:9], (values[k, 5:11] * (k + 0.5)).sum() + values[k, 1:7])
    assert made.call_count <= 3 and wf.statistics()["interpreted"] == 29


def test_a_write_costs_what_it_writes(plans: Any) -> None:
    table = wf.zeros((3000, 1000))
    with mock.patch.object(tiers, "ELEMENT", 1e-6):
        for k in range(5):
            table[k, :10] = 2.5
        wf.evaluate(table)
    assert plans() == 0


def test_one_long_run_is_compiled_first(plans: Any) -> None:
    with mock.patch.object(tiers, "ELEMENT", 1.0):
        wf.evaluate(wf.cbrt(wf.asarray(np.ones(1234))) * wf.arctan(5))  # (no other test has a plan of this form)
    assert plans() == 1


def test_a_plan_in_memory_is_run(plans: Any) -> None:
    x = wf.asarray(np.arange(300.0))
    compute = lambda: np.asarray(x * 3 - 11)  # noqa: E731
    with override(interpret="never"):
        expected = compute()
    with mock.patch.object(tiers, "make_program", side_effect=AssertionError):
        assert same_bits(compute(), expected)


def test_forms_are_kept_for_a_while(plans: Any) -> None:
    forms, programs = (mock.patch.object(tiers, name, OrderedDict()) for name in ("_forms", "_programs"))
    with mock.patch.object(tiers, "FORMS_LIMIT", 5), forms, programs:
        for n in range(1, 20):
            y = wf.asarray(np.ones(9))
            for _ in range(n):
                y = y * 2 - 1
            wf.evaluate(y)
        assert len(tiers._forms) == 5


def test_forms_with_equal_hashes_have_costs_of_their_own() -> None:
    keys = ("cpu", (-1,)), ("cpu", (-2,))  # (Python's hashes of -1 and -2 are equal)
    assert hash(keys[0]) == hash(keys[1])
    with mock.patch.object(tiers, "_forms", OrderedDict()), override(interpret="always"):
        one, other, again = (tiers.find_costs(SimpleNamespace(key=key), None)[0] for key in (*keys, ("cpu", (-1,))))  # type: ignore[arg-type]
    assert one is again is not other


# -- fallback to the interpreter ----------------------------------------------------------------

PLANNERS = planning, horizontal_fusion, merge_groups, schedule, kernels, lower, plan_cache, traced_plans
COMPILERS = import_module("weft.codegen.obtain"), import_module("weft.codegen.compile"), pipeline, host


def _steps() -> Iterator[str]:
    """Yield the names of the planner's and the compiler's functions, and of the emitter's methods."""
    for module in (*PLANNERS, *COMPILERS):
        for name, value in vars(module).items():
            if isinstance(value, FunctionType) and value.__module__.startswith(("weft.fusion", "weft.codegen")):
                yield f"{module.__name__}.{name}"
    for part in host.Emitter.__mro__[:-1]:
        yield from (f"{part.__module__}.{part.__name__}.{name}" for name in vars(part) if not name.startswith("_"))


BREAKABLE = tuple(_steps())


@contextmanager
def broken(name: str) -> Iterator[None]:
    """Within the ``with`` block, replace the function with the path `name` by one that raises an error, also in the
    compiler's lists of passes.
    """
    module, _, own = name.rpartition(".")
    function = vars(pipeline)[own] if module == pipeline.__name__ else None
    with mock.patch(name, side_effect=RuntimeError("broken")) as failing:
        passes = {
            kind: tuple(replace(each, function=failing) if each.function is function else each for each in listed)
            for kind, listed in pipeline.PIPELINES.items()
        }
        with mock.patch.dict(pipeline.PIPELINES, passes):
            yield


@pytest.mark.parametrize("name", BREAKABLE)
def test_whatever_fails_is_interpreted_with_one_warning(name: str) -> None:
    wf.evaluate(wf.asarray(np.ones(3)) + 1)  # (loads the compiler)
    generator = Generator(7000 + BREAKABLE.index(name))
    start = generator.start()
    with suppress(Abandoned):
        generator.write(6)
    wanted = run_numpy(generator.lines, start)
    with override(strict=False, cache=False), broken(name):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = run_program(generator.lines, start)
            again = run_program(generator.lines, start)
    ours = [w for w in caught if issubclass(w.category, wf.OptimizerWarning)]
    assert differences(found, wanted, True) == "" and differences(again, wanted, True) == ""
    reports = [str(w.message).split("report is in ")[1].split(". WEFT")[0] for w in ours]
    assert len(reports) == len(set(reports)) or "no file" in reports[0]


def test_the_steps_are_those_of_plans() -> None:
    for name in (
        "pipeline.choose_lanes",
        "pipeline.split_borders",
        "host._optimized",
        "planning.arrange_memory",
        "LoopEmitter.loop",
    ):
        assert any(step.endswith(name) for step in BREAKABLE), name


@pytest.mark.parametrize("few", [0, 16384])
def test_functions_without_a_loop_are_numpys_below_the_net(few: int) -> None:
    x = np.linspace(0.5, 2.0, 7)
    for function in ("arctanh", "expm1"):  # (not compiled by earlier tests)
        with override(strict=False, cache=False, immediate=few):
            with mock.patch("weft.codegen.obtain.obtain_code", side_effect=RuntimeError("broken")):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    found = [np.asarray(getattr(wf, function)(wf.asarray(x / 4))) for _ in range(2)]
        assert len(caught) <= 1 and all(np.allclose(each, getattr(np, function)(x / 4), rtol=1e-15) for each in found)


def test_loops_that_pay_and_cannot_be_compiled_are_done_without() -> None:
    x, functions = (
        np.linspace(0.5, 2.0, 50),
        (lambda x: x.clip(1, 1.5) % 0.25, lambda x: x.sum(), lambda x: np.sign(x - 1)),
    )
    broken = mock.patch("weft.codegen.obtain.obtain_code", side_effect=RuntimeError("broken"))
    with (
        override(strict=False, cache=False, immediate=16384),
        broken,
        mock.patch.object(expanded_ops, "compile_price", lambda: 0.0),
    ):
        with (
            mock.patch.dict("weft.fusion.run.reduce_arrays._loops", clear=True),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            for function in functions:
                for _ in range(40):
                    assert np.allclose(np.asarray(function(wf.asarray(x))), function(x), rtol=1e-14)
    assert all(issubclass(w.category, wf.OptimizerWarning) for w in caught)
    assert len({str(w.message) for w in caught}) == len(caught)  # one warning per form


@pytest.mark.parametrize("name", ["run.planning.make_plan", "plan.plan_cache.find_form"])
def test_a_form_warns_once_wherever_its_arrays_are_bound(name: str) -> None:
    x, y = wf.asarray(np.arange(23.0)), wf.asarray(np.ones(5))
    wf.evaluate(x, y)
    with override(strict=False, cache=False), mock.patch(f"weft.fusion.{name}", side_effect=RuntimeError("broken")):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for others in range(3):
                for _ in range(others):
                    y[1:] + 1  # (takes a slot before the array)
                    y = wf.asarray(np.ones(5))
                assert same_bits(np.asarray(x * 3.5 - 77), np.arange(23.0) * 3.5 - 77)
    assert [issubclass(w.category, wf.OptimizerWarning) for w in caught] == [True]


@pytest.mark.usefixtures("cold_cache")
def test_a_plan_that_is_found_and_cannot_be_run_is_interpreted() -> None:
    def compute(n: int) -> np.ndarray:
        return np.asarray(wf.asarray(np.arange(float(n))) * 4.5 - 78)

    compute(31)
    broken = mock.patch("weft.codegen.host_target.host_target", side_effect=RuntimeError("broken"))
    with override(strict=False), broken, pytest.warns(wf.OptimizerWarning, match="broken"):
        assert same_bits(compute(37), np.arange(37.0) * 4.5 - 78)


def test_the_report_has_the_program_and_the_error() -> None:
    x = wf.asarray(np.arange(17.0))
    with override(strict=False), mock.patch.object(planning, "make_plan", side_effect=ZeroDivisionError("oh")):
        with pytest.warns(wf.OptimizerWarning, match=r"ZeroDivisionError: oh.*WEFT_STRICT=1") as caught:
            assert (np.asarray(x * 3 + 2.5) == np.arange(17.0) * 3 + 2.5).all()
        text = Path(str(caught[0].message).split("report is in ")[1].split(". WEFT")[0]).read_text()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert (np.asarray(x * 3 + 2.5) == np.arange(17.0) * 3 + 2.5).all()
    assert "map multiply" in text and "test_tiers.py" in text and "ZeroDivisionError" in text


@pytest.mark.parametrize("error", (RuntimeError, wf.CompileError))
def test_strict_raises(error: type[Exception]) -> None:
    y = wf.asarray(np.arange(18.0)) * 3 - 2.5
    for _ in range(len(error.__name__)):  # (not planned by earlier tests)
        y = -y
    with mock.patch.object(planning, "make_plan", side_effect=error("broken")), pytest.raises(error):
        wf.evaluate(y)
    assert abs(float(y[1])) == 0.5


@pytest.mark.parametrize("error", (MemoryError, KeyboardInterrupt, wf.DeviceMismatchError))
def test_errors_that_are_not_the_optimizers_are_raised(error: type[BaseException]) -> None:
    y = wf.asarray(np.arange(19.0)) * 3 - 2.5
    for _ in range(len(error.__name__)):
        y = abs(y)
    with override(strict=False), mock.patch.object(planning, "make_plan", side_effect=error), pytest.raises(error):
        wf.evaluate(y)
    assert abs(float(y[1])) == 0.5


def test_sums_have_an_order_of_numpys_below_the_net() -> None:
    x = wf.asarray(np.random.default_rng(0).standard_normal((3, 50_000)))
    with override(strict=False), mock.patch.object(plan_cache, "find_form", side_effect=IndexError):
        with pytest.warns(wf.OptimizerWarning):
            found = np.asarray(x.var(axis=1))
    assert np.allclose(found, np.asarray(x).var(axis=1), rtol=1e-12)
