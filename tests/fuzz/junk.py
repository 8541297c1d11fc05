"""Random, mostly invalid kernels: valid kernels with small random edits.

Each edited kernel must compile or raise a documented error.

``python -m tests.fuzz.junk --programs 2000 --seed 0`` runs the test. The kernels are the language probes. Edits
change tokens, expressions, statements, arguments and launches. Kernels that still parse are compiled for the null
device, which runs nothing, so that out-of-bounds accesses do no harm. The documented errors are Python's errors when
the file is read, `weft.KernelError` with file and line, and errors in arguments and launches, which have no line.
"""

from __future__ import annotations

import ast
import inspect
import io
import linecache
import random
import signal
import sys
import textwrap
import tokenize
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from tests.dsl.kernel.probes import PROBES, Probe
from tests.fuzz import children
from weft import cuda
from weft.runtime import override

SECONDS = 30  # time limit of a case; most cases take a tenth of a second
LAUNCH_FILES = (
    "types.py",
    "arguments.py",
    "launch.py",
    "dispatcher.py",
    "hints.py",
)  # errors raised in these files have no line of the kernel
# Messages of internal checks, which an invalid program should not reach.
INTERNAL = ("this cannot be compiled", "do not settle")

ODD_TOKENS = (
    "None True ... 1.5 0 -1 2**70 'a' b'a' 1j x out [] {} () * ** @ : , . = == := -> not in is lambda yield await async return "
    "del global nonlocal with try class pass break continue import if else for while cuda np math print len range self "
    "__class__ __name__ int float bool str list dict tuple object type super open eval np.float32 np.float16 np.str_ "
    "cuda.threadIdx cuda.threadIdx.x cuda.syncthreads cuda.shared.array cuda.grid f'{x}' weft wf"
).split()
ODD_EXPRESSIONS = (
    "None ... 'text' b'bytes' 1j 2**70 -1 0 0.0 () (1,) (1,2) [] [1,2] {} {1:2} {1} [][0] lambda:0 (lambda*a:a) "
    "cuda np math cuda.threadIdx cuda.grid(1) cuda.grid(2) cuda.grid cuda.shared cuda.shared.array cuda.local.array(3,np.int32) "
    "cuda.shared.array((2,2),np.float64) cuda.shared.array(0,np.float64) cuda.syncthreads() cuda.atomic cuda.atomic.add "
    "np.float32 np.float32(1.5) np.uint8(200) np.int64(-3) np.float16(2) np.complex64(1j) np.bool_(1) np.nan np.pi "
    "np.array([1,2,3]) np.zeros(3) np.dtype('f4') float('nan') int bool str print len range range(3) range(0,3,0) "
    "slice(1) slice(None) enumerate(range(2)) zip() zip((1,2),(3,4)) reversed((1,2)) max min max(1,2) sum((1,2)) abs "
    "Exception ValueError('a') object object() type(1) __name__ NotImplemented f'{1}' f'{1:>3}' 'a'+'b' 1//0 1%0 "
    "2**-1 (-8)**0.5 1<<200 1<<-1 (1if(cuda.threadIdx.x)else'a') (1if(cuda.threadIdx.x)else(1,2)) (y:=3) (yield) [i(for)i] "
    "[i*2(for)i(in)range(3)] (i(for)i(in)range(2)) cuda.threadIdx.x cuda.blockDim cuda.warpsize cuda.laneid not(1) "
    "cuda.threadIdx.x<2 (1,2)[cuda.threadIdx.x] np.sum np.sqrt np.sqrt(-1) math.sqrt math.sqrt(-1) math.floor(1e300) int(1e300) "
    "int('a') int('3') float(3) complex(1,2) round(2.5) divmod(7,2) pow(2,3,5) isinstance(1,int) hasattr(1,'real') getattr(1,'real') "
    "cuda.shfl_sync(-1,1,0) cuda.ballot_sync cuda.popc(3) cuda.popc(1.5) cuda.fma(1,2,3) cuda.selp(1,2,3) cuda.nothing np.nothing"
).split()
ODD_ARGUMENTS: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: "text",
    lambda: b"bytes",
    lambda: [1, 2, 3],
    lambda: {"a": 1},
    lambda: {1, 2},
    lambda: object(),
    lambda: np,
    lambda: len,
    lambda: lambda a: a,
    lambda: int,
    lambda: slice(1, 2),
    lambda: range(3),
    lambda: 2**70,
    lambda: -(2**63),
    lambda: 2**64 - 1,
    lambda: 3,
    lambda: 1.5,
    lambda: 1j,
    lambda: True,
    lambda: np.float16(1),
    lambda: np.longdouble(1),
    lambda: np.complex64(1j),
    lambda: np.datetime64("2020-01-01"),
    lambda: np.str_("a"),
    lambda: np.zeros(()),
    lambda: np.zeros(0),
    lambda: np.zeros((2, 3)),
    lambda: np.zeros((2, 3, 4, 5)),
    lambda: np.zeros(8, np.float16),
    lambda: np.zeros(8, np.uint8),
    lambda: np.zeros(8, np.bool_),
    lambda: np.zeros(8, np.complex64),
    lambda: np.zeros(8, ">f8"),
    lambda: np.zeros(8, object),
    lambda: np.zeros(8, "U3"),
    lambda: np.zeros(8, "M8[s]"),
    lambda: np.zeros(8, np.longdouble),
    lambda: np.zeros(8, [("a", "f4"), ("b", "i8")]),
    lambda: np.zeros(8, [("a", "f4", (2,)), ("s", "U2")]),
    lambda: np.zeros(16)[::2],
    lambda: np.zeros(8)[::-1],
    lambda: np.broadcast_to(np.zeros(1), 8),
    lambda: np.ma.zeros(8),
    lambda: memoryview(bytearray(8)),
    lambda: weft.zeros(8),
    lambda: weft.zeros((4, 4)).T,
    lambda: cuda.to_device(np.zeros(8)),
    lambda: cuda.In(np.zeros(8)),
    lambda: cuda.Out(3),
    lambda: (),
    lambda: (1, 2.5, np.zeros(3)),
    lambda: (1, (2, "a")),
    lambda: (1, [2]),
    lambda: Exception("a"),
    lambda: np.random.default_rng(0),
)
LAUNCHES: tuple[Any, ...] = (
    (0, 1),
    (1, 0),
    (1, 2000),
    (1, (32, 64)),
    ((1, 2, 3, 4), 1),
    (1.5, 1),
    ("1", 1),
    (None, 1),
    (1, None),
    (1, 1, None),
    (1, 1, 0, -1),
    (1, 1, 0, 10**9),
    (1, 1, "s"),
    (1, 1, 0, "a"),
    (1, 1, 0, None),
    ((), ()),
    (1, [4]),
    (np.int64(2), np.array([2, 2])),
    (True, 1),
    (2**40, 1),
    1,
    (),
    (1,),
    (1, 1, 0, 0, 0),
)


class Late(BaseException):
    """Raised if compiling and launching a kernel takes too long."""


def plain_text(function: Callable[..., Any]) -> str:
    """Return the source text of a probe from its ``def`` line on, without decorators."""
    text = textwrap.dedent(inspect.getsource(function))
    (tree,) = ast.parse(text).body
    return "".join(text.splitlines(True)[tree.lineno - 1 :])


# -- edits -------------------------------------------------------------------------------------------


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    skipped = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT)
    return [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type not in skipped]


def _replaced(text: str, start: tuple[int, int], end: tuple[int, int], new: str) -> str:
    """Return `text` with the range from `start` to `end` replaced by `new`.

    `start` and `end` are pairs (line, column). Lines count from 1.
    """
    lines = text.splitlines(True)
    before = "".join(lines[: start[0] - 1]) + lines[start[0] - 1][: start[1]]
    after = lines[end[0] - 1][end[1] :] + "".join(lines[end[0] :])
    return before + new + after


def edit_token(pick: random.Random, text: str) -> str:
    """Delete, duplicate or replace a token."""
    tokens = _tokens(text)
    token, other = pick.choice(tokens), pick.choice(tokens)
    new = pick.choice(("", f"{token.string} {token.string}", other.string, other.string, pick.choice(ODD_TOKENS)))
    return _replaced(text, token.start, token.end, f" {new} " if new and new[0].isalpha() else new)


def _span(node: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def edit_expression(pick: random.Random, text: str) -> str:
    """Replace an expression, or combine it with another expression."""
    found = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.expr)]
    if not found:
        return text
    node = pick.choice(found)
    if pick.random() < 0.4:
        new = ast.get_source_segment(text, pick.choice(found)) or "x"
    else:
        new = pick.choice(ODD_EXPRESSIONS)
        for word in ("for", "in", "if", "else"):
            new = new.replace(f"({word})", f" {word} ")
    old = ast.get_source_segment(text, node) or "x"
    form = pick.choice(
        ("{new}",) * 6 + ("({new})({old})", "({old})[{new}]", "{old} + {new}", "({new}).x", "({new}, {old})")
    )
    return _replaced(text, *_span(node), form.format(new=new, old=old))


def edit_statement(pick: random.Random, text: str) -> str:
    """Delete, duplicate or replace a statement, or insert another statement."""
    found = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt)][1:]
    if not found:
        return text
    node, other = pick.choice(found), pick.choice(found)
    old = ast.get_source_segment(text, node) or "pass"
    indent = " " * node.col_offset
    moved = ast.unparse(other).replace("\n", f"\n{indent}")
    odd = pick.choice(
        (
            "break",
            "continue",
            "return",
            "return 1",
            "del x",
            "global x",
            "import math",
            "from math import sqrt",
            "raise",
            "raise ValueError",
            "raise 3",
            "assert x, out",
            "assert False, 'no'",
            "class C: pass",
            "def f(a, *b, c=1, **d): return a",
            "with x: pass",
            "try:\n    x = 1\nexcept ValueError:\n    pass",
            "x: int = 3",
            "x: int",
            "x, *y = (1, 2, 3)",
            "x = y = z = 1",
            "x += 1",
            "out[...] = 0",
            "out[:] = 1",
            "out = 1",
            "out = 'a'",
            "out = (1, 2)",
            "x, y = 1",
            "x.a = 1",
            "(x, out)[0] = 1",
            "print(x, out, sep=x)",
            "print(f'{x} {x!r:>{x}}')",
            "while True: pass",
            "while x: x = x",
            "for q in x: pass",
            "for q, r in zip(x, out): q = r",
            "for q in range(3, 0): out = q",
            "for i in (1, 2.5, 'a'): out = i",
            "match x:\n    case [a, *b]: pass\n    case {'a': 1}: pass\n    case int(): pass\n    case _: pass",
            "async def f(): pass",
            "nonlocal x",
            "if x: y = 1\nelse: y = (1, 2)",
            "if cuda.threadIdx.x: y = 1\nout[0] = y",
            "if cuda.threadIdx.x: y = 1\nelse: y = None\nout[0] = y",
            "if cuda.threadIdx.x: y = x\nelse: y = 1\nout[0] = y[0]",
            "f = lambda a: f(a)\nout[0] = f(1)",
            "def f(a): return f(a - 1) if a else 0\nout[0] = f(cuda.threadIdx.x)",
            "def f(a): return f(a - 1)\nout[0] = f(cuda.threadIdx.x)",
            "def f(a): return g(a)\ndef g(a): return f(a)\nout[0] = f(3)",
            "x = cuda.shared.array(cuda.threadIdx.x, np.float32)",
            "cuda.atomic.add(x, 0, 'a')",
            "cuda.atomic.add(out, (0, 0, 0), 1)",
            "cuda.atomic.cas(out, 0, 1, 2)",
        )
    ).replace("\n", f"\n{indent}")
    new = pick.choice(("pass", f"{old}\n{indent}{old}", moved, f"{old}\n{indent}{odd}", f"{odd}\n{indent}{old}", odd))
    return _replaced(text, *_span(node), new)


# -- a case --------------------------------------------------------------------------------------------


def make_case(seed: int) -> tuple[Probe, str, list[Any], Any]:
    """Make a test case from a valid kernel by random changes. Return the valid kernel, and the source text, arguments and launch of the test case."""
    pick = random.Random(seed)
    probe = pick.choice(PROBES)
    text = plain_text(probe.function)
    arguments: list[Any] = list(probe.copies())
    launch: Any = probe.launch
    for _ in range(pick.choice((1, 1, 1, 2, 3))):
        kind = pick.randrange(10)
        try:
            if kind < 3:
                text = edit_token(pick, text)
            elif kind < 6:
                text = edit_expression(pick, text)
            elif kind < 8:
                text = edit_statement(pick, text)
            elif kind == 8 and arguments:
                arguments[pick.randrange(len(arguments))] = pick.choice(ODD_ARGUMENTS)()
            elif pick.random() < 0.3:
                launch = pick.choice(LAUNCHES)
            else:
                arguments = pick.choice((arguments[1:], [*arguments, 1], arguments[::-1]))
        except (SyntaxError, tokenize.TokenError, IndentationError):
            break  # the previous edit made the text invalid
    return probe, text, arguments, launch


def check(seed: int) -> str:
    """Compile an edited kernel. Return a description of the fault, or "".

    Faults are undocumented errors and timeouts.
    """
    probe, text, arguments, launch = make_case(seed)
    file = f"<junk {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope = dict(vars(sys.modules[probe.function.__module__]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(text, file, "exec"), scope)
        function = scope[probe.function.__name__]
    except Exception:
        return ""  # Python's own error: the file cannot be imported
    signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        trouble = _trouble(probe, function, arguments, launch, "null" if seed % 2 else "null:sm_80")
    except Late:
        trouble = f"no end after {SECONDS} s\n{traceback.format_exc(limit=-4)}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return f"--- seed {seed}: {trouble}\n{text}\n{[_shown(a) for a in arguments]} {launch}" if trouble else ""


def _late(*ignored: Any) -> None:
    raise Late


def _trouble(probe: Probe, function: Any, arguments: list[Any], launch: Any, device: str) -> str:
    try:
        with warnings.catch_warnings(), weft.device(device), override(cache=False):
            warnings.simplefilter("ignore")
            weft.kernel(**probe.options)(function)[launch](*arguments, **probe.keywords)
    except weft.KernelError as error:
        return judge(error)
    except Exception as error:
        return _where(error)
    return ""


def judge(error: weft.KernelError) -> str:
    """Return "" for an error that the documentation allows. For any other KernelError, return a description of the error.

    An internal error is undocumented, and so is an error without a source line, unless it is about the launch.
    """
    if any(word in error.message for word in INTERNAL):
        return _where(error)
    innermost = traceback.extract_tb(error.__traceback__)[-1].filename
    if error.place is None and not innermost.endswith(LAUNCH_FILES) and not isinstance(error, weft.LaunchError):
        return f"without a line: {_where(error)}"
    return ""


def _where(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "fuzz" not in f.filename]
    shown = " < ".join(f"{f.filename.split('/')[-1]}:{f.lineno}" for f in reversed(frames[-4:]))
    return f"{type(error).__name__} ({shown}): {str(error)[:300]}"


def _shown(value: Any) -> str:
    return f"{value.dtype}{value.shape}" if hasattr(value, "dtype") and hasattr(value, "shape") else repr(value)[:40]


if __name__ == "__main__":
    sys.exit(children.main("tests.fuzz.junk"))
