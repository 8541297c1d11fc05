"""Convert docstrings to reStructuredText, with signatures and links.

In: a `PublicName`. Out: the text of a ``py:function``, ``py:method``, ``py:attribute`` or ``py:class`` directive.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from textwrap import indent
from typing import Any

import numpy as np
from numpydoc.docscrape_sphinx import SphinxDocString

from docs.site.public_names import PublicName
from weft.dsl.arrays.ufunc import UFunc

NUMPY_PAGE = "https://numpy.org/doc/stable/reference/generated/numpy.{}.html"
QUOTED = re.compile(r"(?<![`:])`([^`\n<>]+)`(?![`_])")
ROLES = {"function": "func", "method": "meth", "attribute": "attr", "class": "class"}
OPTIONS = "out=None, *, where=True, dtype=None, casting='same_kind', order='K'"


def show_signature(name: PublicName) -> str:
    """Return the parameters of a function or method, without annotations."""
    if name.kind == "attribute":
        return ""
    if isinstance(name.target, UFunc):
        operands = ", ".join("xyz"[: name.target.nin])
        return f"({operands}, /, {OPTIONS})"
    try:
        signature = inspect.signature(name.target)
    except ValueError:
        return "(*args)"
    parameters = list(signature.parameters.values())
    if name.kind == "class" and name.name.rpartition(".")[2] in ("Array", "Explanation", "UFunc"):
        return ""  # nobody calls these
    if name.kind == "method":
        parameters = parameters[1:]
    plain = [p.replace(annotation=p.empty, default=_plain(p.default)) for p in parameters]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


class _Shown:
    """A default value whose representation is not Python code."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _plain(default: Any) -> Any:
    """Return a default value as a signature shows it.

    A class becomes its name, and an object such as ``numpy._NoValue`` becomes an ellipsis.
    """
    if default is inspect.Parameter.empty:
        return default
    if isinstance(default, type):
        return _Shown(default.__name__)
    simple = (bool, int, float, complex, str, tuple, type(None))
    return default if isinstance(default, simple) else _Shown("...")


def link_names(text: str, names: dict[str, PublicName]) -> str:
    """Turn names in backquotes into links: to NumPy's documentation, or to this reference. Others become literals."""

    def replace(match: re.Match[str]) -> str:
        quoted = match[1]
        if quoted.startswith("numpy.") and has_numpy(quoted[6:]):
            return f"`{quoted} <{NUMPY_PAGE.format(quoted[6:])}>`__"
        full = quoted if quoted.startswith("weft.") else f"weft.{quoted}"
        if full in names:
            return f":py:{ROLES[names[full].kind]}:`{quoted} <{full}>`"
        return f"``{quoted}``"

    return QUOTED.sub(replace, text)


def has_numpy(dotted: str) -> bool:
    """Return whether NumPy has an object of this name."""
    found: Any = np
    for part in dotted.split("."):
        found = getattr(found, part, None)
    return found is not None


def describe(name: PublicName, names: dict[str, PublicName], extra: str = "") -> str:
    """Return the entry of a name in the reference."""
    text = str(SphinxDocString(inspect.cleandoc(name.target.__doc__ or ""), config={"show_class_members": False}))
    body = f"{link_names(text, names)}\n{extra}"
    return f".. py:{name.kind}:: {name.name}{show_signature(name)}\n\n{indent(body, '   ')}\n"


def summary_table(shown: Collection[PublicName]) -> str:
    """Return a table with the first sentence of each docstring."""
    rows = [".. list-table::", "   :widths: 30 70", ""]
    for name in shown:
        first = inspect.cleandoc(name.target.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        first = QUOTED.sub(r"``\1``", re.match(r"(?:[^.]|\.(?!\s|$))*\.?", first)[0])  # type: ignore[index]
        short = name.name.removeprefix("weft.")
        rows += [f"   * - :py:{ROLES[name.kind]}:`{short} <{name.name}>`", f"     - {first}"]
    return "\n".join(rows) + "\n"
