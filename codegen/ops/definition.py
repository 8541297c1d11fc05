"""The definition of a scalar operation (op)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OpDef:
    """The definition of a scalar operation.

    The definition determines the array function, the method and operator, the entry in the ufunc protocol, the dtype
    rule, constant folding, the reference interpreter, the code for CPUs and GPUs, the tests and the reference page.

    Attributes
    ----------
    name : str
        NumPy's name where NumPy has the function.
    doc : str
        One sentence, shown in the reference and as the function's docstring.
    loops : tuple of str
        If NumPy has no ufunc of this name: the op's loops as NumPy writes them, ``"ff->f"``, in order of preference.
    reference : callable or None
        If NumPy has no ufunc of this name: the reference on NumPy arrays.
    expand : callable or None
        Function that expands the op into simpler ops: ``expand(builder, *operands) -> Value``. It returns None for
        dtypes that have a lowering.
    on_pairs : callable or None
        Function that expands the op for complex operands: ``on_pairs(builder, *operands)``, where a complex operand is
        a (real, imaginary) pair of values and a real operand is a single value. It returns a pair or one value.
    lowering : dict of str to str
        The LLVM code of the op, for dtypes for which it is not expanded: the dtype kind of the first operand ("b", "i",
        "u", "f") -> ``"instruction fadd"``, ``"icmp slt"``, ``"fcmp olt"``, ``"intrinsic llvm.sqrt"``, ``"math exp"``
        (C library name, from which the libdevice and vector names follow), ``"select"``, ``"bitcast"``, ``"negate"`` or
        ``"not"`` (of integers), or ``"same"`` (the operand itself).
    identity : object
        Identity of a reduction with the op: a number, "highest" or "lowest" (of the dtype), or None.
    cost : int
        Approximate number of instructions per element.
    ulp : float
        Bound on the error in units in the last place of the result; 0: bit-identical to the NumPy ufunc or `reference`.
    dunder : str
        ``"add"`` gives ``__add__``, ``__radd__`` and ``__iadd__``; empty where there is no operator.
    aliases : tuple of str
    ufunc : str
        Name of the NumPy ufunc that is the op's reference and dtype rule: the op's name, or empty if the op has
        `loops`.
    arity : int
        Number of operands of the NumPy ufunc or of the `loops`.
    body : Function or None
        Operations of a user function, or None for other ops. `straight` is whether it has no branches and no loops.
    """

    name: str
    doc: str
    loops: tuple[str, ...] = ()
    reference: Callable[..., Any] | None = None
    expand: Callable[..., Any] | None = None
    on_pairs: Callable[..., Any] | None = None
    lowering: dict[str, str] = field(default_factory=dict)
    identity: Any = None
    cost: int = 1
    ulp: float = 0.0
    dunder: str = ""
    aliases: tuple[str, ...] = ()
    body: Any = None
    straight: bool = True
    ufunc: str = field(init=False)
    arity: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ufunc", "" if self.loops else self.name)
        arity = len(self.loops[0].partition("->")[0]) if self.loops else getattr(np, self.name).nin
        object.__setattr__(self, "arity", arity)
