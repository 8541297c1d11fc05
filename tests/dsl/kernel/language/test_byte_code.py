"""Tests of functions without source text.

The syntax trees of these functions are reconstructed from byte code.
"""

from __future__ import annotations

import ast
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import pytest

import weft
from tests.dsl.kernel.language.random_programs import ProgramWriter
from weft import cuda
from weft.dsl.kernel.language.byte_code.instructions import Unreadable
from weft.dsl.kernel.language.byte_code.reader import equals, read_function

ROOT = Path(__file__).parents[4]
TESTS = sorted(ROOT.glob("tests/dsl/kernel/*.py")) + sorted(ROOT.glob("examples/**/*.py"))
NAMES = [
    "docs/kernels.md",
    "docs/numba.md",
    "docs/guide/kernel_language.md",
    "docs/guide/kernel_libraries.md",
]
DOCUMENTS = [ROOT / name for name in NAMES]
NOT_READ = re.compile(
    r"^(`(with|try|import|class|super|match|async def|await)`|a comprehension|\*\*|the opcode |an expression that jumps)"
)


def functions_of(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of the functions and lambdas in a code object, except generators and coroutines."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            is_function = constant.co_flags & 2 and not constant.co_flags & (0x20 | 0x80 | 0x200)
            if is_function and (constant.co_name == "<lambda>" or not constant.co_name.startswith("<")):
                yield constant
            yield from functions_of(constant)


def function_of(text: str) -> FunctionType:
    """Execute a program and return its only function."""
    names: dict[str, Any] = {}
    exec(compile(text, "<string>", "exec", dont_inherit=True), names)
    return next(value for value in names.values() if isinstance(value, FunctionType))


def read(text: str) -> str:
    """Return the source text that is reconstructed from the byte code of a program's function."""
    return ast.unparse(read_function(function_of(text).__code__))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_functions_of_the_tests_and_examples(path: Path) -> None:
    for code in functions_of(compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True)):
        try:
            tree = read_function(code)
        except Unreadable as error:
            assert NOT_READ.match(error.message), (code, error.message)
        else:
            assert equals(tree, code)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_kernels_of_the_documents(path: Path) -> None:
    count = 0
    for block in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.S):
        for code in functions_of(compile(block, str(path), "exec", dont_inherit=True)):
            if " try:" not in block:
                assert equals(read_function(code), code)
                count += 1
    assert count


class _Ended(Exception):
    pass


def _log(function: Any, seed: int) -> tuple[list[Any], Any]:
    source, log = random.Random(seed), []

    def note(*arguments: Any) -> int:
        log.append(arguments)
        if len(log) > 60:
            raise _Ended
        return source.choice((0, 0, 1, 2, 3))

    try:
        return log, function(note, note)
    except Exception as error:
        return log, (type(error), str(error))


def test_random_programs_run_alike() -> None:
    """Test that functions reconstructed from byte code behave like the originals.

    Python 3.14 compiles `and` within `or` to jumps into the other operand, which are rejected if the value is used.
    """
    refused = 0
    for seed in range(60):
        text = ProgramWriter(random.Random(seed)).program()
        function = function_of(text)
        try:
            again = function_of(ast.unparse(read_function(function.__code__)))
        except Unreadable:
            refused += 1
            continue
        for number in range(10):
            assert _log(function, number) == _log(again, number), text
    assert refused <= (0 if sys.version_info < (3, 14) else 5)


@pytest.mark.parametrize(
    "condition",
    [
        "0 < y < h and 0 < x < w",
        "x == 1 or 0 < y < h - 1 or 0 < x < w - 1",
        "not (0 < y < h and 0 < x < w)",
        "(0 < y < h or 1 < x < 3) and 0 < x < w - 1 < 100 and y",
    ],
)
@pytest.mark.parametrize(
    "statement", ["if {}: f(x)", "while {}: x = f(x)", "f(x if {} else y)", "if {}:\n  f(x)\n else:\n  f(y)\n f(h)"]
)
def test_chained_comparisons_in_conditions(condition: str, statement: str) -> None:
    code = function_of(f"def g(f, x, y, h, w):\n {statement.format(condition)}").__code__
    assert equals(read_function(code), code)


PROGRAM = """
def f(x, n):
    for i in range(n):
        if x[i] > 3 and n != 2:
            x[i] -= 1
        elif i:
            break
    else:
        return x[0] + 2
    return n
"""


@pytest.mark.parametrize(
    "old, new",
    [
        ("> 3", ">= 3"),
        ("> 3", "> 3.0"),
        ("-= 1", "+= 1"),
        ("-= 1", "-= True"),
        ("and", "or"),
        ("!= 2", "== 2"),
        ("break", "continue"),
        ("break", "return"),
        ("elif i", "elif n"),
        ("x[0] + 2", "x[1] + 2"),
        ("x[0] + 2", "2 + x[0]"),
        ("for i", "for j"),
        ("def f(x, n)", "def f(n, x)"),
        ("    else:\n        return x[0] + 2\n", ""),
    ],
)
def test_a_tree_that_differs_is_not_taken(old: str, new: str) -> None:
    code = function_of(PROGRAM).__code__
    tree, other = (ast.parse(text).body[0] for text in (PROGRAM, PROGRAM.replace(old, new, 1)))
    assert isinstance(tree, ast.FunctionDef) and isinstance(other, ast.FunctionDef)
    assert equals(tree, code)
    assert not equals(other, code)


@pytest.mark.parametrize(
    "line, what",
    [
        ("with x: pass", "`with`"),
        ("import math", "`import`"),
        ("y = {k for k in x}", "a comprehension"),
        ("class y: pass", "`class`"),
        ("y = f(**x)", r"\*\*"),
        ("a, *b = x", "a starred target"),
    ],
)
def test_what_is_not_read_names_its_line(line: str, what: str) -> None:
    function = function_of(f"def f(x):\n    x[0] = 1\n    {line}\n")
    with pytest.raises(Unreadable, match=what) as error:
        read_function(function.__code__)
    assert error.value.line == 3
    with pytest.raises(weft.KernelSyntaxError, match=f"f has no source text, and {what}.*\n.*line 3$"):
        weft.kernel(function)[1, 1](np.zeros(1))


def test_try_is_not_read() -> None:
    text = "def f(x):\n    try:\n        x[0] = 1\n    except KeyError:\n        pass"
    with pytest.raises(weft.KernelSyntaxError, match="`try` is not read"):
        weft.kernel(function_of(text))[1, 1](np.zeros(1))


# -- syntax trees ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        ["while x[0] and (y or x[1] < y < 3):", "    x[0] -= 1"],
        ["x[1:y, ::2], y = y, x[..., None]"],
        ["a = b = x.shape[0]", "return a + b"],
        ["del x[0]", "del y"],
        ["return f'{x!r:>{y}} and {y}'"],
        ["return lambda a, b=2, *, c=y: a + b + c + x"],
        ["def g(a: int, b=y) -> float:", "    nonlocal x", "    x = a", "    return b", "return g(1, b=x)"],
        ["if (k := x[0]) > 2:", "    return k"],
        ["return sum((v + y for v in x if v > 1)), max(*x, y)"],
        ["global z", "z = not x == y"],
        ["raise ValueError(f'{y} is too large') from x"],
        ["x.a.b += y", "x[y] **= 2"],
        ["return {1: x, 'a': y}, {x, y}, [*x, 1], (x,)"],
        ["(a, b), c = x, y", "return a, b, c"],
    ],
)
def test_texts(lines: list[str]) -> None:
    text = "def f(x, y):\n" + "".join(f"    {line}\n" for line in lines)
    assert read(text) == ast.unparse(ast.parse(text))


def test_locations_are_those_of_the_byte_code() -> None:
    tree = read_function(
        function_of("\n\ndef f(x):\n    x[0] = 1\n\n    if x[1]:\n        return\n    x[2] = 3").__code__
    )
    assert isinstance(tree, ast.FunctionDef)
    assert [tree.lineno, *(s.lineno for s in tree.body)] == [3, 4, 6, 8]


# -- kernels -----------------------------------------------------------------------------------------

KERNEL = """
from math import sqrt
from weft import cuda

def scaled(v, k=2):
    if v > 3:
        return v * k
    return -v

def kernel(x, out):
    i = cuda.grid(1)
    if i >= out.size:
        return
    total = 0.0
    for j in range(i):
        if j == 5:
            continue
        if j > 8:
            break
        total += x[j] if j % 2 else sqrt(x[j])
    else:
        total += 100
    while total > 50 and i:
        total -= 10
    a, b = 1.0, 2.0
    for _ in range(i):
        a, b = b, a + b
    out[i] = scaled(total) + sum(x[t] for t in range(2) if t < 1) + a
"""


def _values(kernel: Any) -> np.ndarray:
    out = np.zeros(20)
    kernel[1, 32](np.arange(20.0) + 1, out)
    return out


def test_a_kernel_of_exec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernel_in_a_file.py").write_text(KERNEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    import kernel_in_a_file  # type: ignore[import-not-found]

    names: dict[str, Any] = {}
    exec(KERNEL, names)
    expected = _values(weft.kernel(kernel_in_a_file.kernel))
    assert np.all(expected[1:] > 0)
    np.testing.assert_array_equal(_values(weft.kernel(names["kernel"])), expected)
    np.testing.assert_array_equal(_values(cuda.jit("void(float64[:], float64[:])")(names["kernel"])), expected)


def test_a_lambda_of_eval() -> None:
    larger = weft.vectorize(eval("lambda x, y: x if x > y else y * 2"))
    np.testing.assert_array_equal(np.asarray(larger(np.arange(6.0), 3.0)), [6, 6, 6, 6, 4, 5])


def test_a_kernel_with_a_closure() -> None:
    names: dict[str, Any] = {}
    exec("def make(k):\n    def f(x):\n        x[0] = x[0] * k + table[1]\n    return f", {"table": (3, 4)}, names)
    x = np.array([5.0])
    weft.kernel(names["make"](3))[1, 1](x)
    assert x[0] == 19


def test_an_error_names_its_line() -> None:
    function = function_of("def f(x):\n    y = 1\n    x[0] = undefined + y")
    with pytest.raises(weft.KernelError, match="undefined.*\n.*line 3$"):
        weft.kernel(function)[1, 1](np.zeros(1))


def test_a_program_from_the_standard_input() -> None:
    program = (
        KERNEL
        + "import numpy as np\nout = np.zeros(4)\ncuda.jit(kernel)[1, 8](np.arange(4.) + 1, out)\nprint(out.tolist())\n"
    )
    done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, check=False)
    names: dict[str, Any] = {}
    exec(KERNEL, names)
    out = np.zeros(4)
    weft.kernel(names["kernel"])[1, 8](np.arange(4.0) + 1, out)
    assert done.stdout == f"{out.tolist()}\n", done.stderr


def test_text_of_another_function_is_not_taken() -> None:
    program = (
        "def f(x): x[0] = 1\n"
        "import numpy as np, weft\n"
        "names = {}\n"
        "exec('def f(x): x[0] = 2', names)\n"
        "x = np.zeros(1)\n"
        "weft.kernel(names['f'])[1, 1](x)\n"
        "print(x[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "2.0\n", done.stderr


def test_lambdas_in_defaults_of_lambdas() -> None:
    text = "lambda x, g=lambda y: y + 1: g(x)"
    outer = "def f(x):\n    h = {0}\n    return ({0})(h(x))"
    assert read(outer.format(text)) == outer.format(text)
    (tree,) = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Lambda) and len(n.args.args) == 2)
    assert equals(tree, eval(text).__code__)


@pytest.mark.parametrize("text", ["lambda x: [k * x for k in range(3)]", "lambda x: f(x, 3, **x)"])
def test_code_that_is_not_read_can_be_compared(text: str) -> None:
    tree, other = (ast.parse(t, mode="eval").body for t in (text, text.replace("3", "4")))
    assert isinstance(tree, ast.Lambda) and isinstance(other, ast.Lambda)
    code = eval(text).__code__
    assert equals(tree, code) and not equals(other, code)
