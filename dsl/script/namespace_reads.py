"""Detection of programs that read a NumPy module's dictionary, as in ``vars(np)``.

The dictionaries of the modules for scripts contain a name only after its first use, so they are filled for such programs.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from itertools import pairwise
from types import CodeType

_READS = {"__dict__", "vars"}


def reads_namespace(code: CodeType) -> bool:
    """Return whether code or its nested functions read the dictionary of a NumPy module."""
    codes = list(walk_code(code))
    readers = [each for each in codes if not _READS.isdisjoint(each.co_names)]
    if not readers:
        return False
    importers = [each for each in codes if any(name.startswith("numpy") for name in each.co_names)]
    modules, read = {"fft", "linalg", "random"}, set()
    for each in {*readers, *importers}:
        imported = ""
        # (in Python 3.13 and later, PUSH_NULL is between a function and its arguments)
        for before, at in pairwise(i for i in dis.get_instructions(each) if i.opname != "PUSH_NULL"):
            if at.opname == "IMPORT_NAME":
                imported = at.argval
            elif at.opname.startswith("STORE_") and imported:
                modules |= {at.argval} if imported.partition(".")[0] == "numpy" else set()
                imported = ""
            if at.argval == "__dict__" or before.argval == "vars":
                read.add(before.argval if at.argval == "__dict__" else at.argval)
    return not modules.isdisjoint(read)


def walk_code(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of its nested functions."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from walk_code(inner)
