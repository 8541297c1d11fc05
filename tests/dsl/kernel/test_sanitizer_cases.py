"""Tests of the sanitizer: synchronization of warps and grids, fences, views, and records."""

# mypy: ignore-errors

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import weft
import weft as wf
from weft import cuda, float64, int32
from weft.dsl.arrays.array import wrap
from weft.dsl.arrays.foreign_memory import storage_over
from weft.runtime import CpuDevice

pytestmark = pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")
FULL = 0xFFFFFFFF


def found(function, launch, *arguments, **options):
    """Return the sanitizer's reports on a launch."""
    with wf.sanitize():
        try:
            weft.kernel(**options)(function)[launch](*arguments)
        except weft.SanitizerError as error:
            return error.reports
    return []


def kinds(function, launch, *arguments, **options):
    """Return the kind, the array and the index of each report on a launch."""
    return [(r.kind, r.array, r.index) for r in found(function, launch, *arguments, **options)]


# -- synchronization --------------------------------------------------------------------------------


def across_a_warp(out, mask):
    part = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    part[t] = t
    cuda.syncwarp(mask)
    out[t] = part[t ^ 1]


def across_two_warps(out):
    part = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    part[t] = t
    cuda.syncwarp()
    out[t] = part[t ^ 32]


def two_masks(out):
    # lanes 0 and 1 synchronize, then lanes 1 and 2: lane 0's writes are visible to lane 2
    part = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        part[0] = 5
    if t < 2:
        cuda.syncwarp(0b011)
    if 1 <= t < 3:
        cuda.syncwarp(0b110)
    if t == 2:
        out[0] = part[0]


def test_warps_order_their_lanes():
    assert not found(across_a_warp, (1, 64), np.zeros(64, np.int32), FULL)
    reports = found(across_two_warps, (1, 64), np.zeros(64, np.int32))
    assert {(r.kind, r.array) for r in reports} == {("race", "part")}
    assert all("cuda.syncthreads(), orders them" in str(r) for r in reports)
    assert not found(two_masks, (1, 32), np.zeros(1, np.int32))


def last_block_sums(x, part, count, out, fence):
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        total = 0.0
        for k in range(cuda.blockDim.x):
            total += x[cuda.blockIdx.x * cuda.blockDim.x + k]
        part[cuda.blockIdx.x] = total
        if fence:
            cuda.threadfence()
        last[0] = cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and t < cuda.gridDim.x:
        cuda.atomic.add(out, 0, part[t])


def test_fences_and_atomics_order_blocks():
    x = np.arange(32.0)

    def run(fence):
        out = np.zeros(1)
        reports = found(last_block_sums, (4, 8), x, np.zeros(4), np.zeros(1, np.int32), out, fence)
        return reports, out[0]

    reports, total = run(True)
    assert not reports
    assert total == x.sum()
    reports, _ = run(False)
    assert [(r.kind, r.array) for r in reports] == [("race", "part")]
    assert reports[0].block == (3, 0, 0)
    assert reports[0].other.block == (0, 0, 0)
    assert str(reports[0]).endswith("or several launches.")


def under_a_lock(lock, data, fence):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        data[0] += 1
        if fence:
            cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


def test_locks():
    data = np.zeros(1)
    assert not found(under_a_lock, (5, 4), np.zeros(1, np.int32), data, True)
    assert data[0] == 5
    assert ("race", "data", (0,)) in kinds(under_a_lock, (5, 4), np.zeros(1, np.int32), data, False)


def add_by_guessing(total, x):
    i = cuda.grid(1)
    old = total[0]
    while True:
        seen = cuda.atomic.cas(total, 0, old, old + x[i])
        if seen == old:
            break
        old = seen


def guess_of_another(total, x):
    cuda.atomic.cas(total, 0, 0, 1)
    x[cuda.grid(1)] = total[0]


def test_a_guess_before_a_compare_and_swap():
    total = np.zeros(1, np.int64)
    assert not found(add_by_guessing, (2, 8), total, np.arange(16))
    assert total[0] == 120
    assert {r[:2] for r in kinds(guess_of_another, (2, 8), total, np.arange(16))} == {("race", "total")}


def grid_turns(x, out, wait):
    i = cuda.grid(1)
    x[i] = i
    grid = cuda.cg.this_grid()
    if wait:
        grid.sync()
    out[i] = x[x.size - 1 - i]


def test_the_grid_meets():
    for wait in (True, False):
        reports = found(grid_turns, (4, 4), np.zeros(16), np.zeros(16), wait)
        assert {r.kind for r in reports} == (set() if wait else {"race"})


def shared_again(x, out):
    # reads shared memory that an earlier block has written, which is an error
    part = cuda.shared.array(4, float64)
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        part[t] = x[t]
    cuda.syncthreads()
    out[cuda.grid(1)] = part[t]


def test_shared_memory_is_fresh_in_every_block():
    reports = found(shared_again, (2, 4), np.zeros(4), np.zeros(8))
    assert [(r.kind, r.array, r.index, r.block) for r in reports] == [("uninitialized", "part", (0,), (1, 0, 0))]
    assert reports[0].count == 4


def half_a_warp(out):
    t = cuda.threadIdx.x
    if t < 16:
        cuda.syncwarp(FULL)
        out[t] = 1
    else:
        cuda.syncthreads()


def either_way(out):
    t = cuda.threadIdx.x
    out[t] = cuda.any_sync(FULL, t > 3) if t % 2 else cuda.all_sync(FULL, t > 3)


@pytest.mark.parametrize("function", [half_a_warp, either_way])
def test_warps_that_never_meet(function):
    (report,) = found(function, (1, 32), np.zeros(32))
    assert (report.kind, report.access) == ("divergent barrier", "warp operation")
    assert "not all lanes of the mask" in str(report)


def flag(x, found):
    if x[cuda.grid(1)] > 2:
        found[0] = 1


def flag_and_value(x, found):
    if x[cuda.grid(1)] > 2:
        found[0] = x[cuda.grid(1)]


def flag_read_too_early(x, found):
    if found[0] == 0 and x[cuda.grid(1)] > 2:
        found[0] = 1


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float16, np.float32])
def test_writing_the_same_value_is_no_race(dtype):
    x = np.arange(8.0)
    assert not found(flag, (2, 4), x, np.zeros(1, dtype))
    if dtype is not np.bool_:
        assert {r[0] for r in kinds(flag_and_value, (2, 4), x, np.zeros(1, dtype))} == {"race"}
    assert {r[0] for r in kinds(flag_read_too_early, (2, 4), x, np.zeros(1, dtype))} == {"race"}


def calls_itself(x, k):
    if k == 0:
        return 0.0
    return x[k] + calls_itself(x, k - 1)


def of_a_recursion(x, out):
    out[cuda.grid(1)] = calls_itself(x, cuda.grid(1))


# -- views, records, and other memory -----------------------------------------------------------------


class Pair(NamedTuple):
    a: object
    b: object


PARTICLE = np.dtype([("mass", np.float64), ("position", np.float32, (3,)), ("kind", np.int32)], align=True)
TABLE = np.arange(5)


def rows(m):
    row = m[1]
    row[cuda.threadIdx.x] = 1


def chained(m):
    m[1][cuda.threadIdx.x] = 1


def of_a_bundle(pair):
    pair.b[cuda.threadIdx.x] = pair.a[0]


def inside(values, k):
    return values[k]


def of_a_function(x, out):
    out[0] = inside(x, cuda.threadIdx.x + 3)


def of_a_field(p):
    p[cuda.threadIdx.x].position[cuda.threadIdx.x + 1] = 1


def of_a_record(p):
    one = p[cuda.threadIdx.x + 1]
    one.mass = 1.0


def turned(m):
    t = m.T
    t[0, cuda.threadIdx.x] = 1


def of_a_slice(x):
    x[2:5][cuda.threadIdx.x] = 1


def sum_of_all(x, out):
    out[cuda.threadIdx.x] = x.sum()


@pytest.mark.parametrize(
    ("function", "arguments", "wanted"),
    [
        (rows, (np.zeros((3, 3)),), ("row", (3,))),
        (chained, (np.zeros((3, 3)),), ("m", (1, 3))),
        (of_a_bundle, (Pair(np.zeros(1), np.zeros(3)),), ("pair_b", (3,))),
        (of_a_function, (np.zeros(4), np.zeros(1)), ("values", (4,))),
        (of_a_recursion, (np.zeros(3), np.zeros(4)), ("x", (3,))),
        (of_a_field, (np.zeros(4, PARTICLE),), ("p.position", (2, 3))),
        (of_a_record, (np.zeros(4, PARTICLE),), ("p", (4,))),
        (turned, (np.zeros((3, 2)),), ("t", (0, 3))),
        (of_a_slice, (np.zeros(9),), ("x[...]", (3,))),
    ],
)
def test_out_of_bounds_by_any_way(function, arguments, wanted):
    arguments = [weft.array(a) if isinstance(a, np.ndarray) and a.dtype.names is None else a for a in arguments]
    first = kinds(function, (1, 4), *arguments)[0]
    assert first == ("out of bounds", *wanted)


def test_nothing_is_written_outside():
    memory = np.zeros(6)

    def behind(x):
        x[cuda.threadIdx.x] = 7

    assert kinds(behind, (1, 6), memory[:4]) == [("out of bounds", "x", (4,))]
    assert memory.tolist() == [7, 7, 7, 7, 0, 0]


def test_indices_that_do_not_fit_into_32_bits():
    def far(x):
        x[(1 << 32) + cuda.threadIdx.x] = 1

    assert kinds(far, (1, 1), np.zeros(4)) == [("out of bounds", "x", (1 << 32,))]


def test_records_and_padding():
    def copy(p, q):
        i = cuda.grid(1)
        q[i] = p[i]

    particles = np.zeros(4, PARTICLE)
    particles["kind"] = 3
    copies = np.zeros(4, PARTICLE)
    assert not found(copy, (2, 2), particles, copies)
    assert (copies == particles).all()
    fresh = cuda.device_array(4, PARTICLE)
    assert {r[0] for r in kinds(copy, (2, 2), fresh, copies)} == {"uninitialized"}


def test_arrays_of_weft():
    def double(x, out):
        i = cuda.grid(1)
        out[i] = 2 * x[i]

    for fresh in (cuda.device_array(4), wf.empty(4)):
        out = wf.zeros(4)
        assert kinds(double, (1, 4), fresh, out) == [("uninitialized", "x", (0,))]
    for fine in (wf.zeros(4), wf.ones(4) + 1, cuda.to_device(np.ones(4)), cuda.device_array_like(np.ones(4))):
        if not isinstance(fine, np.ndarray) and kinds(double, (1, 4), fine, wf.zeros(4)):
            fine.copy_to_device(np.ones(4))
            assert not found(double, (1, 4), fine, wf.zeros(4))
    half = cuda.device_array(4)
    assert not found(double, (1, 2), wf.ones(4), half)
    assert kinds(double, (1, 4), half, wf.zeros(4)) == [("uninitialized", "x", (2,))]
    half[2:] = 1
    assert not found(double, (1, 4), half, wf.zeros(4))


def test_host_arrays_that_are_not_aligned():
    raw = np.zeros(33, np.uint8)
    odd = raw[1:].view(np.float64)

    def fill(x):
        x[cuda.grid(1)] = 3.0

    assert not found(fill, (1, 4), odd)
    assert (odd == 3).all()


def test_loops_over_arrays():
    assert not found(sum_of_all, (1, 4), np.ones((3, 4)), np.zeros(4))


def complex_race(z, out):
    t = cuda.threadIdx.x
    z[t] = z[t] * 1j
    out[t] = z[z.size - 1 - t].real


def test_complex_numbers():
    assert {r[0] for r in kinds(complex_race, (1, 4), np.ones(4, complex), np.zeros(4))} == {"race"}


def test_arrays_of_another_device():
    """Test that the sanitizer copies arrays of another device to the CPU and back."""
    other = CpuDevice()
    source, target = (
        wrap(*storage_over(other, other.upload(v), v.dtype, (4,), (8,))) for v in (np.arange(4.0), np.zeros(4))
    )

    def double(pair, out):
        i = cuda.grid(1)
        out[i] = 2 * pair.a[i] + pair.b

    assert not found(double, (1, 4), Pair(source, 1.0), target)
    assert target.copy_to_host().tolist() == [1, 3, 5, 7]
    assert kinds(double, (1, 5), Pair(source, 1.0), target) == [("out of bounds", "pair_a", (4,))]


# -- reports ------------------------------------------------------------------------------------------


def test_the_message():
    def both(x, out):
        t = cuda.threadIdx.x
        out[0] = -1 - x[t]
        out[0] = x[t + 1]

    with wf.sanitize(), pytest.raises(weft.SanitizerError) as caught:
        weft.kernel(both)[1, 4](np.arange(4.0), np.zeros(1))
    reports = caught.value.reports
    assert reports[0].kind == "race"
    assert reports[0].access == "write"
    assert reports[0].other.access == "write"
    message = str(caught.value)
    assert "kernel both: race: writing out[0] in block (0, 0, 0), thread (1, 0, 0)" in message
    assert "out[0] = -1 - x[t]\n" in message
    assert f"({len(reports) - 1} more: see .reports)" in message
    assert isinstance(caught.value, weft.WeftError)


def test_the_checked_form_gives_way():
    def behind(x):
        x[cuda.threadIdx.x] = 7

    assert kinds(behind, (1, 5), np.zeros(4), debug=True) == [("out of bounds", "x", (4,))]


def test_what_a_kernel_raises_itself_is_raised():
    def careful(x):
        assert x[0] > 0, "nothing to do"

    with wf.sanitize(), pytest.raises(AssertionError, match="nothing to do"):
        weft.kernel(careful)[1, 1](np.zeros(4))


def test_ordinary_launches_stay_as_they_are():
    @weft.kernel
    def fill(x):
        x[cuda.grid(1)] = 1

    x = np.zeros(4)
    fill[1, 4](x)
    with wf.sanitize():
        fill[1, 4](x)
    fill[1, 4](x)
    assert sorted(s.tracer is not None for s in fill._found.values()) == [False, True]


def counts_without_atomics(a, total):
    total[0] += a[cuda.grid(1)]


def test_a_race_within_a_line_is_not_ordered_by_a_barrier():
    reports = found(counts_without_atomics, (1, 16), np.ones(16), np.zeros(1))
    assert reports and all("use an atomic operation, such as cuda.atomic.add" in str(report) for report in reports)


def all_write_one_element(out):
    out[0] = cuda.threadIdx.x


def test_the_remedy_for_two_writes_is_one_writer():
    (report,) = found(all_write_one_element, (1, 32), np.zeros(1))
    assert "let only one of them write" in str(report)


def barrier_of_one_half(x, out):
    part = cuda.shared.array(64, np.float64)
    t = cuda.threadIdx.x
    part[t] = x[t]
    if t < 32:
        cuda.syncthreads()
    out[t] = part[63 - t]


def test_a_divergent_barrier_is_reported_before_the_races_that_it_causes():
    reports = found(barrier_of_one_half, (1, 64), np.zeros(64), np.zeros(64))
    assert [report.kind for report in reports] == ["divergent barrier", "race"]
    assert "Every thread of a block must reach the barrier" in str(reports[0])


def assertion_before_a_barrier(x):
    assert x[cuda.threadIdx.x] < 3, "too large"
    cuda.syncthreads()


def test_a_failed_assertion_is_raised_instead_of_the_divergent_barrier_that_it_causes():
    with pytest.raises(AssertionError, match="too large"), weft.sanitize():
        weft.kernel(assertion_before_a_barrier)[1, 4](np.arange(4.0))
