"""The text form of kernel IR.

One operation per line::

    kernel double index=int32 level=logical (
      %x: ptr<float32> noalias align=16
      %out: ptr<float32> mut align=16
      %n: int32
    ) {
      %0: int32 = constant() value=0
      for(%0, %n) role=parallel { [%1: int32]
        %2: float32 = load(%x, %1)
        %3: float32 = add(%2, %2)
        store(%out, %1, %3)
        yield()
      } -> []
    }

Functions follow the kernel: ``function NAME(%5: int64) -> (int64) {``. Parameters of the kernel keep their names. All
other values are numbered in program order when printed, so that the text (and everything keyed by it) does not depend
on how a kernel was built. Constants are exact to the bit; strings that are not plain words are quoted.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.dtypes import dtype_kind
from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Pointer, Type, Value


@cache  # types are few, and `dtype.name` is slow
def show_type(type: Type) -> str:
    """Return the text of a type: ``float32``, ``ptr<float32>`` or ``ptr<float32,shared>``."""
    if isinstance(type, Pointer):
        return f"ptr<{type.dtype.name}{'' if type.space == 'global' else ',' + type.space}>"
    return type.name


def show_constant(value: Any) -> str:
    """Return text that represents a NumPy scalar exactly.

    The text is decimal if that parses back to the same bits, otherwise ``0x`` and the bits.

    A complex number is written as two numbers separated by a comma.
    """
    dtype = value.dtype
    if dtype.kind == "c":
        return f"{show_constant(value.real)},{show_constant(value.imag)}"
    if dtype_kind(dtype) != "f":
        return str(value)
    text = str(value)
    if dtype.type(text).tobytes() == value.tobytes():
        return text
    return f"0x{int.from_bytes(value.tobytes(), 'little'):0{2 * dtype.itemsize}x}"


_WORD = re.compile(r"(?!(?:True|False|None)$)[A-Za-z_][\w.]*")


def _show_attribute(value: object) -> str:
    match value:
        case np.generic():
            return show_constant(value)
        case np.ndarray() | tuple():
            return "(" + " ".join(_show_attribute(v) for v in value) + ")"
        case str():
            return value if _WORD.fullmatch(value) else json.dumps(value)
        case _:
            return str(value)


def _show_attributes(attributes: dict[str, Any]) -> str:
    # omit an empty `combine`
    shown = sorted(item for item in attributes.items() if item[0] != "combine" or item[1])
    return "".join(f" {k}={_show_attribute(v)}" for k, v in shown)


def _flat(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return a kernel's attributes as they are printed.

    The schedule is replaced by the name of its class, and its fields that differ from their defaults are added.
    """
    decision = attributes.get("schedule")
    if decision is None:
        return attributes
    given = {each.name: (getattr(decision, each.name), each.default) for each in fields(decision)}
    own = {name: value for name, (value, default) in given.items() if value != default}
    return {**attributes, "schedule": type(decision).__name__, **own}


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.names: dict[Value, str] = {p.value: p.value.name for p in kernel.parameters}
        self.taken = set(self.names.values())
        self.count = 0
        self.lines: list[str] = []
        self.line_numbers: dict[Operation, int] = {}

    def define(self, value: Value) -> str:
        name = str(self.count)
        self.count += 1
        while name in self.taken:
            name = str(self.count)
            self.count += 1
        self.names[value] = name
        return f"%{name}: {show_type(value.type)}"

    def use(self, value: Value) -> str:
        # invalid kernels can be printed too: an undefined value keeps its own name
        return "%" + self.names.get(value, f"undefined_{value.name}")

    def operation(self, o: Operation, indent: str) -> str:
        """Return the text of an operation, without the names of the results."""
        return f"{indent}{o.opcode}({', '.join(self.use(v) for v in o.operands)}){_show_attributes(o.attributes)}"

    def block(self, block: Block, depth: int) -> None:
        indent = "  " * depth
        for o in block.operations:
            self.line_numbers[o] = len(self.lines)
            if not o.regions:
                head = self.operation(o, "")
                results = ", ".join(self.define(v) for v in o.results)
                self.lines.append(f"{indent}{results} = {head}" if results else indent + head)
                continue
            head = self.operation(o, indent)
            for k, region in enumerate(o.regions):
                parameters = ", ".join(self.define(v) for v in region.parameters)
                self.lines.append(f"{head if k == 0 else indent + '} and'} {{ [{parameters}]")
                self.block(region, depth + 1)
            results = ", ".join(self.define(v) for v in o.results)
            self.lines.append(f"{indent}}} -> [{results}]")

    def bodies(self, kernel: Kernel) -> list[str]:
        """Return the lines of the kernel's body and of its functions' bodies."""
        self.block(kernel.body, 1)
        self.lines.append("}")
        for function in kernel.functions:
            parameters = ", ".join(self.define(v) for v in function.parameters)
            results = ", ".join(show_type(t) for t in function.results)
            self.lines.append(f"function {function.name}({parameters}) -> ({results}) {{")
            self.block(function.body, 1)
            self.lines.append("}")
        return self.lines


def print_kernel(kernel: Kernel) -> str:
    """Return a kernel as text."""
    printer = _Printer(kernel)
    parameters = []
    for p in kernel.parameters:
        flags = "".join(f" {flag}" for flag, on in (("mut", p.writable), ("noalias", p.noalias)) if on)
        align = f" align={p.align}" if p.align != 1 else ""
        given = f" value={p.by_value}" if p.by_value else ""
        parameters.append(f"  %{p.value.name}: {show_type(p.value.type)}{flags}{align}{given}\n")
    body = "".join(line + "\n" for line in printer.bodies(kernel))
    head = f"kernel {kernel.name} index={kernel.index_dtype.name} level={kernel.level}"
    return f"{head}{_show_attributes(_flat(kernel.attributes))} (\n{''.join(parameters)}) {{\n{body}"


def print_operations(kernel: Kernel) -> dict[Operation, str]:
    """Map each operation of a kernel to its line of text, which excludes nested operations."""
    printer = _Printer(kernel)
    printer.bodies(kernel)
    return {operation: printer.lines[line_number].strip() for operation, line_number in printer.line_numbers.items()}
