"""Tests that explicit kernels are printed, parsed, verified and interpreted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegen.explicit_kernels import ALL, BOOL, I4, I8, PROGRAMS, U4, Builder, Program
from tests.codegen.kernels import GPU
from tests.oracle.interpret import DivergenceError, interpret_kernel
from tests.oracle.parse import parse_kernel
from weft.codegen import InvalidKernelError, Kernel, Target, print_kernel, verify_kernel
from weft.codegen.kernel_ir.operation import Pointer
from weft.codegen.pipeline import run_passes

OLD_GPU = Target("sm_75", "cuda", "nvptx64-nvidia-cuda", "sm_75")


def run(program: Program, kernel: Kernel, *, backwards: bool = False) -> None:
    """Interpret a version of the program's kernel, and check the results."""
    arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in program.arguments]
    given = []
    for parameter, argument in zip(kernel.parameters, arguments, strict=True):
        kind = parameter.value.type
        given.append(argument.view(kind.dtype) if isinstance(kind, Pointer) else argument)
    interpret_kernel(
        kernel, given, grid=program.grid, block=program.block, backwards=backwards, shared_bytes=program.shared_bytes
    )
    for found, wanted in zip(arguments, program.expected, strict=True):
        if wanted is not None:
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    program = PROGRAMS[name]()
    verify_kernel(program.kernel)
    text = print_kernel(program.kernel)
    again = parse_kernel(text)
    verify_kernel(again)
    assert print_kernel(again) == text
    run(program, again)
    run(program, program.kernel, backwards=True)
    for target in (GPU, OLD_GPU):
        ready = run_passes(program.kernel, target)
        verify_kernel(ready)
        assert print_kernel(parse_kernel(print_kernel(ready))) == print_kernel(ready)
        run(program, ready)


def test_blocks_meet() -> None:
    """Test that a grid barrier makes the writes of each block visible to all blocks."""
    b = Builder("meets")
    x, out = b.pointer("x", "i4", writable=True), b.pointer("out", "i4", writable=True)
    i = b.grid_index()
    with b.loop(b.constant(2), "serial"):
        b.emit("atomic", (x, b.constant(0), b.constant(1)), (I4,), kind="add")
        b.emit("grid_barrier")
        b.store(out, i, b.op("add", b.load(out, i), b.load(x, b.constant(0))))
        b.emit("grid_barrier")
    out_values = np.zeros(12, np.int32)
    interpret_kernel(b.finish(), [np.zeros(1, np.int32), out_values], grid=(3,), block=(4,))
    assert list(out_values) == [12 + 24] * 12


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder("says")
    n = b.scalar("n")
    values = (n, b.test("less", n, b.constant(3)), b.constant(0.25, "f4"), b.constant(255, "u1"))
    b.emit("print", values, pieces=('n="', '" ', " 100% ", "", "\n(ü)\n"), formats=("04d", "", ".3f", "x"))
    b.emit("print", (b.constant(1 - 2j, "c16"),), pieces=("", "\n"))
    kernel = b.finish()
    verify_kernel(kernel)
    again = parse_kernel(print_kernel(kernel))
    ready = run_passes(again, GPU)
    verify_kernel(ready)
    for form in (again, ready):
        interpret_kernel(form, [2], block=(1,))
        assert capsys.readouterr().out == 'n="0002" True 100% 0.250ff\n(ü)\n(1-2j)\n'


def test_lanes_that_never_come() -> None:
    b = Builder("alone")
    x = b.pointer("x", "i4")
    with b.if_(b.test("less", b.one("lane_index"), b.constant(3))):
        b.emit("shuffle", (b.constant(ALL, U4), b.load(x, b.constant(0)), b.constant(0)), (I4,), mode="idx")
    b.emit("barrier")
    with pytest.raises(DivergenceError, match="stand at barrier and shuffle"):
        interpret_kernel(b.finish(), [np.zeros(1, np.int32)], block=(32,))


def test_lanes_outside_their_mask() -> None:
    b = Builder("outside")
    b.emit("warp_barrier", (b.constant(1, U4),))
    with pytest.raises(DivergenceError, match="lane 1 is at warp_barrier with the mask 0x00000001"):
        interpret_kernel(b.finish(), [], block=(2,))


def test_threads_that_ended_keep_nobody_waiting() -> None:
    b = Builder("early")
    out, n = b.pointer("out", "i4", writable=True), b.scalar("n")
    with b.scope("kernel"):
        i = b.grid_index()
        with b.if_(b.test("greater_equal", i, n)):
            b.leave("kernel")
        b.emit("barrier")
        b.store(out, i, i)
    values = np.full(8, -1, np.int32)
    interpret_kernel(b.finish(), [values, 5], block=(8,))
    assert list(values) == [0, 1, 2, 3, 4, -1, -1, -1]


BAD: list[tuple[str, Callable[[Builder], object]]] = [
    ("an enclosing scope must have the label there", lambda b: b.leave("there")),
    ("the value must be uint32", lambda b: b.emit("warp_barrier", (b.constant(1),))),
    ("its mode must be one of 'idx', 'up'", lambda b: b.emit("shuffle", (b.constant(1, U4), b.constant(1), b.constant(1)), (I4,))),
    ("the dtypes of its operands and result must be equal", lambda b: b.emit("shuffle", (b.constant(1, U4), b.constant(1), b.constant(1)), (I8,), mode="up")),
    ("its width must be one of", lambda b: b.emit("shuffle", (b.constant(1, U4), b.constant(1), b.constant(1)), (I4,), mode="up", width=5)),
    ("its kind must be one of", lambda b: b.emit("atomic", (b.shared(I4, 1), b.constant(0), b.constant(1)), (I4,), kind="multiply")),
    ("an atomic of kind increment must not access int32", lambda b: b.emit("atomic", (b.shared(I4, 1), b.constant(0), b.constant(1)), (I4,), kind="increment")),
    ("an atomic must access global or shared memory", lambda b: b.emit("atomic", (b.local(I4), b.constant(0), b.constant(1)), (I4,), kind="add")),
    ("must be writable", lambda b: b.store(b.offset(b.reinterpret(b.pointer("x", "f4"), I4), b.constant(1)), b.constant(0), b.constant(0))),
    ("constant memory must not be written", lambda b: b.store(b.one("table", type=Pointer(I4, "constant"), values=np.zeros(1, I4)), b.constant(0), b.constant(0))),
    ("its values must be a non-empty 1-D array of int32", lambda b: b.one("table", type=Pointer(I4, "constant"), values=np.zeros(1))),
    ("its result must point to bytes in shared memory", lambda b: b.one("dynamic_shared", type=Pointer(I4, "shared"))),
    ("the result must point to the same memory as the operand", lambda b: b.emit("reinterpret", (b.local(I4),), (Pointer(I4, "shared"),))),
    ("its hint must be one of", lambda b: b.load(b.local(I4), b.constant(0), hint="wb")),
    ("its pieces must be 2 strings", lambda b: b.emit("print", (b.constant(0),), pieces=("a",))),
    ("the format '5s' must be valid for int32", lambda b: b.emit("print", (b.constant(0),), pieces=("", ""), formats=("5s",))),
    ("its symbol must be a function of libdevice", lambda b: b.emit("external", (), (I4,), symbol="system")),
    ("its template must be a string", lambda b: b.emit("assembly", (), (), constraints="")),
    ("inline assembly must have 0 constraints, one for each result and operand, not 1", lambda b: b.emit("assembly", (), (), template="", constraints="r")),
    ("the constraint of operand 0 must be =r, not =f", lambda b: b.emit("assembly", (), (I4,), template="", constraints="=f")),
    ("the operands of inline assembly must not be bool", lambda b: b.emit("assembly", (b.constant(True, BOOL),), (), template="", constraints="r")),
    ("$1 in the template must be an operand", lambda b: b.emit("assembly", (b.constant(1),), (), template="mov $0, $1;", constraints="r")),
    ("$ in the template must be an operand", lambda b: b.emit("assembly", (), (), template="bra $L1;", constraints="")),
    ("the called function 'f' must exist", lambda b: b.emit("call", (), (), function="f")),
    ("its scope must be one of 'block', 'device', 'system', not None", lambda b: b.emit("fence")),
    ("a warp must not reduce float32 with bitwise_or", lambda b: b.one("warp_reduce", (b.constant(1, U4), b.constant(1, "f4")), np.dtype("f4"), kind="bitwise_or")),
    ("the index must be int32", lambda b: b.one("lane_index", type=I8)),
]  # fmt: skip


@pytest.mark.parametrize(("says", "build"), BAD, ids=[says for says, _ in BAD])
def test_what_breaks_a_rule(says: str, build: Callable[[Builder], object]) -> None:
    b = Builder("bad")
    build(b)
    with pytest.raises(InvalidKernelError) as caught:
        verify_kernel(b.finish())
    assert says in str(caught.value)
    assert "kernel bad" in str(caught.value)


def test_scopes_and_functions_that_break_rules() -> None:
    b = Builder("bad")
    with b.scope("a"), b.scope("a"):
        pass
    with pytest.raises(InvalidKernelError, match="nested scopes must not have the same label, a"):
        verify_kernel(b.finish())
    b = Builder("bad")
    with b.function("f", [I4], [I8]) as (n,):
        b.yield_(n)
    with pytest.raises(InvalidKernelError, match=r"function f must yield \(int64\)"):
        verify_kernel(b.finish())
    b = Builder("bad")
    with b.function("f", [], []):
        b.emit("barrier")
    with pytest.raises(InvalidKernelError, match="function f must not synchronize threads"):
        verify_kernel(b.finish())
    b = Builder("bad")
    with b.function("f", [I4], [I4]) as (n,):
        b.yield_(n)
    b.emit("call", (b.constant(1, I8),), (I4,), function="f")
    with pytest.raises(InvalidKernelError, match=r"the operands of a call of f must be \(int32\)"):
        verify_kernel(b.finish())
    b = Builder("bad", device="g")
    with pytest.raises(InvalidKernelError, match="the device function 'g' must exist"):
        verify_kernel(b.finish())
    b = Builder("bad")
    b.kernel.level = "logical"
    b.emit("grid_barrier")
    with pytest.raises(InvalidKernelError, match="grid_barrier must be in a kernel of the threaded level"):
        verify_kernel(b.finish())


def test_pointers_are_no_results_of_control_flow() -> None:
    b = Builder("bad")
    x = b.pointer("x", I4)
    with b.if_(b.test("less", b.grid_index(), b.constant(1)), [x.type]) as branch:
        branch.yield_(x)
    with b.else_() as branch:
        branch.yield_(x)
    with pytest.raises(InvalidKernelError, match="its results must be numbers or bools"):
        verify_kernel(b.finish())


def test_builder_refuses_what_follows_the_end_of_a_block() -> None:
    b = Builder("dead")
    with b.scope("a"):
        b.leave("a")
        assert b.ended
        with pytest.raises(AssertionError, match="behind the end"):
            b.constant(1)
    assert not b.ended


def test_lines_stay_with_what_a_pass_makes_of_an_operation() -> None:
    b = Builder("lines")
    out = b.pointer("out", "c8", writable=True)
    b.line = 12
    value = b.load(out, b.constant(0))
    b.line = 13
    b.store(out, b.constant(0), b.op("multiply", value, value))
    ready = run_passes(b.finish(), GPU)
    assert {o.attributes["line"] for o in ready.walk() if o.opcode == "load"} == {12}
    assert {o.attributes["line"] for o in ready.walk() if o.opcode == "multiply"} >= {13}
    assert all("line" in o.attributes for o in ready.walk())


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,6}", fullmatch=True).filter(lambda key: key not in ("value", "values", "types")),
        st.one_of(st.text(), st.integers(), st.booleans(), st.lists(st.one_of(st.text(), st.integers())).map(tuple)),
    )
)
def test_attributes_read_back(attributes: dict[str, Any]) -> None:
    b = Builder("texts")
    with b.scope("a"):
        b.emit("fence", (), (), **attributes)
    operation = b.kernel.body.operations[0]
    operation.attributes = {**attributes, "label": "a"}
    b.kernel.attributes = dict(attributes)
    again = parse_kernel(print_kernel(b.finish()))
    assert again.attributes == attributes
    outer = again.body.operations[0]
    assert outer.attributes == {**attributes, "label": "a"}
    assert outer.regions[0].operations[0].attributes == attributes
