"""Tests of plans that are stored on disk.

Other processes read the stored plans.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.codegen.obtain import CodeCache
from weft.fusion.graph.sizes import Computation
from weft.fusion.plan import plan_cache, plan_store
from weft.fusion.run import execute, tiers
from weft.runtime import CacheWarning, disk_cache, override

pytestmark = pytest.mark.cpu

PLANNER = (
    "weft.fusion.run.planning", "weft.fusion.plan.schedule", "weft.fusion.plan.task", "weft.fusion.lower.lowering", "weft.fusion.lower.kernels",
    "weft.fusion.explain.explanation", "weft.codegen.passes", "weft.codegen.llvm", "llvmlite", "sympy",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _stored(tmp_path: Path) -> Iterator[None]:
    with override(plans=True, cache_dir=str(tmp_path / "cache")):
        yield


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the caches of plans and of loaded kernels, which are empty in a new process."""
    monkeypatch.setattr(execute, "_plans", OrderedDict())
    monkeypatch.setattr(plan_cache, "_known", OrderedDict())
    monkeypatch.setattr(plan_cache, "_absent", set())
    monkeypatch.setattr("weft.codegen.obtain._functions", CodeCache())


def counts(work: Callable[[], Any]) -> tuple[Any, int, int]:
    """Return three values: the result of `work`, the number of plans that `work` made, and the number of plans that it
    read.
    """
    before = wf.statistics()
    found = work()
    after = wf.statistics()
    return found, after["plans"] - before["plans"], after["plans_read"] - before["plans_read"]


def chain(x: Any, y: Any) -> Any:
    return wf.sqrt(x * 2 + y) - x / 3.7


def rows(x: Any, y: Any) -> Any:
    return (x * y).sum(axis=1) + (x - x.mean(axis=1, keepdims=True)).std()


def stencil(x: Any, y: Any) -> Any:
    z = x.copy()
    for _ in range(3):
        z[1:-1, 1:-1] = 0.25 * (z[2:, 1:-1] + z[:-2, 1:-1] + y[1:-1, 2:] + y[1:-1, :-2])
    return z


def gathered(x: Any, y: Any) -> Any:
    return wf.where(x > y, x[::-1], -y)[wf.asarray(np.array([3, 1, 2]))].cumsum(axis=1)


def product(x: Any, y: Any) -> Any:
    return (x @ y.T) * 2 + 1


def cast(x: Any, y: Any) -> Any:
    return (x * 9).astype(np.int32) + wf.arange(70) * y.astype(np.float32)


def lone_loop(x: Any, y: Any) -> Any:
    """Return a pending result that is computed with an inner loop of NumPy."""
    flags = wf.evaluate(wf.tile(x, (20, 20)) > 0.999)
    return flags.argmax() + flags.sum()


def library_calls(x: Any, y: Any) -> Any:
    """Return a pending result of library functions that have parameters, such as an axis."""
    spectrum = wf.fft.fftn(x + y) * 0.5
    return wf.fft.ifft(spectrum).real + wf.sort(x * y, axis=0) + wf.einsum("ij,kj,kl->il", x, y, y)


PROGRAMS = [chain, rows, stencil, gathered, product, cast, lone_loop, library_calls]


def arrays(shape: tuple[int, int] = (60, 70)) -> tuple[Any, Any]:
    source = np.random.default_rng(1)
    return wf.asarray(source.random(shape)), wf.asarray(source.random(shape))


@pytest.mark.filterwarnings("ignore::weft.HostFallbackWarning")
@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_plan_is_found_again(
    program: Callable[[Any, Any], Any], device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with wf.device(device):
        forget(monkeypatch)
        first, made, read = counts(lambda: np.array(program(*arrays())))
        assert made and not read
        forget(monkeypatch)
        again, made, read = counts(lambda: np.array(program(*arrays())))
        assert (made, bool(read)) == (0, True)
        assert first.tobytes() == again.tobytes()


def test_other_sizes_find_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with wf.device("cpu"):
        forget(monkeypatch)
        np.asarray(chain(*arrays()))
        np.asarray(rows(*arrays()))
        forget(monkeypatch)
        for shape in ((50, 80), (61, 70), (200, 33)):
            x, y = arrays(shape)
            a, b = x.numpy(), y.numpy()
            found, made, _ = counts(lambda x=x, y=y: np.array(chain(x, y)))  # type: ignore[misc]
            assert made == 0
            assert np.array_equal(found, np.sqrt(a * 2 + b) - a / 3.7)


def test_plans_for_some_sizes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test that the plan of a long program is not reused for other sizes."""
    monkeypatch.setattr(plan_cache, "AT_ONCE", 0)
    with wf.device("cpu"):
        for shape, wanted in (((60, 70), 1), ((60, 70), 0), ((50, 70), 1), ((50, 70), 0), ((60, 70), 0)):
            forget(monkeypatch)
            _, made, _ = counts(lambda shape=shape: np.array(chain(*arrays(shape))))  # type: ignore[misc]
            assert made == wanted


def test_nothing_stale_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with wf.device("cpu"):
        forget(monkeypatch)
        first = np.array(chain(*arrays()))
        for part in ("code_version", "source_digest"):
            forget(monkeypatch)
            with monkeypatch.context() as patch:
                patch.setattr(plan_store, part, lambda *folder: "another one")
                if part == "code_version":
                    patch.setattr("weft.codegen.obtain.code_version", lambda: "another one")
                plan_store._key_prefix.cache_clear()
                found, made, read = counts(lambda: np.array(chain(*arrays())))
            plan_store._key_prefix.cache_clear()
            assert (made, read) == (1, 0), part
            assert found.tobytes() == first.tobytes()
    with override(threads=3), wf.device("cpu"):
        forget(monkeypatch)
        _, made, read = counts(lambda: np.array(chain(*arrays())))
        assert (made, read) == (1, 0)


def test_a_plan_whose_kernel_is_gone_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    with wf.device("cpu"):
        forget(monkeypatch)
        first = np.array(chain(*arrays()))
        cache = disk_cache()
        assert cache is not None
        for path in Path(cache.folder).glob("*.weft"):
            code = cache.find(path.stem)
            if code is not None and code.kind == "object":
                path.unlink()
        forget(monkeypatch)
        found, made, read = counts(lambda: np.array(chain(*arrays())))
        assert (made, read) == (1, 0)
        assert found.tobytes() == first.tobytes()


def test_a_damaged_plan_is_removed_and_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    with wf.device("cpu"):
        forget(monkeypatch)
        first = np.array(chain(*arrays()))
        cache = disk_cache()
        assert cache is not None
        for path in Path(cache.folder).glob("*.weft"):
            code = cache.find(path.stem)
            if code is not None and code.kind == "plan":
                path.write_bytes(path.read_bytes()[:-1] + b"!")
        forget(monkeypatch)
        with pytest.warns(CacheWarning, match="damaged"):
            found, made, read = counts(lambda: np.array(chain(*arrays())))
        assert (made, read) == (1, 0)
        assert found.tobytes() == first.tobytes()


def test_a_users_function_has_no_name_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def program() -> Any:
        x, _ = arrays()
        f = wf.vectorize(lambda v: v * 3 + 1)
        return np.array(f(x))

    with wf.device("cpu"):
        forget(monkeypatch)
        first = program()
        forget(monkeypatch)
        again, _, read = counts(program)
        assert not read
        assert first.tobytes() == again.tobytes()


def test_profiles_tell_of_plans_that_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with wf.device("cpu"):
        notes = []
        for _ in range(2):
            forget(monkeypatch)
            with wf.profile() as p:
                np.asarray(rows(*arrays()))
            notes.append([launch.note for launch in p.launches])
        assert notes[0] == notes[1]
        assert any("test_plan_store.py" in member for note in notes[1] for member in note.members)


def test_the_time_lost_by_interpreting_is_known_to_the_next_process(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = wf.asarray(np.arange(500.0)), wf.asarray(np.ones(500))
    with override(interpret="never"):
        wf.evaluate(chain(x, y))  # (so that the description of the CPU is cached on disk)
    processes = 0
    with override(interpret="auto"):
        made = 0
        while not made and processes < 50:
            forget(monkeypatch)
            monkeypatch.setattr(tiers, "_forms", OrderedDict())
            monkeypatch.setattr(tiers, "_programs", OrderedDict())
            monkeypatch.setattr(tiers._Rate, "start", 0.0)
            with monkeypatch.context() as patch:  # a run costs about a third of a compilation
                patch.setattr(tiers, "thread_time", ticks(tiers.KERNEL / 2))
                found, made, _ = counts(lambda: np.asarray(chain(x, y + 1)))
            processes += 1
            assert np.allclose(found, np.sqrt(np.asarray(x) * 2 + np.asarray(y + 1)) - np.asarray(x) / 3.7, rtol=1e-15)
    assert 1 < processes < 50


def ticks(step: float) -> Callable[[], float]:
    """Return a clock that advances by a fixed step each time it is read."""
    now = itertools.count()
    return lambda: step * next(now)


def test_a_computation_is_data() -> None:
    lines = [["t0", "*", "x0", "x1"], ["", "<", "t0", 100], ["t1", "gcd", "t0", 12], ["", "!=", "x1", 0]]
    text = json.loads(json.dumps([2, lines, ["t1", 7, "x0"]]))
    for _ in range(6):  # interpreted at first, then compiled to a function
        computation = Computation.from_data(text)
        for _ in range(6):
            assert computation([4, 9]) == (12, 7, 4)
            assert computation([40, 9]) is None
            assert computation([4, 0]) is None
    for wrong in (
        [["t0", "import", "x0", 1]],
        [["t0; f()", "+", "x0", 1]],
        [["t0", "+", "__name__", 1]],
        [["t0", "+", [], 1]],
    ):
        with pytest.raises(ValueError):
            Computation.from_data([1, wrong, []])


SCRIPT = """
import sys
import numpy as np, weft as wf
x = wf.asarray(np.arange(90_000.0).reshape(300, 300))
r = (wf.sqrt(x * 2 + 1) - x / 3).sum(axis=1)
s = wf.where(x > 5, x[::-1], -x).std()
print(np.asarray(r).tobytes().hex()[:64], float(s))
print(wf.statistics()["plans"], sorted(set(sys.modules) & set({planner})))
"""


def test_a_new_process_loads_no_planner(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("{planner}", repr(PLANNER)))
    source = str(Path(__file__).resolve().parents[3] / "src")
    environment = {
        **os.environ,
        "PYTHONPATH": source,
        "WEFT_CACHE_DIR": str(tmp_path / "cache"),
        "WEFT_DEVICE": "cpu",
        "WEFT_INTERPRET": "never",
    }
    printed = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=True, env=environment
        )
        printed.append(done.stdout.splitlines())
    (first, cold), (second, warm) = printed
    assert first == second
    assert not cold.startswith("0 ")
    assert warm == "0 []"
