"""Tests of the text form of kernel IR: layout, round trips and parser errors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen import kernels
from tests.oracle.parse import ParseError, parse_kernel, read_constant
from weft.codegen import Kernel, KernelBuilder, print_kernel, verify_kernel
from weft.codegen.kernel_ir.text import show_constant
from weft.codegen.passes.choose_lanes import choose_lanes
from weft.codegen.passes.expand_complex import expand_complex
from weft.codegen.passes.map_axes import map_axes

LINE = """\
kernel line index=int32 level=logical (
  %x: ptr<float32> noalias align=16
  %y: ptr<float32> noalias align=16
  %out: ptr<float32> mut align=16
  %n: int32
) {
  %0: int32 = constant() value=0
  for(%0, %n) role=parallel { [%1: int32]
    %2: float32 = load(%x, %1)
    %3: float32 = load(%y, %1)
    %4: float32 = multiply(%2, %3)
    %5: float32 = add(%4, %2)
    store(%out, %1, %5)
    yield()
  } -> []
}
"""

EVERY = [
    kernels.line(),
    kernels.line(np.bool_, index=np.int64),
    kernels.strided(),
    kernels.space(),
    kernels.rows(np.float64, ("add", "argmax")),
    kernels.columns(np.complex64),
    kernels.deep_fold(),
    kernels.whole(),
    kernels.centred(),
    kernels.scan(),
]


def test_text_of_a_kernel() -> None:
    assert print_kernel(kernels.line()) == LINE


@pytest.mark.parametrize("kernel", EVERY, ids=lambda k: k.name)
def test_every_form_reads_back(kernel: Kernel) -> None:
    for form in (kernel, choose_lanes(kernel, kernels.HOST), map_axes(kernel, kernels.GPU)):
        for expanded in (form, expand_complex(form)):
            text = print_kernel(expanded)
            again = parse_kernel(text)
            verify_kernel(again)
            assert print_kernel(again) == text
            assert again.attributes == expanded.attributes
            assert [(p.writable, p.noalias, p.align) for p in again.parameters] == [
                (p.writable, p.noalias, p.align) for p in expanded.parameters
            ]
            for mine, theirs in zip(again.walk(), expanded.walk(), strict=True):
                assert mine.attributes.keys() == theirs.attributes.keys()


def test_numbering_does_not_depend_on_names() -> None:
    kernel = kernels.rows()
    for k, operation in enumerate(kernel.walk()):
        for value in operation.results:
            value.name = f"{1000 - k}"
    assert print_kernel(kernel) == print_kernel(kernels.rows())


def test_numbers_give_way_to_parameters() -> None:
    b = KernelBuilder("f")
    b.kernel.parameters.clear()
    out = b.pointer("out", np.int32, writable=True)
    b.scalar("0")
    b.store(out, b.constant(0), b.constant(7))
    text = print_kernel(b.finish())
    assert print_kernel(parse_kernel(text)) == text
    assert "%1: int32 = constant() value=0" in text


def _bits(number: int, kind: str) -> np.generic:
    return np.array([number], f"u{np.dtype(kind).itemsize}").view(kind)[0]


CONSTANTS = [
    np.float32(0.1),
    np.float64(0.1),
    np.float16(0.1),
    np.float32(-0.0),
    np.float64(np.inf),
    np.float32(-np.inf),
    np.float64(np.nan),
    _bits(0x7FC00001, "f4"),
    _bits(0xFFF8000000000123, "f8"),
    _bits(0x7F800001, "f4"),
    np.float32(1e-45),
    np.float64(5e-324),
    np.float16(65504),
    np.int8(-128),
    np.uint64(2**64 - 1),
    np.int64(-(2**63)),
    np.bool_(True),
    np.bool_(False),
    np.complex64(complex(-0.0, np.inf)),
    np.complex128(complex(np.nan, -0.0)),
]


@pytest.mark.parametrize("value", CONSTANTS, ids=repr)
def test_constants_are_exact(value: np.generic) -> None:
    text = show_constant(value)
    assert " " not in text
    again = read_constant(text, value.dtype)
    assert again.dtype == value.dtype
    assert again.tobytes() == value.tobytes()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("load(%x, %1)", "load(%x, %9)", "line 9, column 28: %9 is not defined before"),
        ("%3: float32 = load", "%2: float32 = load", "line 10, column 5: %2 is defined twice"),
        ("%4: float32", "%4: float31", "line 11, column 9: float31 is no type"),
        ("%4: float32 = multiply", "%4 = multiply", "line 11, column 5: expected '%name: type'"),
        ("value=0", "value=zero", "line 7, column 32: invalid literal"),
        ("value=0", "value=99999999999", "out of range"),
        ("role=parallel", "role parallel", "line 8, column 15: expected attributes"),
        ("{ [%1: int32]", "{ %1: int32", "line 8, column 29: a region opens with"),
        ("  } -> []", "  }", "line 15, column 3: a region closes with"),
        ("store(%out", "store %out", "line 13, column 5: no operation"),
        ("index=int32", "index=int16", "line 1, column 1: expected 'kernel NAME"),
        ("level=logical", "level=logical schedule=Kernel", "line 1, column 39: Kernel is no schedule"),
        ("%n: int32\n", "%n int32\n", "line 5, column 3: expected '  %name: type"),
        ("  } -> []\n}\n", "", "line 14, column 5: the text ends inside the kernel"),
        ("}\n", "}\nmore\n", "line 17, column 1: text after the kernel"),
    ],
)
def test_errors_say_where(old: str, new: str, says: str) -> None:
    text = LINE.replace(old, new) if old != "}\n" else LINE + "more\n"
    assert text != LINE
    with pytest.raises(ParseError) as caught:
        parse_kernel(text)
    assert says in str(caught.value)


GIVEN = """\
kernel given index=int32 level=logical (
  %few: ptr<float32,parameter> noalias align=16 value=64
  %out: ptr<float32> mut align=4
  %n: int32
) {
  %0: int32 = constant() value=0
  for(%0, %n) role=parallel { [%1: int32]
    %2: float32 = load(%few, %0)
    store(%out, %1, %2)
    yield()
  } -> []
}
"""


def test_a_parameter_that_is_passed_by_value() -> None:
    kernel = parse_kernel(GIVEN)
    verify_kernel(kernel)
    assert kernel.parameters[0].by_value == 64 and print_kernel(kernel) == GIVEN
