"""Reading of LLVM text from ``.ll`` files next to Python modules.

In: the Python file, the name, and the constants. Out: the text with each ``${CONSTANT}`` replaced.
"""

from __future__ import annotations

import os
from collections.abc import Mapping


def read_llvm(beside: str, name: str, known: Mapping[str, object] | None = None, /, **constants: int | str) -> str:
    """Return the LLVM text of a file, with the named constants replaced by values.

    Parameters
    ----------
    beside : str
        The path of the Python file (``__file__``) in whose folder the text lies.
    name : str
        The text's file name, without ``.ll``.
    known : mapping of str to object, optional
        Values of further constants, such as the ``globals()`` of a module that defines a layout.
    **constants : int or str
        The value of each ``${CONSTANT}`` in the text that is not in `known`.

    Raises
    ------
    ValueError
        If a constant of the text is not given, or one of `constants` does not occur in the text.
    """
    with open(os.path.join(os.path.dirname(beside), f"{name}.ll"), encoding="utf-8") as file:
        # (importing `string.Template` would take longer than reading the text)
        first, *parts = file.read().split("${")
    pairs = [part.split("}", 1) for part in parts]
    wanted, given = {constant for constant, _ in pairs}, {**(known or {}), **constants}
    wrong = (wanted - given.keys()) | (constants.keys() - wanted)
    if wrong:
        raise ValueError(f"{name}.ll and its constants do not agree about {', '.join(sorted(wrong))}")
    return first + "".join([f"{given[constant]}{rest}" for constant, rest in pairs])
