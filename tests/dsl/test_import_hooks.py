"""Tests of weft's registration with other packages.

It happens once both weft and the other package are imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# a package with einops' table of backends, as far as weft reads it
BACKENDS = """
class AbstractBackend: pass
class NumpyBackend(AbstractBackend):
    framework_name = "numpy"
"""


def run(code: str, folder: Path, device: str = "cpu", backends: str = BACKENDS) -> str:
    """Run code in a new process with a stand-in for einops. Return what the code prints."""
    (folder / "einops").mkdir(exist_ok=True)
    (folder / "einops" / "__init__.py").write_text("")
    (folder / "einops" / "_backends.py").write_text(backends)
    path = os.pathsep.join([str(folder), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, "WEFT_DEVICE": device},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


USE = """
(backend,) = einops._backends.NumpyBackend.__subclasses__()
made = backend()
print(backend.framework_name, made.is_appropriate_type(weft.ones(2)), made.is_appropriate_type([1.0]))
print(type(made.from_numpy(weft.ones(2).numpy())).__name__, type(made.to_numpy(weft.ones(2))).__name__)
"""


@pytest.mark.parametrize("order", ["import weft, einops._backends", "import einops._backends, weft"])
def test_in_both_orders(order: str, tmp_path: Path) -> None:
    assert run(order + USE, tmp_path) == "weft True False\nArray ndarray\n"


def test_a_search_or_a_failed_import_before_the_import_changes_nothing(tmp_path: Path) -> None:
    search = "import weft, importlib.util as u; assert u.find_spec('einops._backends'); import einops._backends"
    assert run(search + USE, tmp_path) == "weft True False\nArray ndarray\n"
    fail = """
import os, sys, weft, einops
os.environ["FAIL"] = "1"
try:
    import einops._backends
except KeyError:
    pass
os.environ["FAIL"] = "0"
import einops._backends
"""
    backends = "import os\nif os.environ.get('FAIL') == '1': raise KeyError\n" + BACKENDS
    assert run(fail + USE, tmp_path, backends=backends) == "weft True False\nArray ndarray\n"


def test_modules_keep_their_loader(tmp_path: Path) -> None:
    code = (
        "import weft, inspect, einops._backends as b; print(inspect.getsource(b).strip() == %r, b.__spec__.loader.name)"
    )
    assert run(code % BACKENDS.strip(), tmp_path) == "True einops._backends\n"


def test_other_packages_are_not_imported(tmp_path: Path) -> None:
    assert run("import weft, sys; weft.ones(3).sum(); print('einops' in sys.modules)", tmp_path) == "False\n"


def test_a_package_without_the_table_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "torch/utils/data/_utils").mkdir(parents=True)
    for part in ("torch", "torch/utils", "torch/utils/data", "torch/utils/data/_utils"):
        (tmp_path / part / "__init__.py").write_text("")
    (tmp_path / "torch/utils/data/_utils/collate.py").write_text("default_collate_fn_map = {}\n")
    code = "import weft, torch.utils.data._utils.collate as c; print(c.default_collate_fn_map)"
    assert run(code, tmp_path) == "{}\n"


# a function that accepts NumPy's arrays only, writes in place whatever their flags are, and returns its argument, as
# bottleneck's does
REPLACE = """
import numpy as np
def replace(a, old, new):
    if type(a) is not np.ndarray:
        raise TypeError("works in place so input must be an array, not (e.g.) a list")
    memory = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_double * a.size).from_address(a.ctypes.data))
    memory[memory == old] = new
    return a
"""


@pytest.mark.parametrize("order", ["import weft, bottleneck", "import bottleneck, weft"])
@pytest.mark.parametrize("device", ["cpu", "simt"])
def test_bottleneck_replaces_in_place(order: str, device: str, tmp_path: Path) -> None:
    (tmp_path / "bottleneck.py").write_text(REPLACE)
    code = (
        f"{order}; import numpy as np\nx = weft.arange(4.0) % 2; view = x[1:]; before = x + 1\n"
        "print(bottleneck.replace(x, 1.0, 5.0) is x, x, view, before)\n"
        "print(bottleneck.replace(a=np.ones(2), old=1, new=2), bottleneck.replace.__name__)\n"
        "try: bottleneck.replace([1.0], 1, 2)\nexcept TypeError as error: print(error)\n"
    )
    expected = "True [0. 5. 0. 5.] [5. 0. 5.] [1. 2. 1. 2.]\n[2. 2.] replace\n"
    assert run(code, tmp_path, device) == expected + "works in place so input must be an array, not (e.g.) a list\n"


# a function that accepts arrays of one library only, under two names, as array-api-compat's does
NAMESPACE = """
import numpy
def array_namespace(*xs, api_version=None):
    found = {numpy if type(x) is numpy.ndarray else x.__array_namespace__() for x in xs}
    if len(found) > 1:
        raise TypeError("Multiple namespaces for array inputs")
    return found.pop()
get_namespace = array_namespace
"""


@pytest.mark.parametrize("order", ["import weft, array_api_compat as c", "import array_api_compat as c, weft"])
def test_arrays_beside_numpys_have_wefts_namespace(order: str, tmp_path: Path) -> None:
    (tmp_path / "array_api_compat" / "common").mkdir(parents=True)
    (tmp_path / "array_api_compat" / "common" / "_helpers.py").write_text(NAMESPACE)
    for folder, source in (("common", "._helpers"), ("", ".common")):
        text = f"from {source} import array_namespace, get_namespace\n"
        (tmp_path / "array_api_compat" / folder / "__init__.py").write_text(text)
    code = (
        f"{order}; import numpy as np\nx, y = weft.ones(3), np.ones(3)\n"
        "for find in (c.array_namespace, c.get_namespace, c.common.array_namespace):\n"
        "    print(*(each.__name__ for each in (find(x, y), find(y, x), find(x), find(y, y, api_version=None))))\n"
    )
    assert run(code, tmp_path) == 3 * "weft weft weft numpy\n"


FROM_NUMPY = """
import numpy
def from_numpy(x):
    if not isinstance(x, numpy.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(x).__name__})")
    return x
"""


@pytest.mark.parametrize("order", ["import weft, torch", "import torch, weft"])
def test_torch_makes_tensors_from_wefts_arrays(order: str, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(FROM_NUMPY)
    code = (
        f"{order}\nx = weft.arange(3.0); shared = torch.from_numpy(x); shared[0] = 7.0; print(x)\n"
        "try: torch.from_numpy([1.0])\nexcept TypeError as error: print(error)\n"
    )
    assert run(code, tmp_path) == "[7. 1. 2.]\nexpected np.ndarray (got list)\n"


def test_pytest_hides_wefts_frames(tmp_path: Path) -> None:
    (tmp_path / "test_shapes.py").write_text(
        "import weft as wf\ndef test_shapes():\n    wf.ones(3) + wf.ones(4)\n"
        "def test_later():\n    wf.linalg.inv(wf.ones((2, 3)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "WEFT_DEVICE": "cpu"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    shown = [
        subprocess.run(
            command, env={**environment, "WEFT_STRICT": strict}, capture_output=True, text=True, check=False
        ).stdout
        for strict in ("0", "1")
    ]
    for text in shown:
        assert "could not be broadcast" in text and "wf.ones(3) + wf.ones(4)" in text and "2 failed" in text
    assert "dsl/" not in shown[0] and "dsl/arrays/operators.py" in shown[1]
