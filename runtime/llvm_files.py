"""Reading of LLVM text from files ``NAME.ll`` next to the Python modules that use them.

In: the Python file, the name, and the constants. Out: the text with each ``${CONSTANT}`` replaced. Invariant: the
given constants are exactly those that the text names.
"""

from __future__ import annotations

import os


def read_llvm(beside: str, name: str, **constants: int | str) -> str:
    """Return the LLVM text of a file, with the named constants replaced by values.

    Parameters
    ----------
    beside : str
        The path of the Python file (``__file__``) in whose folder the text lies.
    name : str
        The text's file name, without ``.ll``.
    **constants : int or str
        The value of each ``${CONSTANT}`` in the text.

    Raises
    ------
    ValueError
        If a constant of the text is not given, or a given constant does not occur in the text.
    """
    with open(os.path.join(os.path.dirname(beside), f"{name}.ll"), encoding="utf-8") as file:
        # (importing `string.Template` would take longer than reading the text)
        first, *parts = file.read().split("${")
    pairs = [part.split("}", 1) for part in parts]
    wrong = constants.keys() ^ {constant for constant, _ in pairs}
    if wrong:
        raise ValueError(f"{name}.ll and its constants do not agree about {', '.join(sorted(wrong))}")
    return first + "".join([f"{constants[constant]}{rest}" for constant, rest in pairs])
