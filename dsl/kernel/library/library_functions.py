"""Library functions in kernels: libdevice, float16 and bfloat16 functions.

In: an entry of a table of libdevice, float16 or bfloat16 functions. Out: an object that runs on numbers as plain
Python, and that the compiler lowers. The host implementation is an op or a function in the kernel language. If the
entry has a symbol, a GPU calls libdevice's function instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from weft.codegen import find_op, is_bfloat16
from weft.dsl.kernel.library import half_floats
from weft.dsl.kernel.python_mode.argument_conversion import convert
from weft.dsl.kernel.python_mode.simulate_bfloat16 import Brain, beside_brains, seen
from weft.runtime import counted


class LibraryFunction:
    """A library function that kernels can call: a libdevice, float16 or bfloat16 function.

    If the function is called with numbers outside a compiled kernel, it runs as plain Python. Arguments are converted
    as in kernels, and results are NumPy scalars.

    Parameters
    ----------
    name : str
    signature : str
        NumPy's type characters, such as ``"dd->d"``. A function with several results returns a tuple.
    host : str or function
        Implementation for CPUs, plain Python, and GPUs if there is no `symbol`: the name of an op, or a function in the
        kernel language.
    symbol : str
        Name of the libdevice function, or an empty string. The libdevice function returns the first result, and writes
        the other results through pointers that follow the arguments.
    by_pointer : bool
        Whether the libdevice function writes the first result, too, through a pointer.
    doc : str
        Description, with an error bound if `host` is not exact.
    wide : bool
        Whether `host` receives float64 instead of float32, so that a float32 result is rounded once.
    """

    __slots__ = ("arguments", "by_pointer", "doc", "host", "host_arguments", "name", "python", "results", "symbol")

    def __init__(
        self,
        name: str,
        signature: str,
        host: str | Callable[..., Any],
        symbol: str = "",
        *,
        by_pointer: bool = False,
        doc: str = "",
        wide: bool = False,
    ) -> None:
        taken, given = signature.split("->")
        self.name = name
        # Look up dtypes by name, because a type character may stand for another dtype of the same size.
        self.arguments = tuple(np.dtype(np.dtype(c).name) for c in taken)
        self.results = tuple(np.dtype(np.dtype(c).name) for c in given)
        self.host_arguments = tuple(np.dtype(np.float64) if wide and d == np.float32 else d for d in self.arguments)
        self.host = host
        self.symbol = symbol
        self.by_pointer = by_pointer
        self.doc = doc
        self.python = host if callable(host) else op_in_python(host)

    def __call__(self, *values: Any) -> Any:
        """Compute the function for scalars in plain Python."""
        if len(values) != len(self.arguments):
            kinds = ", ".join(d.name for d in self.arguments)
            raise TypeError(
                f"{self.name} takes {counted(len(self.arguments), 'argument')} ({kinds}), not {len(values)}"
            )
        if self.name.startswith("bf16.") and any(isinstance(seen(v), Brain) for v in values):
            return self._on_bfloat16(beside_brains(values))
        with np.errstate(all="ignore"):
            given = (convert(v, d) for v, d in zip(values, self.arguments, strict=True))
            found = self.python(*(convert(v, d) for v, d in zip(given, self.host_arguments, strict=True)))
            items = found if isinstance(found, tuple) else (found,)
            made = tuple(convert(v, d) for v, d in zip(items, self.results, strict=True))
        return made if len(made) > 1 else made[0]

    def _on_bfloat16(self, values: tuple[Any, ...]) -> Any:
        """Compute the function in plain Python for scalars that include bfloat16 numbers."""
        bfloat16 = next(v.dtype for v in values if isinstance(v, np.generic) and is_bfloat16(v.dtype))
        bits = (
            v.view(np.uint16) if type(v) is bfloat16.type and d == np.uint16 else v
            for v, d in zip(values, self.arguments, strict=True)
        )
        found = self(*bits)
        return seen(found.view(bfloat16)) if self.results[0] == np.uint16 else found

    def __repr__(self) -> str:
        taken = ", ".join(d.name for d in self.arguments)
        given = ", ".join(d.name for d in self.results)
        return f"<library function {self.name}({taken}) -> {given}>"


def op_in_python(name: str) -> Callable[..., Any]:
    """Return the Python function that computes an op: NumPy's ufunc, or the op's reference."""
    definition = find_op(name)
    found = getattr(np, definition.ufunc) if definition.ufunc else definition.reference
    assert found is not None
    return found


# Rounded once, on every target and in plain Python.
fma = LibraryFunction("fma", "ddd->d", "fma", "__nv_fma", doc="x * y + z, rounded once.")
fmaf = LibraryFunction("fmaf", "fff->f", "fma", "__nv_fmaf", doc="x * y + z, rounded once.")


def _table(rows: Mapping[str, half_floats.Row], space: str) -> dict[str, LibraryFunction]:
    return {name: LibraryFunction(f"{space}.{name}", signature, host) for name, (signature, host) in rows.items()}


# float16: float32 arithmetic, rounded to float16. For + - * / and sqrt, this is the correctly rounded result.
FP16: dict[str, LibraryFunction] = _table(half_floats.FLOAT16, "fp16")

# A bfloat16 is passed as a uint16 with its bits: the upper half of a float32.
BF16: dict[str, LibraryFunction] = _table(
    {name: (signature.replace("e", "H"), host) for name, (signature, host) in half_floats.BFLOAT16.items()}
    | {
        "bfloat162float": ("H->f", half_floats.bfloat16_to_float),
        "float2bfloat16": ("f->H", half_floats.float_to_bfloat16),
        "float2bfloat16_rn": ("f->H", half_floats.float_to_bfloat16),
        "double2bfloat16": ("d->H", half_floats.double_to_bfloat16),
    },
    "bf16",
)
