"""Small kernels that test operations on arrays: attributes, indices, slices, copies and records."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from tests.dsl.kernel.probes.definition import FLOATS, INTS, IOUT, OUT, probe
from weft import cuda, float32, float64, int32

MATRIX = np.arange(12.0).reshape(3, 4)
CUBE = np.arange(24.0).reshape(2, 3, 4)


@probe(MATRIX, IOUT)
def attributes(m, out):
    out[0] = m.shape[0]
    out[1] = m.shape[1]
    out[2] = m.ndim
    out[3] = m.size
    out[4] = m.strides[0] + m.strides[-1]
    out[5] = m.itemsize
    out[6] = m.nbytes
    out[7] = len(m)


@probe(CUBE, IOUT)
def shape_unpacked(c, out):
    planes, rows, columns = c.shape
    out[0] = planes
    out[1] = rows * columns
    out[2] = len(c.shape)


@probe(MATRIX, np.zeros((3, 4)))
def two_indices(m, out):
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            out[i, j] = m[i, j] + m[i][j]
            out[i][j] += 1


@probe(CUBE, OUT)
def index_by_tuple(c, out):
    where = (1, 2, 3)
    out[0] = c[where]
    out[1] = c[(0, 1, 2)]
    c[where] = 5
    out[2] = c[1, 2, 3]


@probe(FLOATS, MATRIX, OUT)
def negative_index(x, m, out):
    out[0] = x[-1]
    out[-1] = x[-2]
    out[1] = m[-1, -4]
    out[2] = m[-3][-1]


@probe(FLOATS, OUT)
def negative_index_at_run_time(x, out):
    for i in range(x.size):
        out[i] = x[i - 3]
        out[-i] += 1


@probe(INTS, IOUT)
def index_of_other_width(x, out):
    i = np.uint8(3)
    j = np.int64(2)
    out[i] = x[j]
    out[np.int16(-1)] = x[i]


@probe(FLOATS, INTS, OUT)
def index_from_array(x, where, out):
    for i in range(where.size):
        out[i] = x[where[i] % 8]
        out[where[i] % 8] += 0.5


@probe(FLOATS, OUT)
def slices(x, out):
    a = x[2:6]
    out[0] = a[0]
    out[1] = a[-1]
    out[2] = a.size
    b = x[::2]
    out[3] = b[1]
    c = x[::-1]
    out[4] = c[0]
    d = x[-3:]
    out[5] = d[0]
    e = x[:-6]
    out[6] = e.shape[0]
    f = x[6:2:-2]
    out[7] = f[1] + f.size


@probe(FLOATS, OUT, 2, 50)
def slices_with_run_time_ends(x, out, start, stop):
    a = x[start:stop]
    for i in range(a.size):
        out[i] = a[i]
    b = x[stop:start]
    out[7] = b.size


@probe(FLOATS)
def slice_of_slice_writes_through(x):
    a = x[1:7]
    b = a[::2]
    b[1] = 99
    a[-1] += 1


@probe(MATRIX, OUT)
def slices_of_matrices(m, out):
    row = m[1]
    out[0] = row[2]
    column = m[:, 3]
    out[1] = column[2]
    block = m[1:, 1:3]
    out[2] = block[1, 1]
    out[3] = block.shape[0] * 10 + block.shape[1]
    out[4] = m[..., 0][1]
    out[5] = m[::-1, ::2][0, 1]
    out[6] = m[0, 1:][1]


@probe(CUBE, OUT)
def ellipsis_and_new_axis(c, out):
    out[0] = c[..., 1][1, 2]
    out[1] = c[1, ...][0, 3]
    flat = c[0, 0]
    out[2] = flat[np.newaxis, :][0, 2]
    out[3] = flat[:, None].shape[1] + flat[None].ndim


@probe(FLOATS)
def fill_slices(x):
    x[:] = 0
    x[2:4] = 7.5
    x[-1:] = 1
    x[::3] = 2


@probe(FLOATS)
def copy_slices(x):
    x[1:3] = x[5:7]
    x[4:6] = x[0:2]


@probe(FLOATS, OUT)
def copy_arrays(x, out):
    out[:] = x
    out[2:5] = x[:3]


@probe(MATRIX, np.zeros((3, 4)))
def copy_rows_and_columns(m, out):
    out[0] = m[2]
    out[:, 1] = m[:, 0]
    out[2, 1:3] = m[0, :2]
    out[1] = 5


@probe(MATRIX, FLOATS)
def augmented_elements(m, x):
    m[1, 2] += 10
    m[0, 0] -= 1
    m[2, 1] *= m[2, 2]
    x[3] /= 2
    x[1] **= 2


@probe(MATRIX, np.zeros((4, 3)))
def transposed(m, out):
    t = m.T
    for i in range(t.shape[0]):
        for j in range(t.shape[1]):
            out[i, j] = t[i, j]


@probe(FLOATS, OUT)
def reshaped(x, out):
    m = x.reshape(2, 4)
    out[0] = m[1, 2]
    n = x.reshape((4, 2))
    out[1] = n[3, 1]
    out[2] = m.ravel()[5] + m.ndim


@probe(MATRIX, OUT)
def loop_over_rows(m, out):
    i = 0
    for row in m:
        for value in row:
            out[i] += value
        i += 1


@probe(MATRIX, OUT)
def rows_into_functions(m, out):
    def total(row):
        result = 0.0
        for value in row:
            result += value
        return result

    def clear(row, upto):
        row[:upto] = 0

    for i in range(m.shape[0]):
        out[i] = total(m[i]) + total(m[:, i])
    clear(m[1], 2)


@probe(np.asfortranarray(MATRIX), OUT)
def column_major(m, out):
    out[0] = m[2, 1]
    out[1] = m.strides[0]
    m[1, 3] = -1


@probe(np.arange(16.0)[::2], np.arange(24.0).reshape(4, 6)[::-2, 1:4], OUT)
def strided_arguments(x, m, out):
    for i in range(x.size):
        out[i] = x[i]
    out[0] += m[1, 2] + m[0, 0]


@probe(np.broadcast_to(np.arange(4.0), (3, 4)), OUT)
def broadcast_argument(m, out):
    out[0] = m[0, 3] + m[2, 3]
    out[1] = m[1, 1]


@probe(np.array(7.5), OUT)
def array_without_axes(x, out):
    out[0] = x[()]
    x[()] = 2
    out[1] = x.ndim


@probe(np.zeros(0), IOUT)
def empty_array(x, out):
    for i in range(x.size):
        out[i] = 1
    out[0] = x.size + 7


@probe(np.zeros((2, 1, 3, 1, 2)), IOUT)
def five_axes(c, out):
    c[1, 0, 2, 0, 1] = 5
    out[0] = c.ndim
    out[1] = c.shape[2]


@probe(np.array([1 + 2j, 3 - 1j]), OUT)
def complex_elements(z, out):
    z[0] = z[1] * 2
    z[1] += 1
    out[0] = z[0].real
    out[1] = z[1].imag


@probe(np.array([True, False, True]), IOUT)
def boolean_elements(mask, out):
    for i in range(mask.size):
        if mask[i]:
            out[i] = i + 1
    mask[1] = out[2] > 2
    mask[0] = 0


@probe((INTS, FLOATS), OUT)
def tuple_of_arrays(arrays, out):
    for i in range(out.size):
        out[i] = arrays[0][i] + arrays[1][i]


@probe(FLOATS, INTS, OUT)
def reductions_of_numpy(x, n, out):
    out[0] = np.sum(n)
    out[1] = np.max(x)
    out[2] = np.min(x[2:5])
    out[3] = np.any(n > 0) if False else n[0]


# -- records --------------------------------------------------------------------------------------

BODY = np.dtype([("mass", np.float64), ("charge", np.int32), ("position", np.float32, (3,))], align=True)
PACKED = np.dtype([("kind", np.int8), ("value", np.float64)])


def bodies():
    """Return an array of three records of the dtype `BODY`."""
    made = np.zeros(3, BODY)
    made["mass"] = [1.5, 2.5, 3.5]
    made["charge"] = [1, -1, 2]
    made["position"] = np.arange(9).reshape(3, 3)
    return made


def _records(b, out):
    out[0] = b["mass"][0] + b["charge"][0]
    out[1] = b["mass"][1]
    out[2] = b["position"][2, 1]
    out[3] = b["charge"][2]


@probe(bodies(), OUT, want=_records)
def record_fields(b, out):
    out[0] = b[0].mass + b[0].charge
    out[1] = b[1]["mass"]
    out[2] = b[2].position[1]
    out[3] = b["charge"][2]


def _write_records(b):
    b["mass"][0] = 9
    b["charge"][1] = 3
    b["mass"][2] += b["charge"][2]
    b["position"][1, 2] = 0.5


@probe(bodies(), want=_write_records)
def record_fields_written(b):
    b[0].mass = 9
    b[1]["charge"] = 3
    body = b[2]
    body.mass += body.charge
    b[1].position[2] = 0.5


@probe(bodies(), want=lambda b: b.__setitem__(0, b[2]))
def record_copied(b):
    b[0] = b[2]


def _packed(p, out):
    out[:2] = p["value"] * p["kind"]
    p["value"][1] = -1


@probe(np.array([(2, 1.5), (-3, 4.0)], PACKED), OUT, want=_packed)
def packed_records(p, out):
    for i in range(p.size):
        out[i] = p[i].value * p[i].kind
    p[1].value = -1


# -- local and constant memory --------------------------------------------------------------------

COUNT = 4
WEIGHTS = np.array([[1.0, 2.0], [3.0, 4.0]])


def _local(x, out):
    out[:] = x[::-1]


@probe(FLOATS, OUT, want=_local)
def local_array(x, out):
    own = cuda.local.array(8, float64)
    for i in range(8):
        own[i] = x[7 - i]
    for i in range(8):
        out[i] = own[i]


def _local_matrix(x, out):
    out[:4] = [0, 3, 6, 9]
    out[4:7] = [4, 2, 4]


@probe(FLOATS, OUT, want=_local_matrix)
def local_matrix(x, out):
    own = cuda.local.array((COUNT, 2), dtype=np.int32)
    for i in range(own.shape[0]):
        own[i, 0] = i
        own[i, 1] = 2 * i
    for i in range(COUNT):
        row = own[i]
        out[i] = row[0] + row[1]
    out[4] = own.shape[0]
    out[5] = own.ndim
    out[6] = own.itemsize


def _local_types(x, out):
    out[0] = np.float32(0.1)
    out[1] = 2.5
    out[2] = 7


@probe(FLOATS, OUT, want=_local_types)
def local_arrays_of_types(x, out):
    a = cuda.local.array(shape=2, dtype=float32)
    b = cuda.local.array(2, np.complex128)
    c = cuda.local.array(3, int32)
    a[1] = 0.1
    b[0] = 2.5 + 1j
    c[:] = 7
    out[0] = a[1]
    out[1] = b[0].real
    out[2] = c[2]


@probe(FLOATS, OUT, want=lambda x, out: out.__setitem__(slice(0, 2), [x[1], x[2]]))
def item_of_one_element(x, out):
    out[0] = x[1:2].item()
    out[1] = x.item(2)


@probe(OUT, want=lambda out: out.__setitem__(slice(0, 3), [6, 4, 2]))
def constant_array(out):
    weights = cuda.const.array_like(WEIGHTS)
    out[0] = weights[0, 1] + weights[-1, -1]
    out[1] = weights.size
    k = out.size // 8
    out[2] = weights[k - 1, k]


@probe(OUT, want=lambda out: out.__setitem__(slice(0, 2), [3, 2]))
def local_array_into_function(out):
    def fill(a, value):
        for i in range(a.size):
            a[i] = value + i

    own = cuda.local.array(3, float64)
    fill(own, 1)
    out[0] = own[2]
    fill(own[1:], 2)
    out[1] = own[1]


@probe(np.arange(12.0), np.arange(24.0).reshape(4, 6))
def parts_that_overlap(x, m):
    x[1:5] = x[0:4]
    x[6:10] = x[7:11]
    x[1:] += x[:-1]
    x[9:3:-1] = x[10:4:-1]
    part = x[2:8]
    part[2:] = part[:-2]
    x[::2] = x[1::2]
    m[1:, 1:] = m[:-1, :-1]
    m[:, :-1] = m[:, 1:]
    m[2] = m[0]
    m[1:, :-1] = m[:-1, 1:]
    m[0, 1:] *= m[0, :-1]


INNER = slice(1, -1)
CORNER = (slice(None, 2), slice(None, None, -1))
STEPS = range(2, 5)


@probe(MATRIX, OUT, IOUT)
def slices_as_values(m, out, filled):
    n = len(m) - 1
    head = slice(n)
    out[0] = m[INNER, 0][0] + m[CORNER][1, 0]
    out[1] = m[0, head].sum() + m[head, slice(1, 4, 2)].sum()
    out[2] = INNER.start - INNER.stop + head.stop
    out[3] = (CORNER[0].start is None) + 2 * (head.step is None)
    out[4] = (5, 6, 7, 8)[INNER][1]
    for k in STEPS:
        out[5] += k
    filled[INNER] = 7
    filled[3:][slice(n, None)] += 1


@probe(CUBE, np.zeros((2, 3, 4)), OUT)
def indices_of_arrays(c, out, totals):
    for (i, j, k), value in np.ndenumerate(c):
        if value == 5:
            continue
        if i and k == 3:
            break
        out[i, j, k] += value + 100 * i + 10 * j + k
    for place, value in np.ndenumerate(c[:, 1, ::2].T):
        totals[0] += value * (place[0] - place[1])
    n = int(c[0, 0, 3])
    for i, j in np.ndindex(n, n + 1):
        totals[1] += i * j
    for k, (i, j) in enumerate(np.ndindex(c.shape[1:])):
        totals[2] += k * i - j
    for (i,) in np.ndindex(3):
        totals[3] += i
    for _index in np.ndindex(()):
        totals[4] += 1
    for _index in np.ndindex(n, 0):
        totals[5] += 1
