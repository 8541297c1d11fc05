"""The notebook extension, which runs cells that begin with ``%%weft`` on weft.

In: a cell and the notebook's namespace. Out: the cell's results in the namespace. Invariant: after the cell, names of
NumPy's modules and functions refer to NumPy again. A NumPy array of an earlier cell is still the same object, with the
elements that the cell has written.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import inspect
import io
import shlex
import sys
import time
import tokenize
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from weft.codegen import is_supported
from weft.dsl.arrays.array import Array, evaluate
from weft.dsl.cli.compare import WARM_RUNS, Outcome, compiled_first
from weft.dsl.cli.differences import ResultComparison, scales_of
from weft.dsl.functions.creation import asarray
from weft.dsl.script.namespace_reads import walk_code
from weft.dsl.script.redirect import isolated
from weft.dsl.script.script_function import ScriptFunction
from weft.dsl.script.script_namespace import script_module
from weft.dsl.tracebacks import HANDLED, hide_in_ipython, mark_shown
from weft.fusion import statistics
from weft.runtime import FIXED, IMMEDIATE, counted, default_device

# Types of objects with state that a cell may change
_WITH_STATE = (np.ndarray, list, dict, set, bytearray, np.random.Generator, np.random.RandomState)


def load_ipython_extension(shell: Any) -> None:
    """Define the cell magic ``%%weft``, and hide weft's frames in tracebacks.

    IPython calls this function for ``%load_ext weft``.
    """
    hide_in_ipython()

    def weft(line: str, cell: str | None = None) -> None:
        """Run a cell on weft, so that the name ``numpy`` refers to weft in the cell.

        Usage, in the first line of a cell::

          %%weft             Run the cell.
          %%weft --compare   Also run the cell with NumPy, and print the times and the differences between the results.

        On the CPU, large NumPy arrays of other cells share their memory with the weft arrays that the cell uses. The
        large arrays that the cell creates remain weft arrays. A semicolon at the end of the cell hides the value of the
        last line.

        Example::

          %%weft
          import numpy as np
          x = np.linspace(0, 10, 5_000_000)
          print((np.exp(-x) * np.sin(x)).sum())
        """
        if cell is None:
            raise _usage_error("%%weft is for cells: write %%weft in the first line of a cell. %%weft? shows the help.")
        if line.strip() in ("-h", "--help"):
            print(inspect.getdoc(weft))
        elif _options(line).compare:
            _compare(shell, cell)
        else:
            _run_on_weft(shell, cell)

    shell.register_magic_function(weft, "line_cell", "weft")


def _options(line: str) -> argparse.Namespace:
    # (a help option would end the notebook's kernel)
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--compare", action="store_true")
    known, unknown = parser.parse_known_args(shlex.split(line))
    if unknown:
        raise _usage_error(f"%%weft has the options --compare and --help, not {' '.join(unknown)}")
    return known


def _usage_error(text: str) -> Exception:
    from IPython.core.error import UsageError  # (weft can be imported without IPython)

    return UsageError(text)


def _run_on_weft(shell: Any, cell: str) -> None:
    """Run the text of a ``%%weft`` cell in IPython.

    An error is shown, and then raised again so that the notebook stops at this cell.
    """
    hook = shell.displayhook
    outer, count, interactivity = hook.exec_result, shell.execution_count, shell.ast_node_interactivity

    def restore_count(*_: Any) -> None:
        shell.execution_count = count

    # IPython reads the cell's number before this event, and the number of its output after this event
    shell.events.register("pre_execute", restore_count)
    shell.execution_count = getattr(outer, "execution_count", None) or count
    with contextlib.suppress(tokenize.TokenError):  # (running the cell raises its syntax error)
        if hook.semicolon_at_end_of_expression(cell):
            shell.ast_node_interactivity = "none"
    text = cell if cell.startswith("%%") else f"# %%weft\n{cell}"
    try:
        with _on_weft(shell.user_ns):
            result = shell.run_cell(text)
    finally:
        shell.events.unregister("pre_execute", restore_count)
        hook.exec_result, shell.execution_count, shell.ast_node_interactivity = outer, count, interactivity
    error = result.error_before_exec or result.error_in_exec
    if isinstance(error, HANDLED):
        raise mark_shown(error)


@contextlib.contextmanager
def _on_weft(names: dict[str, Any]) -> Iterator[None]:
    """Within a ``with`` block, replace NumPy's modules and functions in `names` by those of weft.

    If the default device is the CPU, large NumPy arrays are replaced, too, by weft arrays over the same memory.
    """
    converted: dict[str, tuple[np.ndarray, Array]] = {}
    shared = default_device().name == "cpu"  # other devices cannot write to NumPy's memory
    for name, value in list(names.items()):
        if shared and type(value) is np.ndarray and value.size > IMMEDIATE[FIXED] and is_supported(value.dtype):
            converted[name] = value, asarray(value, copy=False)
            names[name] = converted[name][1]
        elif not name.startswith("_"):
            names[name] = _to_weft(value)
    try:
        with isolated(Path.cwd(), True):
            yield
    finally:
        for name, value in list(names.items()):
            theirs, ours = converted.get(name, (None, None))
            names[name] = theirs if ours is not None and value is ours else _to_numpy(value)


def _to_weft(value: object) -> Any:
    """Return weft's version of a NumPy module or function. Return any other value unchanged."""
    if isinstance(value, types.ModuleType):
        return script_module(value.__name__) if value.__name__.partition(".")[0] == "numpy" else value
    module = getattr(value, "__module__", "") if callable(value) and not isinstance(value, type) else ""
    name = getattr(value, "__name__", "")
    if isinstance(module, str) and module.partition(".")[0] == "numpy" and getattr(np, name, None) is value:
        return getattr(script_module("numpy"), name)
    return value


def _to_numpy(value: object) -> Any:
    """Return NumPy's version of a weft module or function. Return any other value unchanged."""
    if isinstance(value, ScriptFunction):
        return value.wrapped
    if isinstance(value, types.ModuleType) and value is not np and value.__name__.partition(".")[0] == "numpy":
        return sys.modules.get(value.__name__, value)
    return value


# -- comparison ----------------------------------------------------------------------------------------


def _compare(shell: Any, cell: str) -> None:
    """Run a cell under NumPy and on weft, and print the times and the differences.

    The compared runs use copies of the cell's variables. Then, the cell runs once on weft with the variables themselves.
    """
    runs = [_run_hidden(shell, cell, on_weft) for on_weft in (False, True)]
    with compiled_first():
        runs.append(_run_until_warm(shell, cell))
    _run_on_weft(shell, cell)
    failures = [run for run in runs if isinstance(run, str)]
    if failures:
        print(f"%%weft: the cell cannot run several times ({failures[0]}), so nothing was compared")
        return
    print("\n".join(_report(*[run for run in runs if isinstance(run, Outcome)])))


def _run_until_warm(shell: Any, cell: str) -> Outcome | str:
    """Run a cell on weft at most `WARM_RUNS` times. Stop earlier if a run fails, or if all its plans were in memory.

    Return what `_run_hidden` returned for the last run.
    """
    for _ in range(WARM_RUNS):
        before = statistics()
        run = _run_hidden(shell, cell, True)
        now = statistics()
        if isinstance(run, str) or all(now[name] == before[name] for name in ("plans", "plans_read")):
            break
    return run


def _report(reference: Outcome, first: Outcome, ours: Outcome) -> list[str]:
    """Return lines of text that compare a NumPy run with the first and the last run on weft."""
    comparison = ResultComparison({}, reference.printed, scales_of(reference.arrays, reference.printed))
    rows = [
        *comparison.printed(reference.printed, ours.printed, False),
        *comparison.arrays(reference.arrays, ours.arrays),
    ]
    wrong = [f"{name}: {verdict}" for name, verdict, good in rows if not good]
    ratio = reference.seconds / ours.seconds
    arrays = counted(len(ours.arrays), "array")
    return [
        *(["results differ:", *wrong] if wrong else [f"results agree ({arrays}, and what was printed)"]),
        f"NumPy {reference.seconds * 1e3:.1f} ms; weft {ours.seconds * 1e3:.1f} ms, the first time "
        f"{first.seconds * 1e3:.1f} ms: {ratio:.2f} times NumPy's speed",
    ]


def _run_hidden(shell: Any, cell: str, on_weft: bool) -> Outcome | str:
    """Run a cell on copies of its variables, and return its results, or its error as text.

    The namespace and the state of `numpy.random` are restored afterwards.
    """
    names, kept, state = shell.user_ns, dict(shell.user_ns), np.random.get_state()
    code = compile(shell.transform_cell(cell), "<the compared cell>", "exec")
    used = _names_used(code, names)
    text = io.StringIO()
    try:
        names.update(copy.deepcopy({n: v for n, v in kept.items() if n in used and _has_state(v)}))
        names.update({n: v.copy() if on_weft else np.array(v) for n, v in kept.items() if isinstance(v, Array)})
        with _on_weft(names) if on_weft else contextlib.nullcontext(), contextlib.redirect_stdout(text):
            begin = time.perf_counter()
            exec(code, names)
            found = {n: v for n, v in names.items() if n in used and isinstance(v, (Array, np.ndarray, np.generic))}
            evaluate(*[value for value in found.values() if isinstance(value, Array)])
            seconds = time.perf_counter() - begin
            return Outcome(seconds, printed=text.getvalue(), arrays={n: np.array(v) for n, v in found.items()})
    except Exception as error:  # (any error of the user's cell)
        return f"{'weft' if on_weft else 'NumPy'}: {type(error).__name__}: {error}"
    finally:
        names.clear()
        names.update(kept)
        np.random.set_state(state)


def _has_state(value: object) -> bool:
    """Return whether an object has state that a cell may change. If so, the runs under NumPy and on weft use copies."""
    return isinstance(value, _WITH_STATE) or type(value).__module__ == "__main__"


def _names_used(code: types.CodeType, names: dict[str, Any]) -> set[str]:
    """Return the names that a code object uses, directly or through the notebook's functions and classes."""
    used, pending = set[str](), [code]
    while pending:
        new = {name for code in walk_code(pending.pop()) for name in code.co_names} - used
        used |= new
        for value in (names[name] for name in new & names.keys()):
            own = value if isinstance(value, type) else type(value)
            functions = [value] if isinstance(value, types.FunctionType) else vars(own).values()
            pending += [
                one.__code__ for one in functions if isinstance(one, types.FunctionType) and one.__globals__ is names
            ]
    return used
