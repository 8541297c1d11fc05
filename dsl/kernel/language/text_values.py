"""Text in kernels: elements of fixed length from NumPy arrays of str or bytes.

In: `RecordValue` of a text dtype, that is, a pointer to the characters, or a constant. Out: copies, comparisons and
lengths. Invariant: unused characters at the end are 0, as in NumPy. Text that is too long is cut. Constants
that are stored as bytes are ASCII.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.extents import extent_ir, multiply
from weft.dsl.kernel.language.values import (
    ArrayValue,
    Constant,
    Extent,
    RecordValue,
    ScalarValue,
    describe,
    is_text_dtype,
)


def is_text(value: object) -> bool:
    """Return whether a value is an element of an array of text."""
    return isinstance(value, RecordValue) and is_text_dtype(value.dtype)


def width(dtype: np.dtype) -> int:
    """Return the maximum number of characters of a text dtype."""
    return dtype.itemsize // (4 if dtype.kind == "U" else 1)


class _Letters:
    """The characters of a text by position, followed by zeros."""

    def __init__(self, c: Compiler, value: Any) -> None:
        self.c = c
        self.stride: Extent = 1
        self.codes: list[int] | None = None  # the characters' codes, if they are constant
        if isinstance(value, Constant) and isinstance(value.value, str):
            self.codes = [ord(letter) for letter in value.value]
            self.length = len(self.codes)
        elif isinstance(value, ArrayValue) and value.dtype == np.uint8 and value.ndim == 1:
            length = value.shape[0]
            if not isinstance(length, int):
                c.fail("bytes in a kernel have a length that is known when it is compiled")
            self.length, self.pointer, self.stride = length, value.pointer, value.strides[0]
        elif is_text(value):
            self.length = width(value.dtype)
            kind = np.dtype(np.uint32 if value.dtype.kind == "U" else np.uint8)
            self.pointer = c.builder.reinterpret(value.pointer, kind)
        else:
            c.fail(f"text is needed here, not {describe(value)}")

    def at(self, k: int) -> Any:
        """Return the code of the character at position `k`, as a uint32."""
        b = self.c.builder
        if k >= self.length:
            return b.constant(0, np.uint32)
        if self.codes is not None:
            return b.constant(self.codes[k], np.uint32)
        position = extent_ir(self.c, multiply(self.c, k, self.stride))
        return b.cast(b.load(self.pointer, position), np.uint32)


def store_text(c: Compiler, target: RecordValue, value: object) -> None:
    """Copy a text to an element of a text array, and pad the element with zeros."""
    letters = _Letters(c, value)
    if target.dtype.kind == "S" and any(code > 127 for code in letters.codes or ()):
        c.fail(f"{describe(value)} cannot be stored in bytes: it has letters that are not ASCII")
    kind = np.dtype(np.uint32 if target.dtype.kind == "U" else np.uint8)
    pointer = c.builder.reinterpret(target.pointer, kind)
    for k in range(width(target.dtype)):
        c.builder.store(pointer, c.builder.constant(k), c.builder.cast(letters.at(k), kind))


def compare_text(c: Compiler, name: str, left: Any, right: Any) -> Any:
    """Compile a comparison of texts, or return None if no operand is an element of a text array."""
    if not is_text(left) and not is_text(right):
        return None
    first, second = _Letters(c, left), _Letters(c, right)
    b = c.builder
    less, equal = b.constant(False, np.bool_), b.constant(True, np.bool_)
    for k in range(max(first.length, second.length)):  # the first differing characters determine the result
        x, y = first.at(k), second.at(k)
        less = b.op("bitwise_or", less, b.op("bitwise_and", equal, b.op("less", x, y)))
        equal = b.op("bitwise_and", equal, b.op("equal", x, y))
    truths = {"equal": equal, "less": less, "less_equal": b.op("bitwise_or", less, equal)}
    opposite = {"not_equal": "equal", "greater_equal": "less", "greater": "less_equal"}
    found = truths[opposite.get(name, name)]
    return ScalarValue(b.op("bitwise_xor", found, b.constant(True, np.bool_)) if name in opposite else found, True)


def text_length(c: Compiler, value: RecordValue) -> Any:
    """Compile ``len(text)``, which does not count trailing null characters."""
    letters = _Letters(c, value)
    b = c.builder
    count = b.constant(0, np.int64)
    for k in range(letters.length):
        used = b.op("not_equal", letters.at(k), b.constant(0, np.uint32))
        count = b.op("where", used, b.constant(k + 1, np.int64), count)
    return ScalarValue(count, True, True)
