"""Tests that loops over indices or slices of changing lengths reuse their plans."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion.plan import plan_cache
from weft.fusion.record.storage import SHORT_LIMIT, limits
from weft.fusion.run import execute
from weft.runtime import override

N = 120


def history(m: ModuleType) -> list[Any]:
    out, s = m.zeros((N, 3)), m.asarray([1.0, 2.0, 3.0])
    for k in range(N):
        s = s + 0.125 * (s[::-1] - s)
        out[k] = s
    return [out, s]


def previous_row(m: ModuleType) -> list[Any]:
    table = m.ones((N, 5))
    for k in range(1, N):
        table[k] = table[k - 1] * 0.5 + table[k - 1, ::-1]
        table[k, 0] = k % 3
    return [table]


def neighbours(m: ModuleType) -> list[Any]:
    x = m.arange(3.0 * N).reshape(N, 3).copy()
    total = m.zeros(3)
    for k in range(1, N - 1):
        x[k] += 0.25 * (x[k + 1] - x[k - 1])
        total = total + x[k] * x[k + 1, 1]
    return [x, total]


def backwards(m: ModuleType) -> list[Any]:
    x, y = m.arange(float(N)), m.zeros(N)
    for k in range(N - 4, -1, -1):
        y[k : k + 4] += x[k : k + 4][::-1] * 2
    return [x, y]


def two_arrays_at_different_speeds(m: ModuleType) -> list[Any]:
    x, y = m.arange(2.0 * N), m.zeros(N)
    for k in range(N):
        y[k] = x[2 * k] + x[2 * k + 1]
    return [y]


def read_whole_too(m: ModuleType) -> list[Any]:
    x, y = m.arange(8.0), m.zeros((N, 8))
    for k in range(N):
        x[k % 8] += 1
        y[k] = x
    return [x, y]


def kept_versions(m: ModuleType) -> list[Any]:
    x, kept = m.zeros(N), []
    for k in range(N):
        if k % 40 == 5:
            kept.append(x.copy())
        x[k] = k * 0.5
    return [x, *kept]


def products(m: ModuleType) -> list[Any]:
    a, out = m.arange(4.0 * N).reshape(N, 2, 2), m.zeros((N, 2, 2))
    p = m.eye(2)
    for k in range(N):
        p = m.linalg.inv(a[k] + 5 * m.eye(2)) @ p
        out[k] = p
    return [out]


PROGRAMS = [
    history,
    previous_row,
    neighbours,
    backwards,
    two_arrays_at_different_speeds,
    read_whole_too,
    kept_versions,
    products,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_positions_that_move(program: Callable[[ModuleType], list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("SOFT_LIMIT", "HARD_LIMIT"):
        monkeypatch.setattr(f"weft.fusion.record.storage.{limit}", 16)  # many short recordings
    expected = program(np)
    for _ in range(2):
        for mine, theirs in zip(program(wf), expected, strict=True):
            np.testing.assert_allclose(np.asarray(mine), theirs, rtol=1e-12)


def test_a_row_written_each_turn_has_one_plan() -> None:
    with wf.device("cpu"):
        out = wf.zeros((300, 4))
        s = wf.ones(4)
        before = wf.statistics()["plans"]
        for k in range(300):
            s = s * 0.5 + 1
            out[k] = s
            wf.evaluate(out, s)
        assert wf.statistics()["plans"] - before <= 4
        assert np.asarray(out)[299].tolist() == np.asarray(s).tolist()
        assert np.asarray(out)[0].tolist() == [1.5] * 4


def test_offsets_that_equal_lengths_are_of_the_same_form(monkeypatch: pytest.MonkeyPatch) -> None:
    forms, find_form = list[Any](), plan_cache.find_form
    monkeypatch.setattr(plan_cache, "find_form", lambda *graph: forms.append(find_form(*graph)) or forms[-1])
    with wf.device("cpu"):
        x, y = wf.arange(400.0).reshape(20, 20).copy(), wf.zeros(60)
        wf.evaluate(x, y)
        forms.clear()
        values, before = np.arange(400.0).reshape(20, 20), wf.statistics()["plans"]
        # some positions equal the length of a row or of the slice
        for row, start in ((2, 7), (1, 5), (3, 20), (2, 44), (4, 40), (1, 25), (7, 31)):
            y[start : start + 5] = x[row, 3:8] * 0.5
            wf.evaluate(y)
            assert np.array_equal(np.asarray(y)[start : start + 5], values[row, 3:8] * 0.5)
        assert len({form.key for form in forms}) == 1
        assert wf.statistics()["plans"] - before <= 2


def test_overlaps_are_part_of_the_form() -> None:
    """Test the results of updates with overlapping views, for several distances between the views."""
    with wf.device("cpu"):
        for distance in (0, 1, 2, 3, -1, -2):
            for begin in (3, 7):
                x, y = np.arange(16.0), wf.arange(16.0)
                wf.evaluate(y)
                for z in (x, y):
                    z[begin : begin + 4] = z[begin + distance : begin + distance + 4] * 2 + z[begin : begin + 4]
                assert np.array_equal(np.asarray(y), x)


def test_an_old_version_keeps_its_values() -> None:
    with wf.device("cpu"):
        x = wf.zeros(32)
        wf.evaluate(x)
        for k in range(6):
            old = x.copy()
            wf.evaluate(old)
            x[k * 4 : k * 4 + 4] = k + 1.0
            wf.evaluate(x)
            assert np.asarray(old)[k * 4 : k * 4 + 4].tolist() == [0.0] * 4
        assert np.asarray(x)[:24].tolist() == np.repeat(np.arange(1.0, 7.0), 4).tolist()


def random_loop(seed: int) -> str:
    """Return the text of a random loop over rows of the arrays x, y and z.

    The arrays have the shape (24, 3). The loop also uses a vector s and a list `kept`.
    """
    random = Random(seed)
    lines = []
    for _ in range(random.randint(2, 5)):
        a, b, d, e = random.choice("xyz"), random.choice("xyz"), random.choice([-1, 0, 1]), random.choice([-1, 0, 1])
        lines.append(
            random.choice(
                [
                    f"{a}[k] = {b}[k + {d}] * 0.5 + {a}[k + {e}]",
                    f"{a}[k:k + 2] = {b}[k + {d}:k + {d} + 2][::-1] * 0.5 + {e}",
                    f"{a}[k, 0] = {b}[k + {d}].sum() * 0.1",
                    f"s = s * 0.5 + {a}[k] * {b}[k + {d}, 0]",
                    f"{a}[k] = s * 0.5",
                    f"{a}[k - 1:k + 2] *= 0.5",
                    f"kept.append({a}[k:k + 2].copy())",
                    f"kept.append(float({a}[k].sum()))",
                    f"{a}[k + {d}] = np.where({b}[k] > 0.5, {b}[k + {e}], s)",
                    f"{a}[k] = np.sort({b}[k + {d}])",
                    f"{a} = np.concatenate([{a}[1:], {b}[k:k + 1]])",
                    f"w = {a}[k:]; w[0] = w[1] * 0.5; kept.append(w)",
                ]
            )
        )
    return "for k in range(2, 20):\n    " + "\n    ".join(lines)


@pytest.mark.parametrize("seed", range(8))
def test_random_loops_over_positions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("SOFT_LIMIT", "HARD_LIMIT"):
        monkeypatch.setattr(f"weft.fusion.record.storage.{limit}", (6, 10, 17, 40)[seed % 4])
    program = compile(random_loop(seed), f"<loop {seed}>", "exec")

    def run(m: ModuleType) -> list[Any]:
        values = np.random.default_rng(seed)
        names: dict[str, Any] = {name: m.asarray(values.random((24, 3))) for name in "xyz"}
        names["s"] = m.asarray(values.random(3))
        names.update(np=m, kept=[])
        exec(program, names)
        return [names[name] for name in "xyzs"] + names["kept"]

    expected = run(np)
    compiled = [np.asarray(value) for value in run(wf)]
    for mine, theirs in zip(compiled, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, err_msg=random_loop(seed))
    for how in ("never", "always", "always"):  # (interpreted: iterations share programs at other offsets)
        with override(interpret=how):
            for mine, theirs in zip(run(wf), compiled, strict=True):
                np.testing.assert_array_equal(np.asarray(mine), theirs, err_msg=random_loop(seed))


def dots(m: ModuleType) -> list[Any]:
    x, y, out = m.arange(float(N)) / N, m.arange(float(N)) + 1, m.zeros(N)
    for k in range(N):
        out[k] = x[:k] @ y[:k] + x[k]
    return [out]


def solved(m: ModuleType) -> list[Any]:
    a, x = m.asarray(np.random.default_rng(0).random((N, N)) + N * np.eye(N)), m.zeros(N)
    for k in range(N):
        x[k] = (1.5 - a[k, :k] @ x[:k]) / a[k, k]
    return [x]


def eliminated(m: ModuleType) -> list[Any]:
    a = m.asarray(np.random.default_rng(0).random((40, 40)) + 40 * np.eye(40))
    for k in range(39):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= m.outer(a[k + 1 :, k], a[k, k + 1 :])
    return [a]


def means(m: ModuleType) -> list[Any]:
    x, out = m.asarray(np.random.default_rng(0).random(N)), m.zeros((N, 2))
    for k in range(1, N):
        out[k, 0] = x[:k].mean()
        out[k, 1] = x[:k].std()
    return [out]


def levinson(m: ModuleType) -> list[Any]:
    r, y = m.arange(1.0, N + 1)[::-1] / (3 * N), m.zeros(N)
    alpha, beta = -r[0], 1.0
    y[0] = -r[0]
    for k in range(1, N):
        beta = beta * (1.0 - alpha * alpha)
        alpha = -(r[k] + m.dot(m.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * m.flip(y[:k])
        y[k] = alpha
    return [y]


@pytest.mark.parametrize("program", [dots, solved, eliminated, means, levinson])
def test_lengths_that_change(program: Callable[[ModuleType], list[Any]]) -> None:
    expected = program(np)
    for _ in range(4):
        wf.reset_statistics()
        with wf.device("cpu"):
            found = [np.asarray(value) for value in program(wf)]
        assert wf.statistics()["plans"] <= 16
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9)
    assert wf.statistics()["plans"] == 0


def test_what_planning_does_not_follow_is_planned_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(*arguments: Any) -> Any:
        if any(type(size) is not int for size in arguments[2].versions[0].shape):
            raise TypeError("an operation that sizes do not have")
        return made(*arguments)

    from weft.fusion.run import planning

    made = planning.make_plan
    monkeypatch.setattr(planning, "make_plan", make)
    with wf.device("cpu"):
        for k in range(200, 205):
            x = np.arange(float(k))
            assert np.array_equal(np.asarray(wf.asarray(x) * 3.5 - 1.25), x * 3.5 - 1.25)


def test_loops_of_many_forms_are_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test a loop with random branches, which leads to graphs of many forms. Its recordings must become short, unlike those of a regular loop."""

    def irregular(m: ModuleType) -> Any:
        random, x, y = Random(1), m.ones(8), m.ones(8)
        for _ in range(400):
            if random.random() < 0.5:
                x = x * 0.5 + y
            else:
                y = y * 0.25 - x
        return x

    def regular(m: ModuleType) -> Any:
        x = m.ones(8)
        for _ in range(400):
            x = x * 0.5 + 1
        return x

    monkeypatch.setattr("weft.fusion.record.storage.SOFT_LIMIT", 40)
    with wf.device("cpu"):
        for program, grows in ((regular, False), (irregular, True)):
            before = {site for site, limit in limits.items() if limit <= SHORT_LIMIT}
            np.testing.assert_allclose(np.asarray(program(wf)), program(np))
            assert ({site for site, limit in limits.items() if limit <= SHORT_LIMIT} > before) == grows


def test_lengths_of_no_order_are_planned_once() -> None:
    """Test that the plans for rows of random lengths are reused. The program runs three times, and the third run makes no new plan."""
    source = np.random.default_rng(0)
    ends = np.concatenate([[0], source.integers(0, 7, 900)]).cumsum()
    columns, values = source.integers(0, 50, ends[-1]), source.random(ends[-1])

    def product(m: ModuleType) -> Any:
        x, a, at = m.arange(50.0), m.asarray(values), m.asarray(columns)
        y = m.empty(900)
        for k in range(900):
            y[k] = a[ends[k] : ends[k + 1]] @ x[at[ends[k] : ends[k + 1]]]
        return y

    expected = product(np)
    with wf.device("cpu"):
        for limit in (180, 30, 1):
            before = wf.statistics()["plans"]
            np.testing.assert_allclose(np.asarray(product(wf)), expected)
            assert wf.statistics()["plans"] - before < limit


def test_long_programs_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test that a long program reuses a plan for its exact sizes."""

    def program(m: ModuleType) -> Any:
        x, total = m.arange(N, dtype=float), m.zeros(N)
        for k in range(plan_cache.AT_ONCE):
            total = total * 0.5 + x[::-1] * (k % 5)
        return total

    with wf.device("cpu"):
        for wanted in (1, 0):
            monkeypatch.setattr(execute, "_plans", type(execute._plans)())
            before = wf.statistics()["plans"]
            np.testing.assert_array_equal(np.asarray(program(wf)), program(np))
            assert (wf.statistics()["plans"] > before) == wanted


def test_constants_with_the_bits_of_another_dtype() -> None:
    mask, brains = np.arange(40_000) % 3 == 0, np.ones(40_000, pytest.importorskip("ml_dtypes").bfloat16)

    def program(m: ModuleType, number: int) -> list[Any]:
        numbers = m.where(m.asarray(mask), m.full(mask.size, number, np.int16), m.asarray(mask).astype(np.int16))
        return [numbers, m.where(m.asarray(mask), m.asarray(brains), m.zeros(mask.size, brains.dtype))]

    with wf.device("cpu"), override(interpret="never"):
        for number in (5, 0, 7):
            found = program(wf, number)
            wf.evaluate(*found)
            for each, expected in zip(found, program(np, number), strict=True):
                np.testing.assert_array_equal(np.asarray(each), expected, strict=True)
