"""List the public names of weft, which the reference describes.

In: the modules `weft`, `weft.memory`, `weft.cuda` and the class `Array`. Out: a `PublicName` for each function, class,
method and property.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import weft as wf
from weft import cuda
from weft.dsl import OWN

KERNELS = "guvectorize kernel reduce sanitize texture vectorize".split()
COMPILED = "compile compile_all compile_for_current_device compile_ptx compile_ptx_for_current_device declare_device jit".split()
DECORATORS = "guvectorize vectorize literal_unroll".split()


@dataclass(frozen=True)
class PublicName:
    """A public name: its full name, and the object that it names."""

    name: str
    target: Any

    @property
    def needs_example(self) -> bool:
        """Whether the docstring must have an example, which is true for functions, classes and properties."""
        return callable(self.target) or isinstance(self.target, property)

    @cached_property
    def kind(self) -> str:
        """The kind of the name: function, class, method or attribute."""
        if isinstance(self.target, property) or not callable(self.target):
            return "attribute"
        if ".Array." in self.name:
            return "method"
        return "class" if inspect.isclass(self.target) else "function"


def public_names() -> list[PublicName]:
    """Return all public names that the reference describes, in the order of the reference."""
    own = sorted({*OWN, *wf.__all__, *KERNELS} - {"memory", "ndarray"})
    found = {f"weft.{name}": getattr(wf, name) for name in own if not name.startswith("__")}
    found |= {f"weft.memory.{name}": getattr(wf.memory, name) for name in wf.memory.__all__}
    found |= {f"weft.Array.{name}": inspect.getattr_static(wf.Array, name) for name in dir(wf.Array) if name[0] != "_"}
    host = sorted({*cuda.__all__, *COMPILED, *DECORATORS})
    found |= {f"weft.cuda.{name}": getattr(cuda, name) for name in host}
    return [PublicName(name, target) for name, target in found.items()]
