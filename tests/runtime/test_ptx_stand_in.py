"""Tests of the simulated GPU that executes PTX.

Instructions are compared with computations in Python. Programs on the simulated GPU are compared with NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.kernel.programs.cooperating import reduction_with_strides_and_atomics
from tests.gpu.test_templates import PROGRAMS
from tests.stand_in.driver import Memory
from tests.stand_in.ptx import numbers
from tests.stand_in.ptx.driver import PtxStandIn, Started, make_ptx_device
from tests.stand_in.ptx.instructions import make_ready
from tests.stand_in.ptx.machine import Fault, run
from tests.stand_in.ptx.text import parse
from weft import cuda
from weft.runtime import override

RNG = np.random.default_rng(8)
HEAD = ".version 7.8\n.target sm_90\n.address_size 64\n"
BEGIN = """
.visible .entry k(.param .u64 k_in, .param .u64 k_out) {
    .reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<29>; .reg .b64 %rd<19>;
    ld.param.u64 %rd1, [k_in];
    ld.param.u64 %rd2, [k_out];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    mul.wide.u32 %rd3, %r4, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.b32 %r5, [%rd4];
"""
END = "\n    st.global.b32 [%rd5], %r6;\n    ret;\n}"


def launch(
    text: str, given: np.ndarray, grid: int = 1, block: int = 0, out: int = 0, before: str = "", seed: int = 0
) -> np.ndarray:
    """Run PTX instructions that compute %r6 from %r5, and return each thread's %r6.

    Each thread's %r5 is an element of `given`. If `text` is a whole kernel, its output is returned.
    """
    memory = Memory(1 << 24)
    block = block or given.size // grid
    addresses = [memory.give("device", n) for n in (given.nbytes, max(out or given.nbytes, 4))]
    wf_view(addresses[0], given.nbytes)[:] = given.view(np.uint8)
    module = parse(HEAD + before + (text if ".entry" in text else BEGIN + text + END))
    program = make_ready(module, "k", {}, {})
    started = Started("k", (grid, 1, 1), (block, 1, 1), 0, 0, (), False)
    run(program, memory, started, np.array(addresses, np.uint64).tobytes(), seed)
    return wf_view(addresses[1], out or given.nbytes).view(np.uint32).copy()


def wf_view(at: int, size: int) -> np.ndarray:
    """Return the bytes at an address."""
    import ctypes

    return np.frombuffer((ctypes.c_uint8 * size).from_address(at), np.uint8)


BITS = np.concatenate([RNG.integers(0, 2**32, 59, np.uint32), np.array([0, 1, 2**31, 2**32 - 1, 0x80], np.uint32)])


def signed(x: int) -> int:
    return x - 2**32 if x >> 31 else x


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("add.s32 %r6, %r5, -3;", lambda x: x - 3),
        ("mul.hi.s32 %r6, %r5, 123456789;", lambda x: signed(x) * 123456789 >> 32),
        ("mul.hi.u32 %r6, %r5, -5;", lambda x: x * (2**32 - 5) >> 32),
        ("div.s32 %r6, %r5, -7;", lambda x: -(signed(x) // 7) if signed(x) >= 0 else -signed(x) // 7),
        ("rem.s32 %r6, %r5, 7;", lambda x: signed(x) % 7 if signed(x) >= 0 else -(-signed(x) % 7)),
        ("shl.b32 %r6, %r5, 33;", lambda x: 0),
        ("shr.s32 %r6, %r5, 40;", lambda x: -(x >> 31)),
        ("shr.u32 %r6, %r5, 5;", lambda x: x >> 5),
        ("shf.l.wrap.b32 %r6, %r5, %r5, 9;", lambda x: x << 9 | x >> 23),
        ("shf.r.clamp.b32 %r6, 0, %r5, 40;", lambda x: x),
        ("popc.b32 %r6, %r5;", lambda x: x.bit_count()),
        ("clz.b32 %r6, %r5;", lambda x: 32 - x.bit_length()),
        ("bfind.u32 %r6, %r5;", lambda x: x.bit_length() - 1),
        ("brev.b32 %r6, %r5;", lambda x: int(f"{x:032b}"[::-1], 2)),
        ("bfe.u32 %r6, %r5, 7, 9;", lambda x: x >> 7 & 511),
        ("bfe.s32 %r6, %r5, 4, 4;", lambda x: (x >> 4 & 15) - 16 * (x >> 7 & 1)),
        ("bfi.b32 %r6, 5, %r5, 8, 3;", lambda x: x & ~0x700 | 0x500),
        ("prmt.b32 %r6, %r5, 255, 0x4012;", lambda x: 255 << 24 | (x & 255) << 16 | (x & 0xFF00) | x >> 16 & 255),
        (
            "prmt.b32 %r6, %r5, 0, 0x9876;",
            lambda x: sum((255 * (x >> 8 * k + 7 & 1)) << s for k, s in ((0, 16), (1, 24))),
        ),
        ("lop3.b32 %r6, %r5, 0xFF00, 0xF0F0, 0xE8;", lambda x: x & 0xFF00 | x & 0xF0F0 | 0xF000),
        ("cvt.s64.s32 %rd6, %r5;\n shr.u64 %rd6, %rd6, 16;\n cvt.u32.u64 %r6, %rd6;", lambda x: signed(x) >> 16),
        ("cvt.u16.u32 %rs1, %r5;\n cvt.s32.s16 %r6, %rs1;", lambda x: (x & 0xFFFF) - 2 * (x & 0x8000)),
        ("add.cc.u32 %r7, %r5, %r5;\n addc.u32 %r6, 0, 0;", lambda x: x >> 31),
        ("sub.cc.u32 %r7, 9, %r5;\n subc.u32 %r6, 0, 0;", lambda x: -1 if x > 9 else 0),
        ("mad.lo.cc.u32 %r7, %r5, %r5, -1;\n madc.hi.u32 %r6, %r5, %r5, 0;", lambda x: x * x + 2**32 - 1 >> 32),
        ("mov.b32 {%rs1, %rs2}, %r5;\n mov.b32 %r6, {%rs2, %rs1};", lambda x: x >> 16 | x << 16),
        ("setp.lt.s32 %p1, %r5, 5;\n selp.b32 %r6, 1, 2, %p1;", lambda x: 1 if signed(x) < 5 else 2),
        ("setp.hi.and.u32 %p1, %r5, 5, !%p2;\n selp.b32 %r6, 1, 2, %p1;", lambda x: 2),
    ],
    ids=lambda v: v.split(" ")[0] if isinstance(v, str) else "",
)
def test_integers(text: str, right: Any) -> None:
    # uninitialized predicates are true
    found = launch(text, BITS)
    assert found.tolist() == [right(int(x)) & 0xFFFFFFFF for x in BITS]


def test_floats() -> None:
    values = np.concatenate([RNG.standard_normal(29).astype("f4") * 1e10, np.array([0, -0.0, np.nan], "f4")])
    with np.errstate(all="ignore"):
        for text, wanted in (
            ("fma.rn.f32 %r6, %r5, %r5, 0f3F800000;", (values.astype("f8") ** 2 + 1).astype("f4")),
            ("max.f32 %r6, %r5, 0f80000000;", np.where(np.isnan(values), -0.0, np.fmax(values, 0)).astype("f4")),
            ("neg.f32 %r6, %r5;", -values),
        ):
            found = launch(text, values).view("f4")
            assert np.array_equal(found, wanted, equal_nan=True), text
        found = launch("cvt.rzi.s32.f32 %r6, %r5;", values).view("i4")
        assert (
            found.tolist()
            == np.where(np.isnan(values), 0, np.clip(values.astype("f8"), -(2**31), 2**31 - 1)).astype("i4").tolist()
        )


def test_pairs_of_halves() -> None:
    x = RNG.standard_normal(32).astype("f4")
    text = "cvt.rn.f16x2.f32 %r7, %r5, 0f40400000;\n fma.rn.f16x2 %r6, %r7, %r7, %r7;"
    low, high = launch(text, x).view("f2").reshape(-1, 2).T
    half = x.astype("f2").astype("f8")
    assert (low == 12).all()
    assert np.array_equal(high, (half * half + half).astype("f2"))


def test_approximations_are_off_but_less_than_a_unit() -> None:
    exact = 1 / RNG.uniform(1, 2, 5000)
    found = numbers.approximate(exact, np.float32)
    off = np.abs(found - exact) / np.spacing(found)
    assert 0.5 < off.max() < 1
    assert (numbers.approximate(np.array([0.5, 2.0]), np.float32) == [0.5, 2.0]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_directed_rounding(dtype: Any) -> None:
    a, b = (RNG.standard_normal(1000).astype(dtype) for _ in range(2))
    exact = [Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True)]
    down, up, zero = (numbers.directed("mul", how, a, b) for how in ("rm", "rp", "rz"))
    for low, high, near, true in zip(down, up, zero, exact, strict=True):
        assert Fraction(float(low)) <= true <= Fraction(float(high))
        assert abs(Fraction(float(near))) <= abs(true)
        assert np.nextafter(low, dtype(np.inf)) >= high


def test_threads_part_and_meet() -> None:
    # thread k executes k iterations; the sum over a warp is right only if all lanes have reconverged
    text = """
    mov.u32 %r6, 0; mov.u32 %r7, %r5;
    $loop: setp.eq.s32 %p1, %r7, 0; @%p1 bra $over;
    add.s32 %r6, %r6, %r7; sub.s32 %r7, %r7, 1; bra $loop;
    $over: shfl.sync.bfly.b32 %r8, %r6, 1, 31, -1;
    add.s32 %r6, %r6, %r8;"""
    k = np.arange(64, dtype=np.uint32) % 9
    rounds = k * (k + 1) // 2
    assert launch(text, k).tolist() == (rounds + rounds.reshape(-1, 2)[:, ::-1].ravel()).tolist()


@pytest.mark.parametrize(
    ("mode", "by", "clamp", "right"),
    [
        ("up", 3, 0, lambda k: k - 3 if k >= 3 else k),
        ("down", 5, 31, lambda k: k + 5 if k + 5 < 32 else k),
        ("bfly", 6, 31, lambda k: k ^ 6),
        ("idx", 9, 31, lambda k: 9),
        ("down", 1, 0x181F, lambda k: k + 1 if k % 8 < 7 else k),
        ("idx", 2, 0x181F, lambda k: k // 8 * 8 + 2),
    ],
)
def test_exchanges(mode: str, by: int, clamp: int, right: Any) -> None:
    found = launch(f"shfl.sync.{mode}.b32 %r6, %r5, {by}, {clamp}, -1;", np.arange(32, dtype=np.uint32))
    assert found.tolist() == [right(k) for k in range(32)]


def test_votes_and_matches() -> None:
    k = np.arange(64, dtype=np.uint32) % 5
    ballot = launch("setp.eq.s32 %p1, %r5, 2;\n vote.sync.ballot.b32 %r6, %p1, -1;", k)
    alike = launch("match.any.sync.b32 %r6, %r5, -1;", k)
    least = launch("redux.sync.min.u32 %r6, %r4, -1;", k)
    for lane in range(64):
        warp = k[lane // 32 * 32 :][:32]
        assert ballot[lane] == sum(1 << j for j in range(32) if warp[j] == 2)
        assert alike[lane] == sum(1 << j for j in range(32) if warp[j] == k[lane])
        assert least[lane] == lane // 32 * 32


TURNED_ROUND = """
    .shared .align 4 .b8 tile[384];
    mov.b32 %r7, tile; shl.b32 %r8, %r3, 2; add.s32 %r9, %r7, %r8;
    setp.lt.u32 %p1, %r3, 40; @%p1 bra $early;
    mov.u32 %r10, 0;
    $wait: add.s32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 30; @%p2 bra $wait;
    $early: st.shared.b32 [%r9], %r5;
    bar.sync 0;
    sub.s32 %r11, 95, %r3; shl.b32 %r11, %r11, 2; add.s32 %r11, %r7, %r11;
    ld.shared.b32 %r6, [%r11];"""


def test_barriers_and_shared_memory() -> None:
    given = RNG.integers(0, 1000, 192, np.uint32)
    assert launch(TURNED_ROUND, given, grid=2).tolist() == given.reshape(2, 96)[:, ::-1].ravel().tolist()
    # without the barrier, some threads see old values
    found = [launch(TURNED_ROUND.replace("bar.sync 0;", ""), given, grid=2, seed=k) for k in range(20)]
    assert any((f != given.reshape(2, 96)[:, ::-1].ravel()).any() for f in found)


def test_atomics() -> None:
    given = RNG.integers(0, 50, 300, np.uint32)
    found = launch("atom.global.add.u32 %r6, [%rd2+1200], %r5;", given, grid=3, out=1204)
    total = (int(found[300]) - 0xCDCDCDCD) & 0xFFFFFFFF
    assert total == given.sum()
    # each thread saw the sum of the preceding additions
    order = np.argsort(found[:300].astype("i8") - 0xCDCDCDCD, kind="stable")
    before = (found[:300].astype("u8")[order] - 0xCDCDCDCD) & 0xFFFFFFFF
    assert sorted(before.tolist()) == before.tolist()
    assert before.max() <= total


def test_functions_call_each_other() -> None:
    before = """
    .visible .func (.param .b32 out) down(.param .b32 from) {
        .reg .pred %p<2>; .reg .b32 %r<9>;
        .local .align 4 .b8 own[4];
        .reg .b64 %rd<3>;
        ld.param.b32 %r1, [from];
        mov.b64 %rd1, own; st.local.b32 [%rd1], %r1;
        mov.u32 %r3, 0;
        setp.eq.s32 %p1, %r1, 0; @%p1 bra $end;
        sub.s32 %r2, %r1, 1;
        { .param .b32 param0; st.param.b32 [param0], %r2; .param .b32 retval0;
        call.uni (retval0), down, (param0);
        ld.param.b32 %r3, [retval0]; }
        $end: ld.local.b32 %r4, [%rd1]; add.s32 %r5, %r3, %r4;
        st.param.b32 [out], %r5; ret;
    }"""
    text = """
    { .param .b32 param0; st.param.b32 [param0], %r5; .param .b32 retval0;
    call.uni (retval0), down, (param0);
    ld.param.b32 %r6, [retval0]; }"""
    k = np.arange(33, dtype=np.uint32) % 7
    assert launch(text, k, before=before).tolist() == (k * (k + 1) // 2).tolist()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("ld.global.b32 %r6, [%rd4+100000];", 700),
        ("st.global.b32 [%rd5+2], %r5;", 716),
        ("ld.shared.b32 %r6, [64];", 700),
        ("setp.lt.u32 %p1, %r3, 9; @%p1 bra $x; bar.warp.sync -1; $x: mov.u32 %r6, 0;", 719),
        ("shfl.sync.idx.b32 %r6, %r5, 0, 31, 1;", 719),
        ("$x: bra $x;", 719),
        ("trap;", 719),
    ],
    ids=["outside", "misaligned", "shared", "lanes that do not come", "not in its mask", "for ever", "trap"],
)
def test_faults(text: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.stand_in.ptx.machine.PATIENCE", 2000)
    with pytest.raises(Fault) as caught:
        launch(text, np.arange(32, dtype=np.uint32))
    assert caught.value.code == code


@pytest.mark.parametrize(
    "text",
    ["frob.b32 %r6, %r5;", "add.sat.s32 %r6, %r5, 1;", "cvt.rna.tf32.f32 %r6, %r5;", "mov.b32 %r6, nobody;"],
)
def test_what_is_not_known_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="nknown|not understood"):
        launch(text, np.arange(32, dtype=np.uint32))


# -- weft on the simulated GPU ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    stand_in = PtxStandIn(1 << 28)
    with override(cache_dir=str(tmp_path_factory.mktemp("cache"))):
        yield make_ptx_device(stand_in), stand_in.memory.wrong


A = RNG.random((33, 130)).astype(np.float32) + 0.5


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ("gather", "matmul")])
def test_templates(gpu: Any, name: str) -> None:
    device, wrong = gpu
    wanted = PROGRAMS[name](np, A)
    found = np.asarray(PROGRAMS[name](wf, wf.asarray(A, device=device)))
    assert not wrong
    np.testing.assert_allclose(found, wanted, rtol=2e-3 if found.dtype == np.float16 else 2e-5, atol=1e-5)


def test_long_rows_whose_blocks_wait_for_each_other(gpu: Any) -> None:
    device, wrong = gpu
    x = RNG.integers(0, 9, 30_001).astype("i4")
    assert np.array_equal(np.asarray(wf.cumsum(wf.asarray(x, device=device))), np.cumsum(x))
    assert not wrong


def test_an_explicit_kernel(gpu: Any) -> None:
    device, wrong = gpu
    x = RNG.integers(0, 9, 1000).astype("f8")
    out = wf.zeros(1, "f8", device=device)
    wf.kernel(reduction_with_strides_and_atomics)[4, 64](wf.asarray(x, device=device), out)
    assert float(out[0]) == x.sum()
    assert not wrong


def test_a_kernel_that_writes_outside_loses_the_device() -> None:
    stand_in = PtxStandIn(1 << 28)
    device = make_ptx_device(stand_in)

    @wf.kernel
    def wild(x: Any) -> None:
        x[cuda.grid(1) + 1_000_000] = 1

    x = wf.zeros(8, "f4", device=device)
    with pytest.raises(wf.DeviceLostError, match="wild"):
        wild[1, 8](x)
        device.synchronize()
    assert "where no memory is" in stand_in.memory.wrong[0]
