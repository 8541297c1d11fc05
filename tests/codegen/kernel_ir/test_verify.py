"""Tests of the verifier, with valid kernels and with kernels that break a rule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.codegen import kernels
from tests.oracle.parse import parse_kernel
from weft.codegen import InvalidKernelError, Kernel, KernelBuilder, print_kernel, verify_kernel
from weft.codegen.kernel_ir.operation import Operation, Pointer, Value
from weft.codegen.passes.choose_lanes import choose_lanes
from weft.codegen.passes.expand_complex import expand_complex
from weft.codegen.passes.expand_ops import expand_ops
from weft.codegen.passes.map_axes import map_axes

EVERY = [
    kernels.line(np.float16),
    kernels.line(np.complex128),
    kernels.strided(),
    kernels.space(),
    kernels.rows(np.complex64, ("add", "multiply")),
    kernels.rows(np.float32, ("argmin", "maximum")),
    kernels.columns(np.bool_, ("logical_or", "logical_and")),
    kernels.deep_fold(),
    kernels.whole(),
    kernels.centred(),
    kernels.scan(np.complex64),
]


@pytest.mark.parametrize("kernel", EVERY, ids=lambda k: k.name)
def test_holds_after_every_pass(kernel: Kernel) -> None:
    verify_kernel(kernel)
    for form in (choose_lanes(kernel, kernels.HOST), map_axes(kernel, kernels.GPU)):
        verify_kernel(form)
        expanded = expand_complex(form)
        verify_kernel(expanded)
        verify_kernel(expand_ops(expanded))


def _replaced(old: str, new: str, kernel: Kernel) -> Kernel:
    text = print_kernel(kernel)
    assert old in text
    return parse_kernel(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("float32 = add(%6, %8)", "float32 = add(%6, %6, %6)", "add must have 2 operands"),
        ("float32 = add(%6, %8)", "float64 = add(%6, %8)", "the dtypes must be"),
        ("float32 = add(%6, %8)", "float32 = sum(%6, %8)", "the operation sum must exist"),
        ("float32 = add(%6, %8)", "float32 = bitwise_and(%6, %8)", "bitwise_and"),
        ("float32 = add(%6, %8)", "float32 = add(%6, %x)", "scalars"),
        ("float32 = load(%x, %7)", "float32 = load(%count, %7)", "the operand must be a pointer"),
        ("float32 = load(%x, %7)", "float32 = load(%x, %6)", "the index must be int32"),
        ("float32 = load(%x, %7)", "float64 = load(%x, %7)", "the value must have the pointer's dtype"),
        ("%x: ptr<float32>", "%x: ptr<float64>", "the value must have the pointer's dtype"),
        ("%out0: ptr<float32> mut", "%out0: ptr<float32>", "%out0 must be writable"),
        ("combine=(add)", "combine=(plus)", "its reductions must exist, but plus does not"),
        ("combine=(add)", "combine=(argmin)", "its reductions (argmin) must match its 1 carried values"),
        ("combine=(add)", "combine=(add add)", "its reductions (add, add) must match its 1 carried values"),
        ("combine=(add) role=reduce", "role=reduce", "its reductions () must match its 1 carried values"),
        ("role=reduce", "role=serial", "a loop must have the role reduce to combine values"),
        ("role=reduce", "role=sideways", "the role of a loop at the logical level must be one of"),
        ("role=parallel", "role=parallel step=0", "its step must be a positive integer"),
        ("role=parallel", "role=parallel colour=3", "for must not have the attribute colour"),
        ("role=parallel", "role=parallel rolled=3", "its rolled must be bool, not int"),
        ("float32 = load(%x, %7)", "float32 = load(%x, %7) role=serial", "load must not have the attribute role"),
        ("yield(%10)", "yield(%7)", "its region must yield (float32)"),
        ("yield(%10)", "yield()", "its region must yield (float32)"),
        ("role=parallel", "role=serial", ""),
        ("level=logical", "level=threaded", "the role of a loop at the threaded level must be one of scan, serial"),
    ],
)
def test_text_that_breaks_a_rule(old: str, new: str, says: str) -> None:
    kernel = _replaced(old, new, kernels.rows())
    if not says:
        verify_kernel(kernel)
        return
    with pytest.raises(InvalidKernelError) as caught:
        verify_kernel(kernel)
    assert says in str(caught.value)
    assert str(caught.value).startswith("kernel rows: ")


def test_message_shows_the_operation_as_printed() -> None:
    kernel = _replaced("yield(%10)", "yield(%7)", kernels.rows())
    with pytest.raises(InvalidKernelError) as caught:
        verify_kernel(kernel)
    line = next(text.strip() for text in print_kernel(kernel).splitlines() if "role=reduce" in text)
    assert line.partition(" {")[0] in str(caught.value)


def _kernel(build: Callable[[KernelBuilder, Value, Value], None]) -> Kernel:
    b = KernelBuilder("broken")
    out, n = b.pointer("out", np.float32, writable=True), b.scalar("n")
    build(b, out, n)
    return b.finish()


def _used_outside(b: KernelBuilder, out: Value, n: Value) -> None:
    with b.loop(n, "serial") as i:
        inside = b.cast(i.index, np.float32)
    b.store(out, b.constant(0), inside)


def _used_before(b: KernelBuilder, out: Value, n: Value) -> None:
    index = b.constant(0)
    b.store(out, index, b.cast(index, np.float32))
    b.block.operations.reverse()


def _defined_twice(b: KernelBuilder, out: Value, n: Value) -> None:
    b.cast(n, np.float32)
    b.block.operations.append(b.block.operations[-1])


def _beside_parallel(b: KernelBuilder, out: Value, n: Value) -> None:
    with b.loop(n, "parallel") as i:
        b.store(out, i.index, b.constant(1, np.float32))
    b.store(out, b.constant(0), b.constant(1, np.float32))


def _parallel_inside(b: KernelBuilder, out: Value, n: Value) -> None:
    with b.loop(n, "serial"), b.loop(n, "parallel") as i:
        b.store(out, i.index, b.constant(1, np.float32))


def _parallel_late(b: KernelBuilder, out: Value, n: Value) -> None:
    with b.loop(n, "parallel", start=b.constant(1)) as i:
        b.store(out, i.index, b.constant(1, np.float32))


def _parallel_carries(b: KernelBuilder, out: Value, n: Value) -> None:
    with b.loop(n, "parallel", initial=[n]) as i:
        i.yield_(i.carried[0])


def _wide_bound(b: KernelBuilder, out: Value, n: Value) -> None:
    with b.loop(b.cast(n, np.int64), "serial"):
        pass


def _thread(b: KernelBuilder, out: Value, n: Value) -> None:
    b.emit("thread_index", (), (np.dtype(np.int32),), axis=0)


def _constant_dtype(b: KernelBuilder, out: Value, n: Value) -> None:
    b.emit("constant", (), (np.dtype(np.float32),), value=np.float64(1))


def _condition(b: KernelBuilder, out: Value, n: Value) -> None:
    b.emit("if", (n,), (), ())


def _no_yield(b: KernelBuilder, out: Value, n: Value) -> None:
    with b.loop(n, "serial"):
        pass
    b.block.operations[-1].regions[0].operations.clear()


def _stray_yield(b: KernelBuilder, out: Value, n: Value) -> None:
    b.block.operations.append(Operation("yield"))


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (_used_outside, "must be defined before its use"),
        (_used_before, "must be defined before its use"),
        (_defined_twice, "must not be defined twice"),
        (_beside_parallel, "a parallel loop must be the only operation of its block"),
        (_parallel_inside, "a parallel loop must not be inside a loop of another role"),
        (_parallel_late, "must start at the constant 0"),
        (_parallel_carries, "must not carry values"),
        (_wide_bound, "its operands must be (int32, int32)"),
        (_thread, "thread_index must be in a kernel of the threaded level"),
        (_constant_dtype, "its value must be a NumPy scalar of dtype float32"),
        (_condition, "an if must have one operand and two regions"),
        (_no_yield, "must end with a yield"),
        (_stray_yield, "a yield must be inside a region"),
    ],
)
def test_kernel_that_breaks_a_rule(build: Callable[[KernelBuilder, Value, Value], None], says: str) -> None:
    with pytest.raises(InvalidKernelError, match="kernel broken: ") as caught:
        verify_kernel(_kernel(build))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("opcode", "operands", "types", "attributes", "says"),
    [
        ("shuffle_xor", 1, [np.dtype(np.int32)], {"mask": 3}, "its mask must be one of"),
        ("shuffle_xor", 1, [np.dtype(np.int64)], {"mask": 1}, "the dtypes of its operands and result must be equal"),
        ("shared", 0, [Pointer(np.dtype(np.int32))], {"count": 4}, "its result must be a pointer to shared memory"),
        ("shared", 0, [Pointer(np.dtype(np.int32), "shared")], {"count": 0}, "its count must be a positive integer"),
        ("thread_index", 0, [np.dtype(np.int64)], {"axis": 0}, "the index must be int32"),
        ("thread_index", 0, [np.dtype(np.int32)], {"axis": 3}, "its axis must be one of 0, 1, 2"),
        ("barrier", 1, [], {}, "barrier must have 0 operands"),
    ],
)
def test_thread_operations(opcode: str, operands: int, types: list, attributes: dict, says: str) -> None:
    b = KernelBuilder("threads")
    b.kernel.level = "threaded"
    n = b.scalar("n")
    b.emit(opcode, [n] * operands, types, **attributes)
    with pytest.raises(InvalidKernelError) as caught:
        verify_kernel(b.finish())
    assert says in str(caught.value)


def test_heads() -> None:
    for change, says in (
        (lambda k: setattr(k, "index_dtype", np.dtype(np.int16)), "the index dtype must be int32 or int64"),
        (lambda k: setattr(k, "level", "sideways"), "the level must be one of"),
        (lambda k: setattr(k.parameters[0].value, "name", "1 2"), "must be an identifier"),
        (lambda k: setattr(k.parameters[0].value, "name", k.parameters[1].value.name), "must not be defined twice"),
    ):
        kernel = kernels.line()
        change(kernel)
        with pytest.raises(InvalidKernelError) as caught:
            verify_kernel(kernel)
        assert says in str(caught.value)


GIVEN = """\
kernel given index=int32 level=logical (
  %few: ptr<float32,parameter> noalias align=16 value=64
) {
  %0: int32 = constant() value=0
  %1: float32 = load(%few, %0)
}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [(" value=64", ""), (",parameter", ""), (" noalias", " mut noalias")],
    ids=["no bytes", "bytes of a pointer to memory", "written to"],
)
def test_parameters_that_are_passed_by_value(old: str, new: str) -> None:
    verify_kernel(parse_kernel(GIVEN))
    with pytest.raises(InvalidKernelError, match="by value"):
        verify_kernel(parse_kernel(GIVEN.replace(old, new)))
