"""Tests of kernels on the host with many synchronization points."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

from weft import cuda
from weft.codegen import lower_stages, resolve_target
from weft.codegen.llvm.host import MANY_LOOPS


def written_out(count: int, in_loop: bool) -> Any:
    """Return a kernel whose source repeats two barriers `count` times, inside a loop if `in_loop`."""
    lines = ["s = cuda.shared.array(40, np.int64)", "t = cuda.threadIdx.x", "v = x[cuda.grid(1)]"]
    if in_loop:
        lines.append("for _ in range(2):")
    for k in range(count):
        more = ["s[t] = v", "cuda.syncthreads()", f"v = 3 * v + s[(t + {k % 7}) % 40]", "cuda.syncthreads()"]
        more += [f"if v == {k}: return"] if k % 10 == 9 else []
        lines += ["    " * in_loop + line for line in more]
    lines.append("o[cuda.grid(1)] = v")
    text = "def kernel(x, o):\n" + "".join(f"    {line}\n" for line in lines)
    file = f"<barriers {count} {in_loop}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope: dict[str, Any] = {"cuda": cuda, "np": np}
    exec(compile(text, file, "exec"), scope)
    return cuda.jit(scope["kernel"])


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize("count", [5, 60])
def test_many_barriers(count: int, in_loop: bool) -> None:
    """Test that the code of a kernel with many barriers is split into functions."""
    kernel = written_out(count, in_loop)
    x = np.random.default_rng(0).integers(1 << 40, 1 << 50, 120)
    out = np.zeros_like(x)
    kernel[3, 40](x, out)
    rows = x.reshape(3, 40)
    for k in [*range(count)] * (2 if in_loop else 1):
        rows = 3 * rows + np.roll(rows, -(k % 7), 1)
    np.testing.assert_array_equal(out.reshape(3, 40), rows)
    (found,) = kernel.overloads.values()
    text = lower_stages(found.kernel, resolve_target("host"))["llvm"]
    functions = text.count("\ndefine ")
    assert functions < 5 if count == 5 else functions > MANY_LOOPS // 3
