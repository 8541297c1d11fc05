"""Tests of the ufuncs `divmod`, `modf`, `frexp`, `spacing`, `vecdot`, `matvec` and `vecmat`.

The first three have several outputs. Most tests use dtypes that weft does not support, so that NumPy computes the results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime import override

CALLS: dict[str, Any] = {
    "divmod": lambda xp, x: xp.divmod(x, x[::-1]),
    "divmod with a number": lambda xp, x: xp.divmod(x, 2),
    "modf": lambda xp, x: xp.modf(x),
    "frexp": lambda xp, x: xp.frexp(x),
    "spacing": lambda xp, x: xp.spacing(x),
    "vecdot": lambda xp, x: xp.vecdot(x, x),
    "matvec": lambda xp, x: xp.matvec(x[None] * x[:, None], x),
    "vecmat": lambda xp, x: xp.vecmat(x, x[None] * x[:, None]),
}


def outcome(call: Any, xp: Any, x: np.ndarray) -> Any:
    """Return the results of a call with their dtypes, or the class of its error."""
    try:
        found = call(xp, x)
    except TypeError:
        return TypeError
    return [(np.asarray(each).dtype, repr(np.asarray(each))) for each in (found if type(found) is tuple else (found,))]


@pytest.mark.parametrize("immediate", [0, 16384])
@pytest.mark.parametrize("dtype", ["g", "G", "O", "m8[s]", "U3", ">f8"])
@pytest.mark.parametrize("name", CALLS)
def test_dtypes_that_weft_does_not_support(name: str, dtype: str, immediate: int) -> None:
    x = np.array([3, 1, 7]).astype(dtype)
    with override(immediate=immediate):
        assert outcome(CALLS[name], wf, x) == outcome(CALLS[name], np, x)


@pytest.mark.parametrize("name", ["vecdot", "matvec", "vecmat"])
def test_a_number_is_no_vector(name):
    x = wf.ones((300, 300))
    for operands in ((3, x), (x, 3.0)):
        with pytest.raises(ValueError, match="does not have enough dimensions"):
            getattr(wf, name)(*operands)
