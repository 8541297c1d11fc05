"""Tests of the types of a kernel's variables."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from weft import cuda
from weft.dsl.kernel.language.compiler import Compiler


def test_many_variables_are_widened_in_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = range(100)
    lines = ["def kernel(out):", *(f"    v{k} = {k}" for k in numbers), "    for _ in range(2):"]
    lines += [f"        v{k} = v{k} + 0.5" for k in numbers]
    lines += [f"    out[{k}] = v{k}" for k in numbers]
    path = tmp_path / "many.py"
    path.write_text("\n".join(lines))
    spec = spec_from_file_location("many", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    runs = []
    monkeypatch.setattr(Compiler, "begin", lambda c, name, begin=Compiler.begin: [runs.append(name), begin(c, name)])
    out = np.zeros(len(numbers))
    cuda.jit(module.kernel)[1, 1](out)
    np.testing.assert_array_equal(out, np.arange(len(numbers)) + 1.0)
    assert len(runs) == 2
