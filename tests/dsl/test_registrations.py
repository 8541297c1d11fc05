"""Tests of the types that tables of other packages hold."""

from types import ModuleType
from typing import Any

import numpy as np

import weft as wf
from weft.dsl import registrations


class _Table:
    """A table by type, like those of autograd, which do not find subclasses."""

    def __init__(self) -> None:
        self.mappings: dict[type, Any] = {np.ndarray: np.shape}

    def register(self, kind: type, function: Any = None) -> None:
        self.mappings[kind] = function


def test_tables_hold_the_types_of_all_arrays() -> None:
    module: Any = ModuleType("tables")
    module.ArrayBox, module.VSpace = _Table(), _Table()
    registrations.register_box(module)
    registrations.register_vector_space(module)
    x = wf.zeros(20_000) + 1j
    for value in (x, x.real, x.imag, x.sum(), wf.broadcast_to(x, (2, 20_000)), np.zeros(3)):
        assert type(value) in module.VSpace.mappings and (type(value) in module.ArrayBox.mappings), type(value)
        assert module.VSpace.mappings[type(value)](value) == np.shape(value)
