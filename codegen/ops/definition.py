"""The op row: everything the library knows of one scalar operation, in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class OpDef:
    """One scalar operation.

    The array function, the method and operator, the ufunc protocol entry, the dtype rule,
    constant folding, the reference interpreter, both lowerings, the tests and the reference
    page are all derived from its row.

    Attributes
    ----------
    name : str
        NumPy's name where NumPy has the function.
    arity : int
    doc : str
        One sentence, shown in the reference and as the function's docstring.
    ufunc : str
        Name of the NumPy ufunc that is its reference and dtype rule; empty where NumPy has none.
    loops : tuple of str
        Without a ufunc: its loops as NumPy writes them, ``"ff->f"``, in order of preference.
    reference : callable or None
        Without a ufunc: the reference on NumPy arrays.
    expand : callable or None
        ``expand(builder, name_of_loop_dtype..., *operands) -> Value`` in simpler rows; see `expand.py`.
    lowering : dict of str to str
        Where it is not expanded: dtype kind ("b", "i", "u", "f") to ``"instruction fadd"``,
        ``"icmp slt"``, ``"intrinsic llvm.sqrt"`` or ``"math exp"`` (C library name, from which the
        libdevice and vector names follow).
    identity : object
        Of a fold with it: a number, "highest" or "lowest" (of the dtype), or None.
    commutative, associative : bool
        Exactly so for integers; folds of floats regroup only where the library says it does.
    cost : int
        Rough instructions an element.
    ulp : float
        Bound on the error in units in the last place of the result; 0: bit-identical to NumPy.
    domain : str
        Real inputs with a finite result, for tests: "real", "positive", "unit", "atleast1" ...
    dunder : str
        ``"add"`` gives ``__add__``, ``__radd__`` and ``__iadd__``; empty where there is no operator.
    aliases : tuple of str
    """

    name: str
    arity: int
    doc: str
    ufunc: str = ""
    loops: tuple[str, ...] = ()
    reference: Callable[..., Any] | None = None
    expand: Callable[..., Any] | None = None
    lowering: dict[str, str] = field(default_factory=dict)
    identity: Any = None
    commutative: bool = False
    associative: bool = False
    cost: int = 1
    ulp: float = 0.0
    domain: str = "real"
    dunder: str = ""
    aliases: tuple[str, ...] = ()
