"""Tests that explicit kernels compile to the expected PTX.

The assembler accepts the PTX. The tests need no GPU.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.codegen.explicit_kernels import ALL, BOOL, I8, PROGRAMS, U4, Builder
from weft.codegen import (
    Kernel,
    KernelBuilder,
    Pointer,
    Value,
    compile_kernel,
    lower_stages,
    resolve_target,
    verify_kernel,
)
from weft.runtime import CompileError, assemble

pytest.importorskip("cuda.bindings.nvjitlink")

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
F4 = np.dtype("f4")


def ptx_of(kernel: Kernel, arch: str = "sm_80", *, assembled: bool = True) -> str:
    """Return the kernel's PTX. If `assembled`, also check that the assembler accepts the PTX."""
    verify_kernel(kernel)
    code = compile_kernel(kernel, resolve_target(arch))
    if assembled:
        assemble(code.code, arch)
    return code.code.decode()


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_assemble(name: str, arch: str) -> None:
    code = compile_kernel(PROGRAMS[name]().kernel, resolve_target(arch))
    assert code.launch == {"scheme": "threads"}
    resources = assemble(code.code, arch).launch
    assert resources["registers"] > 0
    if name not in ("recursion", "memory"):
        assert resources["spills"] == 0
        assert resources["stack"] == 0


def between_threads() -> Kernel:
    """Return a kernel with shuffles, matches, reductions, votes and barriers.

    The shuffles are for all dtypes. The matches and the warp reductions are for numbers.
    """
    b = Builder("between")
    x, out = b.pointer("x", "f4", writable=True), b.pointer("out", "u4", writable=True)
    flag, full = b.scalar("flag", bool), b.constant(ALL, U4)
    i = b.grid_index()
    lane = b.one("lane_index")
    for kind in "?bBhHiIlLefdFD":
        value = b.cast(b.load(x, i), kind)
        for mode in ("idx", "up", "down", "xor"):
            moved = b.one("shuffle", (full, value, lane), value.type, mode=mode, width=16)
            b.store(x, i, b.cast(moved, F4))
        if value.type.kind in "iuf":  # type: ignore[union-attr]
            b.store(out, i, b.one("match", (full, value), U4, kind="any"))
            _, same = b.emit("match", (full, value), (U4, BOOL), kind="all")
            b.store(out, i, b.cast(same, U4))
            for combine in ("minimum", "maximum"):
                folded = b.one("warp_reduce", (b.load(out, i), value), value.type, kind=combine)
                b.store(x, i, b.cast(folded, F4))
    for kind in ("all", "any", "eq", "ballot"):
        said = b.one("vote", (full, flag), U4 if kind == "ballot" else BOOL, kind=kind)
        b.store(out, i, b.cast(said, U4))
    b.store(out, i, b.one("active_mask", type=U4))
    for kind in ("count", "and", "or"):
        b.store(out, i, b.cast(b.one("barrier_vote", (flag,), kind=kind), U4))
    b.emit("warp_barrier", (full,))
    b.emit("grid_barrier")
    return b.finish()


@pytest.mark.parametrize("arch", [*ARCHITECTURES, "sm_86", "sm_87", "sm_88", "sm_89", "sm_103", "sm_110", "sm_121"])
def test_what_threads_do_together(arch: str) -> None:
    kernel = between_threads()
    assert compile_kernel(kernel, resolve_target(arch)).launch == {"scheme": "threads", "cooperative": True}
    ptx = ptx_of(kernel, arch)
    for line in (
        "shfl.sync.idx.b32",
        "shfl.sync.up.b32",
        "shfl.sync.down.b32",
        "shfl.sync.bfly.b32",
        "match.any.sync.b64",
        "match.all.sync.b32",
        "vote.sync.ballot.b32",
        "vote.sync.uni.pred",
        "activemask.b32",
        "bar.red.popc.u32",
        "bar.red.and.pred",
        "bar.warp.sync",
        "%gridid",
        "ld.acquire.gpu.global.b32",
    ):
        assert line in ptx, line
    assert ("redux.sync.max.s32" in ptx) == (arch != "sm_75")
    # one shuffle per 32-bit word: two for 64-bit types, and two parts for complex numbers
    assert ptx.count("shfl.sync.down.b32") == 9 + 3 * 2 + 2 + 4


def test_a_barrier_of_the_grid_waits_for_blocks_and_orders_their_memory() -> None:
    """Test the order of the steps of a grid barrier."""
    parts = ("bar.sync 0;", "fence.sc.gpu;", "atom.global.add.u32", "ld.acquire.gpu.global.b32", "bar.sync 0;", "ret;")
    ptx = re.sub(r"\s+", " ", ptx_of(between_threads()))
    assert re.search(".*".join(map(re.escape, parts)), ptx)


@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomics_that_order_memory(space: str) -> None:
    b = Builder("ordered")
    i = b.grid_index()
    for kind, name in (("I", "increment"), ("i", "add"), ("e", "fmax")):
        pointer = b.shared(kind, 8) if space == "shared" else b.pointer(f"p_{kind}", kind, writable=True)
        b.store(pointer, i, b.one("atomic", (pointer, i, b.cast(i, kind)), np.dtype(kind), kind=name, order="acq_rel"))
    ptx = ptx_of(b.finish())
    assert f"atom.acq_rel.gpu.{space}.inc.u32" in ptx
    assert f"atom.acq_rel.gpu.{space}.add.u32" in ptx
    # atomics without a machine instruction are placed between fences
    assert ptx.count("fence.acq_rel.gpu") == 2


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomics(space: str, arch: str) -> None:
    b = Builder("atomics")
    i = b.grid_index()
    for kind in "bBhHiIlLefd":
        pointer = b.shared(kind, 8) if space == "shared" else b.pointer(f"p_{kind}", kind, writable=True)
        value = b.cast(i, kind)
        kinds = ["add", "subtract", "minimum", "maximum", "fmin", "fmax", "exchange"]
        dtype = value.type
        assert isinstance(dtype, np.dtype)
        kinds += ["bitwise_and", "bitwise_or", "bitwise_xor"] if dtype.kind != "f" else []
        kinds += ["increment", "decrement"] if dtype.kind == "u" else []
        for name in kinds:
            for scope in ("block", "device", "system"):
                value = b.one("atomic", (pointer, i, value), dtype, kind=name, scope=scope)
        b.store(pointer, i, b.one("atomic_cas", (pointer, i, value, value), dtype))
    ptx = ptx_of(b.finish(), arch)
    for form in (
        "add.u32",
        "min.s32",
        "max.u64",
        "inc.u32",
        "dec.u32",
        "exch.b64",
        "add.f32",
        "add.f64",
        "add.noftz.f16",
    ):
        assert f"atom.{space}.{form}" in ptx, form
        assert f"atom.sys.{space}.{form}" in ptx, form
    assert f"atom.relaxed.cta.{space}.cas.b64" in ptx
    assert f"atom.relaxed.sys.{space}.cas.b32" in ptx


def test_accesses_with_hints() -> None:
    b = Builder("hints")
    i = b.grid_index()
    for kind in "?bhilefd":
        x = b.pointer(f"x_{'bool' if kind == '?' else kind}", kind, writable=True)
        for hint in ("ca", "cg", "cs", "lu", "cv"):
            for write in ("wb", "cg", "cs", "wt"):
                b.store(x, i, b.load(x, i, hint=hint), hint=write)
        b.store(x, i, b.load(x, i, volatile=True), volatile=True)
    kept = b.shared("f4", 8)  # cache hints have no effect on shared memory
    b.store(kept, i, b.load(kept, i, hint="cs"), hint="wt")
    ptx = ptx_of(b.finish())
    for form in ("ld.global.ca.b8", "ld.global.lu.b16", "ld.global.cv.b32", "st.global.wt.b64", "st.global.cs.b8"):
        assert form in ptx, form
    assert ptx.count("ld.volatile.global") == 8
    assert "st.volatile.global.b64" in ptx


def test_memory_and_calls() -> None:
    b = Builder("calls")
    x, n = b.pointer("x", "f4", writable=True), b.scalar("n")
    dynamic = b.reinterpret(b.one("dynamic_shared", type=Pointer(np.dtype("u1"), "shared")), "f4")
    table = b.one("table", type=Pointer(F4, "constant"), values=np.arange(4, dtype=np.float32))
    mantissa, exponent = b.load(dynamic, n), b.local("i4")
    b.store(x, n, b.one("external", (mantissa, exponent), F4, symbol="__nv_frexpf"))
    doubled = b.one("assembly", (n, n), template="add.s32 $0, $1, $2;", constraints="=r,r,r")
    braced = "{ .reg .pred p; setp.lt.s32 p, $1, 5; selp.s32 $0, 1, 0, p; }"
    b.store(x, b.one("assembly", (n,), template=braced, constraints="=r,r,~{memory}"), mantissa)
    b.emit("assembly", (), template='// a note: $$ "quoted"', constraints="")
    b.store(x, doubled, b.load(table, b.load(exponent, b.constant(0))))
    for scope in ("block", "device", "system"):
        b.emit("fence", scope=scope)
    b.emit("sleep", (b.cast(b.one("clock", type=I8), U4),))
    b.emit("print", (n, b.load(x, n), b.test("less", n, doubled)), pieces=("100% ", " ", " ü ", "\n"))
    ptx = ptx_of(b.finish())
    for line in (
        ".extern .shared .align 16",
        ".const .align 16",
        "ld.const.b32",
        "add.s32",
        '// a note: $ "quoted"',
        "membar.cta",
        "membar.gl",
        "membar.sys",
        "%clock64",
        "nanosleep.u32",
        "vprintf",
    ):
        assert line in ptx, line
    text = ", ".join(str(c) for c in "100%% %lld %g ü %s\n".encode())
    assert text in ptx
    assert "__nv_frexpf" not in ptx.replace(".b8", "")


def test_libdevice_is_called_with_its_own_types() -> None:
    b = Builder("wrong")
    b.emit("external", (b.constant(1, "f8"),), (F4,), symbol="__nv_sinf")
    with pytest.raises(CompileError, match=r"__nv_sinf is float \(float\), not float \(double\)"):
        compile_kernel(b.finish(), resolve_target("sm_80"))


def test_tables_that_constant_memory_does_not_hold() -> None:
    for count, word in ((8192, ".const "), (8193, ".global ")):
        b = Builder("tables")
        x, n = b.pointer("x", "f8", writable=True), b.scalar("n")
        table = b.one("table", type=Pointer(np.dtype("f8"), "constant"), values=np.ones(count))
        b.store(x, n, b.load(table, n))
        assert f"{word}.align 16 .b8 table" in ptx_of(b.finish())


def test_vprintf_is_the_only_symbol_from_outside() -> None:
    b = Builder("unknown")
    b.emit("external", (b.constant(1, "f4"),), (F4,), symbol="__nv_no_such_function")
    with pytest.raises(CompileError, match="libdevice has no function __nv_no_such_function"):
        compile_kernel(b.finish(), resolve_target("sm_80"))


def add_vectors(index: Any, **attributes: Any) -> Kernel:
    """Return the kernel ``if i < n: out[i] = (x[i] + y[i]) * x[i]``, as a user would write it."""
    b = KernelBuilder("add_vectors", index, "threaded", explicit=True, **attributes)
    x, y, out = b.pointer("x", "f4"), b.pointer("y", "f4"), b.pointer("out", "f4", writable=True)
    n = b.scalar("n", np.int64)
    word = np.dtype(index)

    def number(opcode: str) -> Value:
        return b.cast(b.emit(opcode, (), (word,), axis=0)[0], np.int64)

    i = b.op("add", b.op("multiply", number("block_index"), number("block_size")), number("thread_index"))
    with b.if_(b.op("less", i, n, dtype=np.bool_)):
        at = b.cast(i, index)
        b.store(out, at, b.op("multiply", b.op("add", b.load(x, at), b.load(y, at)), b.load(x, at)))
    return b.finish()


def test_no_wide_multiplication_and_few_parameters() -> None:
    ptx = ptx_of(add_vectors(np.int32), assembled=False)
    assert not re.search(r"mul\.lo\.[su]64|f64|div", ptx)
    assert ptx.count("add_vectors_param_") == 4 * 2  # each parameter is declared once and loaded once


def test_launch_bounds_and_registers() -> None:
    ptx = ptx_of(add_vectors(np.int32, launch_bounds=(256, 4)))
    assert ".maxntid 256" in ptx
    assert ".minnctapersm 4" in ptx
    assert ".maxnreg 32" in ptx_of(add_vectors(np.int32, max_registers=32))
    assert ".maxntid" not in ptx_of(add_vectors(np.int32))


def test_fast_mathematics() -> None:
    def kernel(**attributes: Any) -> Kernel:
        b = Builder("fast", **attributes)
        x = b.pointer("x", "f4", writable=True)
        i = b.grid_index()
        value = b.load(x, i)
        value = b.op("add", b.op("multiply", value, value), b.op("divide", value, b.op("sqrt", value)))
        b.store(x, i, b.op("add", value, b.op("exp", b.op("sin", value))))
        return b.finish()

    exact, fast = ptx_of(kernel()), ptx_of(kernel(fast=True))
    for ptx in (exact, fast):  # (expanded inline, without a function call)
        assert "div.rn" not in ptx
        assert "sqrt.rn" not in ptx
    assert "rcp.approx.ftz.f64" in exact
    assert ".approx.ftz.f32" in fast
    assert "fma.rn.ftz.f32" in fast
    assert "rcp.approx.ftz.f64" not in fast
    assert "sin.approx" in fast
    assert "sin.approx" not in exact


def device_function(**attributes: Any) -> KernelBuilder:
    """Return a builder of a device function that takes a float and a bool, and returns a float."""
    b = Builder("area", device="area_of", **attributes)
    with b.function("area_of", [F4, BOOL], [F4]) as (r, doubled):
        square = b.op("multiply", r, r)
        b.yield_(b.op("where", doubled, b.op("add", square, square), square))
    return b


def test_device_functions_as_c_calls_them() -> None:
    ptx = ptx_of(device_function().finish(), assembled=False)
    assert re.search(r"\.visible \.func\s+\(\.param \.b32 func_retval0\) area\(", ptx)
    assert ".entry" not in ptx
    assert ptx.count(".func") == 1
    assert "area_param_1" in ptx
    # a recursive function keeps a separate body for the exported name
    b = Builder("count", device="down")
    with b.function("down", [I8], [I8]) as (n,):
        with b.if_(b.test("greater", n, b.constant(0, I8)), [I8]) as branch:
            (rest,) = b.call("down", b.op("subtract", n, b.constant(2, I8)))
            branch.yield_(b.op("multiply", b.op("add", rest, n), n))
        with b.else_() as branch:
            branch.yield_(n)
        b.yield_(*branch.results)
    assert ".visible .func" in ptx_of(b.finish(), assembled=False)


def test_device_functions_as_numba_calls_them() -> None:
    ptx = ptx_of(device_function(abi="numba").finish(), assembled=False)
    assert re.search(r"\.visible \.func\s+\(\.param \.b32 func_retval0\) area\(", ptx)
    assert "area_param_2" in ptx
    assert "area_param_3" not in ptx
    assert re.search(r"st\.b32\s+\[%rd\d+\]", ptx)
    assert re.search(r"st\.param\.b32\s+\[func_retval0\], 0", ptx)


def test_device_functions_with_several_results() -> None:
    for abi in ("c", "numba"):
        b = Builder("split", device="f", abi=abi)
        with b.function("f", [np.dtype("c8"), BOOL], [np.dtype("c8"), BOOL]) as (z, flag):
            b.yield_(b.op("multiply", z, z), b.op("logical_not", flag, dtype=np.bool_))
        ptx = ptx_of(b.finish(), assembled=False)
        assert ("func_retval0[12]" in ptx) == (abi == "c")


def test_stages_have_their_text() -> None:
    stages = lower_stages(add_vectors(np.int32), resolve_target("sm_90"))
    assert "level=threaded explicit=True" in stages["kernel"]
    assert "define ptx_kernel void @add_vectors" in stages["llvm"]
    assert ".entry add_vectors" in stages["asm"]


def test_lines() -> None:
    b = Builder("lines", line_info=True, file='/home/someone/a "b" é/<kernel>.py')
    x = b.pointer("x", "f4", writable=True)
    b.line = 41
    i = b.grid_index()
    b.line = 42
    with b.function("twice", [I8], [I8]) as (n,):
        b.line = 30
        with b.if_(b.test("less", n, b.constant(2, I8)), [I8]) as branch:
            branch.yield_(n)
        with b.else_() as branch:
            parts = [b.call("twice", b.op("subtract", n, b.constant(k, I8)))[0] for k in (1, 2)]
            branch.yield_(b.op("add", *parts))
        b.yield_(*branch.results)
    b.line = 42
    b.store(x, i, b.op("exp", b.cast(b.call("twice", b.cast(i, I8))[0], F4)))
    b.line = 43
    b.emit("barrier")
    kernel = b.finish()
    ptx = ptx_of(kernel)
    assert re.search(r'''\.file\s+1 "/home/someone/a 'b' .*/<kernel>\.py"''', ptx)
    assert {int(n) for n in re.findall(r"\.loc\s+1 (\d+)", ptx)} >= {30, 41, 42, 43}
    kernel.attributes["line_info"] = False
    assert ".loc" not in ptx_of(kernel)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("dtype", [F4, np.dtype(np.float64)])
def test_minima_that_ignore_nan_are_instructions(arch: str, dtype: np.dtype) -> None:
    """Test that `fmax` and `fmin` compile to PTX's max and min instructions.

    An additional comparison handles the zeros 0.0 and -0.0, which are equal. As in the reference, the second operand is
    then the result.
    """
    b = Builder("extremes")
    out = b.pointer("out", dtype, writable=True)
    x, y = b.scalar("x", dtype), b.scalar("y", dtype)
    b.store(out, b.constant(0), b.op("fmax", x, y))
    b.store(out, b.constant(1), b.op("fmin", x, y))
    ptx = ptx_of(b.finish(), arch)
    bits = 8 * dtype.itemsize
    assert f"max.f{bits}" in ptx and f"min.f{bits}" in ptx and f"setp.eq.f{bits}" in ptx
