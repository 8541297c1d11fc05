"""Time to the first result in new processes, with an empty and a filled cache.

Each figure is the median, over several processes, of the time from the end of the imports to the result. The time of
imports is listed separately. Installed peers also run the pointwise kernel and, except for Numba, softmax.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

TIMES = 5
_ROOT = Path(__file__).resolve().parents[1]

_FRAME = """
import json, sys, time
start = time.perf_counter()
import numpy as np
{imports}
x = np.linspace(0.1, 2, 1 << 16, dtype=np.float32).reshape(256, 256)
begin = time.perf_counter()
{work}
end = time.perf_counter()
loaded = sorted({{"llvmlite", "sympy"}} & set(sys.modules))
print(json.dumps([1e3 * (begin - start), 1e3 * (end - begin), loaded]))
"""

_SOFTMAX = "{m}.exp(x - x.max(1)[:, None]) / {m}.exp(x - x.max(1)[:, None]).sum(1)[:, None]"
_CHAIN = "0.5 * x + x * x - 2"
_WEFT = "import weft as wf\nfrom weft import cuda"
_PTX = """
def kernel(r, x):
    i = cuda.grid(1)
    if i < r.size:
        r[i] = {body}
cuda.compile_ptx(kernel, "void(float32[::1], float32[::1])", cc=(9, 0))
"""

# name of the measurement -> imports, work
WORK: dict[str, tuple[str, str]] = {
    "pointwise kernel": (_WEFT, f"x = wf.asarray(x); np.asarray({_CHAIN})"),
    "softmax": (_WEFT, f"x = wf.asarray(x); np.asarray({_SOFTMAX.format(m='wf')})"),
    "PTX of a vector add": (_WEFT, _PTX.format(body="x[i] + x[i]")),
    "PTX of exp": (_WEFT, "import math" + _PTX.format(body="math.exp(x[i])")),
}
# The same for peers, by module.
PEERS: dict[str, dict[str, tuple[str, str]]] = {
    "jax": {
        "pointwise kernel": ("import jax", f"np.asarray(jax.jit(lambda x: {_CHAIN})(x))"),
        "softmax": ("import jax, jax.numpy as jnp", f"np.asarray(jax.jit(lambda x: {_SOFTMAX.format(m='jnp')})(x))"),
    },
    "numba": {
        "pointwise kernel": ("import numba", f"numba.njit(parallel=True)(lambda x: {_CHAIN})(x)"),
    },
    "torch": {
        "pointwise kernel": ("import torch", f"torch.compile(lambda x: {_CHAIN})(torch.from_numpy(x)).numpy()"),
        "softmax": ("import torch", "torch.compile(lambda x: torch.softmax(x, 1))(torch.from_numpy(x)).numpy()"),
    },
}


def once(imports: str, work: str, cache: str) -> tuple[float, float, list[str]]:
    """Run code in a new process, and return the milliseconds for its imports and for its work.

    Also return which of the modules llvmlite and sympy were loaded.
    """
    told = {"PYTHONPATH": str(_ROOT / "src"), "WEFT_DEVICE": "cpu", "WEFT_CACHE_DIR": cache, "JAX_PLATFORMS": "cpu"}
    code = _FRAME.format(imports=imports, work=work)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **told}, check=True
    )
    imported, worked, loaded = json.loads(done.stdout.splitlines()[-1])
    return imported, worked, loaded


def measure() -> dict[str, str]:
    """Run the benchmarks with weft and other libraries. Return a dict that maps benchmark names to texts with the measured times."""
    results = {}
    for name, (imports, work) in WORK.items():
        first, second = [], []
        for _ in range(TIMES):
            with tempfile.TemporaryDirectory() as folder:
                first.append(once(imports, work, folder))
                second.append(once(imports, work, folder))
        results[name] = (
            f"{statistics.median(t for _, t, _ in first):.0f} ms with nothing cached, "
            f"{statistics.median(t for _, t, _ in second):.0f} ms with everything cached "
            f"(imports {statistics.median(t for t, _, _ in second):.0f} ms, "
            f"the second process loads {' and '.join(second[-1][2]) or 'no compiler'})"
        )
    for peer, programs in PEERS.items():
        if find_spec(peer) is None:
            continue
        for name, (imports, work) in programs.items():
            taken = [once(imports, work, "") for _ in range(2)]
            results[f"{name}, {peer}"] = (
                f"{statistics.median(t for _, t, _ in taken):.0f} ms "
                f"(imports {statistics.median(t for t, _, _ in taken):.0f} ms)"
            )
    return results
