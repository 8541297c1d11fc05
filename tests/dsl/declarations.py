"""A generator of type stubs for NumPy's names in `weft`.

``python -m tests.dsl.declarations`` writes `src/weft/numpy_names.pyi`. test_declarations.py checks that the file is
current.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import weft as wf
from weft.dsl.script.numpy_face import OWN

FILE = Path(wf.__file__).with_name("numpy_names.pyi")
WIDTH = 120

HEAD = '''"""Declarations of the functions of `weft` under NumPy's names, for type checkers and editors.

This file is not imported at run time: `weft.dsl.script.numpy_face` finds the functions, and NumPy's other names.
``python -m tests.dsl.declarations`` writes the file. Invariant: it declares all functions with their parameters.
"""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from weft.dsl.arrays.annotations import ArrayLike, DTypeLike, Output, ShapeLike
from weft.dsl.arrays.array import Array
from weft.dsl.arrays.ufunc import UFunc
from weft.runtime import Device

class _Elementwise(UFunc):
    def __call__(self, *operands: Any, **options: Any) -> Array: ...

'''

# Functions whose options decide whether they return one array or several.
OPEN = frozenset(
    """atleast_1d atleast_2d atleast_3d average histogram histogram2d intersect1d unique unique_all unique_counts
    unique_inverse""".split()
)

# Functions whose result depends on the number of arguments.
OVERLOADS = {
    "where": """\
@overload
def where(condition: ArrayLike, /) -> tuple[Array, ...]: ...
@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> Array: ...
"""
}

# Functions with NumPy's code have no annotations. By name: the types of results that are not a single array, and the
# types of parameters.
RESULTS = (
    dict.fromkeys(
        "allclose array_equal array_equiv can_cast iscomplexobj isfortran isrealobj isscalar iterable".split(), "bool"
    )
    | dict.fromkeys(("dsplit", "hsplit", "vsplit"), "list[Array]")
    | dict.fromkeys(("unstack", "ix_", "meshgrid"), "tuple[Array, ...]")
    | {
        "ndim": "int",
        "shape": "tuple[int, ...]",
        "put": "None",
        "fill_diagonal": "None",
        "mintypecode": "str",
        "result_type": "np.dtype",
    }
    | dict.fromkeys("common_type diag_indices_from einsum_path tril_indices_from triu_indices_from".split(), "Any")
    | dict.fromkeys(("apply_over_axes", "histogramdd", "piecewise", "polyfit", "require", *OPEN), "Any")
)
PARAMETERS = (
    dict.fromkeys("a a1 a2 ar1 ar2 arr ary b condition m p v val values x y".split(), "ArrayLike")
    | dict.fromkeys(
        "deg equal_nan keepdims copy sparse increasing assume_unique rowvar bias include_initial".split(), "bool"
    )
    | {
        "tup": "Sequence[ArrayLike]",
        "dtype": "DTypeLike | None",
        "out": "Output | None",
        "casting": "str",
        "indexing": "str",
    }
    | {"axis": "int | None", "n": "int"}
)


def declare(name: str, function: Any) -> str:
    """Return a function's declaration in the formatter's layout."""
    if name in OVERLOADS:
        return OVERLOADS[name]
    signature = inspect.signature(function)
    plain = not any(each.annotation is not each.empty for each in signature.parameters.values())
    parameters = list(signature.parameters.values())
    shown: list[str] = []
    for k, parameter in enumerate(parameters):
        before = parameters[k - 1].kind if k else None
        if before is parameter.POSITIONAL_ONLY and parameter.kind is not before:
            shown.append("/")
        if parameter.kind is parameter.KEYWORD_ONLY and before not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            shown.append("*")
        shown.append(_show(parameter, PARAMETERS.get(parameter.name, "Any") if plain else "Any"))
    if parameters and parameters[-1].kind is inspect.Parameter.POSITIONAL_ONLY:
        shown.append("/")
    result = signature.return_annotation
    if plain and result is signature.empty:
        result = RESULTS.get(name, "Array")
    else:
        result = "Array" if result == "Any" and name not in OPEN else "Any" if result is signature.empty else result
    inside = ", ".join(shown)
    line = f"def {name}({inside}) -> {result}: ..."
    if len(line) <= WIDTH:
        return f"{line}\n"
    if len(inside) + 4 <= WIDTH:
        return f"def {name}(\n    {inside}\n) -> {result}: ...\n"
    return f"def {name}(\n" + "".join(f"    {each},\n" for each in shown) + f") -> {result}: ...\n"


def _show(parameter: inspect.Parameter, unknown: str) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    annotation = unknown if parameter.annotation is parameter.empty else parameter.annotation
    default = show_default(parameter)
    annotation += " | None" * (default == "None" and annotation == "ArrayLike")
    told = f"{stars}{parameter.name}: {annotation}"
    return f"{told} = {default}" if default else told


def show_default(parameter: inspect.Parameter) -> str:
    """Return the text of a parameter's default in a declaration, or "" if there is no default.

    Defaults other than None, bools, numbers and strings are shown as "...".
    """
    default = parameter.default
    if default is parameter.empty:
        return ""
    if isinstance(default, str):
        return f'"{default}"'
    return str(default) if default is None or isinstance(default, (bool, int, float)) else "..."


def written() -> str:
    """Return the contents of the stub file."""
    rows = [name for name, own in sorted(OWN.items()) if isinstance(own, wf.UFunc)]
    python = {
        name: OWN.replaced.get(name, own) for name, own in OWN.items()
    }  # (native functions have less precise signatures)
    python.pop("row_stack", None)  # (deprecated, removed in NumPy 2.5; the file is the same with each NumPy)
    functions = [declare(name, own) for name, own in sorted(python.items()) if inspect.isfunction(own)]
    return HEAD + "".join(f"{name}: _Elementwise\n" for name in rows) + "\n" + "".join(functions)


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
