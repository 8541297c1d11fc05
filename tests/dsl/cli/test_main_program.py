"""Tests that programs behave under ``weft run`` as under ``python``.

Their output, exit status and files are compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Case:
    """The files of a program, the command line after ``python``, and the standard input."""

    files: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ("script.py",)
    stdin: str = ""


def _script(text: str, **beside: str) -> Case:
    return Case({"script.py": text, **{f"{name}.py": source for name, source in beside.items()}})


# Programs call ``on_weft(x)`` to assert that x is weft's array under weft, and NumPy's under Python.
CHECK = """
import os
def on_weft(x):
    assert type(x).__module__.startswith("weft") == (os.environ["ON_WEFT"] == "1"), type(x)
"""

_WORK = """
from check import on_weft
import numpy as np
class Result:
    def __init__(self, value): self.value = value
def work(n):
    x = np.arange(n * 1000.0)
    on_weft(x)
    return Result(float(x.sum()))
"""

_POOL = """
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.get_context("%s").Pool(2) as pool:
        print([r.value for r in pool.map(work, [1, 2, 3])], {type(r).__module__ for r in pool.map(work, [4])})
"""

_PACKAGE = {
    "package/__init__.py": "print('package', __name__)\nfrom . import sub\nimport package.other\n",
    "package/sub.py": "from numpy import arange\nfrom check import on_weft\ndef f(): x = arange(5000.0); on_weft(x); return x.sum()\n",
    "package/other.py": "from package.sub import f\nfrom package import sub\nprint(sub.f is f, __package__, __spec__.name)\n",
}

CASES = {
    "variables": _script(
        "import __main__, sys, os\nimport numpy as np\nprint(sorted(vars()), __main__.__dict__ is globals(), __builtins__)\n"
        "print(__file__, __spec__, __package__, type(__loader__).__name__, __doc__, __cached__, globals().get('__annotations__'))\n"
        "x = 5\nprint(__main__.x, sys.argv, sys.path[0] == os.getcwd(), os.path.basename(sys.path[1]))\n"
    ),
    "pickle": _script(
        _WORK + "import pickle, copy\nr = pickle.loads(pickle.dumps(work(2)))\nprint(type(r) is Result, r.value)\n"
        "pickle.dump(r, open('r.pickle', 'wb'))\nprint(type(copy.deepcopy(r)), pickle.loads(pickle.dumps(np.sum)) is not None)\n"
    ),
    **{f"pool {kind}": _script(_WORK + _POOL % kind) for kind in ("fork", "spawn", "forkserver")},
    "executor": _script(
        _WORK + "from concurrent.futures import ProcessPoolExecutor\nif __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(2) as pool: print([r.value for r in pool.map(work, range(1, 4))])\n"
    ),
    "unittest": _script(
        "import unittest, io\nimport numpy as np\nfrom unittest import mock\nclass Small(unittest.TestCase):\n"
        "    def test_sum(self): self.assertEqual(np.ones(5000).sum(), 5000)\n"
        "    def test_wrong(self): self.assertEqual(np.ones(5000).sum(), 5)\n"
        "    @mock.patch('builtins.open', mock.mock_open(read_data='data'))\n"
        "    def test_builtins(self): self.assertEqual(open('none').read(), 'data')\n"
        "class Quiet(unittest.TextTestRunner):\n    def run(self, t):\n"
        "        r = super().run(t); print(r.testsRun, r.failures[0][1]); return r\n"
        "unittest.main(testRunner=Quiet(stream=io.StringIO()))\n"
    ),
    "doctest": _script(
        "from check import on_weft\ndef double(x):\n    '''\n    >>> import numpy as np\n    >>> x = np.arange(3000.0); on_weft(x)\n"
        "    >>> double(x).sum()\n    8997000.0\n    >>> double(1)\n    3\n    >>> 1/0\n    '''\n    return 2 * x\n"
        "import doctest\nprint(doctest.testmod())\n"
    ),
    "dataclasses": _script(
        "from __future__ import annotations\nfrom dataclasses import dataclass, fields\nfrom typing import ClassVar, get_type_hints\n"
        "import numpy as np\n@dataclass\nclass P:\n    x: float\n    next: P | None = None\n    of: ClassVar[int] = 3\n"
        "print([f.name for f in fields(P)], get_type_hints(P), P(1.5))\n"
    ),
    "annotations": _script("class A:\n    x: int\ndef f(a: A) -> A: pass\nprint(f.__annotations__, A.__annotations__)\n"),
    "package": Case(
        {"script.py": "from package.sub import f\nimport package\nprint(f(), package.sub.f is f)\n", **_PACKAGE}
    ),
    "module": Case(
        {
            "package/__main__.py": "import sys, argparse\nfrom .sub import f\nfrom . import other\n"
            "print(__name__, __package__, __spec__.name, f(), len(sys.argv), sys.argv[0] == __file__)\n"
            "argparse.ArgumentParser().parse_args()\n",
            **_PACKAGE,
        },
        ("-m", "package", "--wrong"),
    ),
    "folder": Case(
        {"app/__main__.py": "import near, sys\nprint(__name__, __file__, sys.argv, sys.path[0])\n", "app/near.py": "print(__name__)\n"},
        ("app", "-x"),
    ),
    "missing module": Case({}, ("-m", "no_such_module")),
    "code": Case(
        {"beside.py": "import numpy as np\nfrom check import on_weft\non_weft(np.zeros(5000))\n"},
        ("-c", "import beside, sys; '--device'; print(sys.argv, repr(sys.path[0]), sorted(vars())); import beside.no", "-a", "--device"),
    ),
    "standard input": Case(
        stdin="import sys\nimport numpy as np\nfrom check import on_weft\non_weft(np.zeros(5000))\nprint(sys.argv, __file__)\n"
        "def f(): raise ValueError('no')\nf()\n",
        command=("-", "a", "--compare"),
    ),
    "redirected input": Case(stdin="import sys\nprint(sys.argv, __name__)\nsys.exit(3)\n", command=()),
    "exit with text": _script("import sys, atexit\natexit.register(print, 'at exit')\nsys.exit('the end')\n"),
    "exit with None": _script(
        "import sys, atexit, __main__\nx = 3\natexit.register(lambda: print(__main__.x, sys.modules['__main__'] is __main__))\nsys.exit()\n"
    ),
    "exit of an object": _script("raise SystemExit((1, 2))\n"),
    "interrupt": _script("import numpy as np\ntry:\n    np.zeros(5000).sum()\nfinally:\n    raise KeyboardInterrupt\n"),
    "chained errors": _script(
        "import numpy as np\nimport traceback\ndef inner(x):\n    return x[9999]\ntry:\n    import broken\nexcept ValueError:\n"
        "    traceback.print_exc()\ntry:\n    inner([])\nexcept IndexError as e:\n    raise ValueError('outer') from e\n",
        broken="from numpy import sin\nimport more_broken\n",
        more_broken="import numpy\nraise ValueError('as it loads')\n",
    ),
    "syntax error": _script("import numpy\nx = (1,\n  2 3)\n"),
    "hook": _script(
        "import sys, traceback\nsys.excepthook = lambda *e: print(''.join(traceback.format_exception(*e)))\ndef f(): 1 / 0\nf()\n"
    ),
    "sources": _script(
        "import inspect, importlib, beside, runpy, numpy as np\nfrom check import on_weft\nclass A:\n    def f(self): return 1\n"
        "print(inspect.getsource(A), inspect.getsource(beside.make), inspect.getmodule(A))\non_weft(beside.make())\n"
        "open('beside.py', 'a').write('made = make()\\n')\nimportlib.invalidate_caches()\nimportlib.reload(beside)\non_weft(beside.made)\n"
        "on_weft(runpy.run_path('beside.py')['made'])\nfound = {}\nexec('import numpy', found)\nexec('import numpy as also', named := {'__name__': '__main__'})\n"
        "on_weft(found['numpy'].zeros(5000))\non_weft(named['also'].zeros(5000))\n"
        "import pkgutil\nprint([m.name for m in pkgutil.iter_modules(['.'])], __import__('os').sep)\n",
        beside="import numpy as np\ndef make():\n    return np.zeros(5000)\n",
    ),
    "subprocess": _script(
        "import subprocess, sys\nif len(sys.argv) > 1: sys.exit(int(sys.argv[1]))\n"
        "print(subprocess.run([sys.executable, __file__, '4']).returncode, subprocess.check_output([sys.executable, '-c', 'print(1)']))\n"
    ),
    "warnings": _script(
        "import warnings, logging, beside\ndef f():\n    warnings.warn('of f', stacklevel=2)\nf()\nwarnings.warn('old', DeprecationWarning)\n"
        "beside.f()\nlogging.basicConfig(format='%(module)s %(funcName)s %(lineno)d %(name)s')\nlogging.getLogger(__name__).warning('w')\n",
        beside="import warnings\ndef f(): warnings.warn('old', DeprecationWarning); warnings.warn('up', stacklevel=2)\n",
    ),
    "threads": _script(
        "import threading, pickle, __main__, time\nimport numpy as np\nclass A: pass\ndef work():\n    time.sleep(0.1)\n"
        "    x = np.ones(5000); print(x.sum(), pickle.loads(pickle.dumps(A())).__class__ is __main__.A)\nthreading.Thread(target=work).start()\n"
    ),
    "names": _script(
        "import gettext, builtins\ngettext.NullTranslations().install()\nbuiltins.extra = 7\nprint(_('text'), extra, __builtins__.extra)\n"
        "import beside\n",
        beside="print(extra, __name__, __file__, __spec__.name, sorted(vars()))\n",
    ),
    "coding": _script("# coding: latin-1\nprint(len('\u00e4'), ascii('\u00e4'))\n"),
    "file of an outer folder": Case(
        {"inner/script.py": "import near, sys  # --verify\nprint(__file__, sys.argv, sys.path[0])\n", "inner/near.py": "print(__file__)\n"},
        ("inner/script.py", "--verify", "--", "x"),
    ),
}  # fmt: skip


def _start(folder: Path, case: Case, weft: bool) -> subprocess.Popen[str]:
    folder.mkdir()
    for name, text in {"check.py": CHECK, **case.files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="latin-1" if "latin-1" in text else "utf-8")
    source = str(Path(__file__).resolve().parents[3] / "src")
    environment = {**os.environ, "ON_WEFT": str(int(weft)), "PYTHONPATH": source, "PYTHONHASHSEED": "0"}
    command = [sys.executable, *(("-m", "weft", "run") if weft else ()), *case.command]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdin=-1, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(case.stdin)
    return process


def _result(folder: Path, process: subprocess.Popen[str]) -> dict[str, object]:
    output, errors = (text.replace(str(folder), "FOLDER") for text in process.communicate(timeout=40))
    written = {
        str(path.relative_to(folder)): path.read_bytes().replace(os.fsencode(folder), b"FOLDER")
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    return {"status": process.returncode, "output": output, "errors": errors, "files": written}


@pytest.mark.parametrize("name", CASES)
def test_weft_run_is_python(name: str, tmp_path: Path) -> None:
    folders = {weft: tmp_path / ("weft" if weft else "python") for weft in (False, True)}
    processes = {weft: _start(folder, CASES[name], weft) for weft, folder in folders.items()}
    wanted, found = (_result(folders[weft], processes[weft]) for weft in (False, True))
    assert found == wanted
