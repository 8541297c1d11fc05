"""Tests of the explanations that ``weft run --compare`` prints for slow programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from weft.dsl.cli.advice import remedy_for
from weft.dsl.cli.compare import Outcome
from weft.dsl.cli.reasons import count_reads, explain_speed
from weft.dsl.script.redirect import load_program

FIGURES = Outcome(1.0, kernels=100, bytes=10**9, outside=0.1)


@pytest.mark.cpu
def test_lines_that_ask_for_values(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nx = np.arange(20_000.0)\nfor k in range(20):\n    x = x * 0.5\n"
        "    if x.sum() < k:\n        pass\nprint(x.mean() > 3, float(x[0]))\n"
    )
    (reason,) = explain_speed(lambda: load_program(script, "script"), FIGURES, 1.0)
    assert reason.startswith("values are read 20 times at ") and "script.py:5" in reason
    (figures,) = explain_speed(lambda: None, FIGURES, 0.5)
    assert figures == "the run spends 900 ms in kernels and library functions, and NumPy's whole run 500 ms"
    assert "still made plans or interpreted" in explain_speed(lambda: None, replace(FIGURES, settled=False), 0.5)[0]


@pytest.mark.cpu
def test_functions_of_numpy_that_read_recorded_scalars_are_counted(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nx = np.arange(200_000.0).reshape(400, 500)\nfor k in range(20):\n    x = np.roll(x, k, 0) * 0.5\n"
        "    row, column = np.unravel_index(np.argmax(np.sqrt(x)), x.shape)\n"
    )
    with count_reads() as reads:
        load_program(script, "script")
    assert reads[str(script), 5] >= 19


@pytest.mark.cpu
def test_lines_with_host_time_and_a_remedy(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\ntotal = 0\nwhile total < 3_000_000:\n    total += len(str(total)) // 7 + 1\n"
    )
    reasons = explain_speed(lambda: load_program(script, "script"), replace(FIGURES, outside=0.9), 0.01)
    assert "mostly in Python, at " in reasons[0] and "script.py:4 (" in reasons[0]
    assert reasons[0].endswith(": replace Python loops with array operations, or write a kernel")
    assert reasons[1] == "NumPy's whole run takes only 10 ms, so there is little to gain"


def test_small_arrays_and_time_outside() -> None:
    assert "no kernel ran" in explain_speed(lambda: None, replace(FIGURES, kernels=0), 1.0)[0]
    small, outside = explain_speed(lambda: None, replace(FIGURES, bytes=100 * 16 * 500, outside=0.9), 1.0)
    assert "about 500 elements" in small and "90 % of the time" in outside


def test_programs_with_large_arrays_are_not_told_to_use_larger_arrays() -> None:
    assert remedy_for("weft") == "use larger arrays, or fewer array operations in Python loops"
    assert remedy_for("weft", large=True) == ""
