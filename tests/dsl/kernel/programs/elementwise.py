"""Programs without barriers, such as maps, stencils and searches."""

# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np

from tests.dsl.kernel.programs.definition import SOURCE, blocks, program, whole, zeros
from weft import cuda


def sized(make, *sizes, threads=32):
    """Return a test case of a 1-D program for each size."""
    return [((blocks(n, threads), threads), make(n)) for n in sizes]


def gives(function):
    """Return an oracle that writes ``function(*arguments[:-1])`` to the last argument."""

    def oracle(*arguments):
        arguments[-1][...] = function(*arguments[:-1])

    return oracle


@program(gives(lambda x, y: x + y), *sized(lambda n: (whole(n), whole(n), zeros(n)), 1, 31, 100, 1000))
def vector_add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def _saxpy(a, x, y):
    y += a * x


@program(
    _saxpy,
    ((3, 20), (2.0, whole(200), whole(200))),
    ((7, 64), (0.5, whole(100), whole(100))),
    ((1, 1), (-1, whole(9), whole(9))),
)
def saxpy_with_strides(a, x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] += a * x[i]


@program(
    gives(lambda m: 2 * m),
    (((2, 3), (8, 4)), (whole(10, 13), zeros(10, 13))),
    (((1, 1), (16, 16)), (whole(16, 16), zeros(16, 16))),
    (((4, 4), (4, 4)), (np.asfortranarray(whole(15, 14)), zeros(15, 14))),
)
def map_of_matrix(m, out):
    x, y = cuda.grid(2)
    if y < m.shape[0] and x < m.shape[1]:
        out[y, x] = 2 * m[y, x]


def _heat(m, out):
    out[1:-1, 1:-1] = m[1:-1, 1:-1] + 0.25 * (
        m[:-2, 1:-1] + m[2:, 1:-1] + m[1:-1, :-2] + m[1:-1, 2:] - 4 * m[1:-1, 1:-1]
    )


@program(
    _heat,
    (((2, 2), (8, 8)), (whole(15, 16), zeros(15, 16))),
    (((1, 7), (32, 2)), (whole(14, 30, dtype=np.float32), zeros(14, 30, dtype=np.float32))),
)
def five_point_stencil(m, out):
    x, y = cuda.grid(2)
    if 0 < y < m.shape[0] - 1 and 0 < x < m.shape[1] - 1:
        around = m[y - 1, x] + m[y + 1, x] + m[y, x - 1] + m[y, x + 1]
        out[y, x] = m[y, x] + 0.25 * (around - 4 * m[y, x])


def _life(board, out):
    around = sum(np.roll(board, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - board
    out[...] = (around == 3) | ((around == 2) & (board == 1))


@program(_life, (((2, 2), (8, 8)), ((whole(12, 15) > 0).astype(np.uint8), zeros(12, 15, dtype=np.uint8))))
def game_of_life(board, out):
    x, y = cuda.grid(2)
    rows, columns = board.shape
    if y >= rows or x >= columns:
        return
    around = 0
    for i in range(-1, 2):
        for j in range(-1, 2):
            if i != 0 or j != 0:
                around += board[(y + i) % rows, (x + j) % columns]
    out[y, x] = 1 if around == 3 or (around == 2 and board[y, x] == 1) else 0


def _mandelbrot(out, limit):
    rows, columns = out.shape
    for y in range(rows):
        for x in range(columns):
            c, z, n = complex(x * 3 / columns - 2, y * 2 / rows - 1), 0j, 0
            while n < limit and z.real * z.real + z.imag * z.imag <= 4:
                z = complex(z.real * z.real - z.imag * z.imag + c.real, 2 * z.real * z.imag + c.imag)
                n += 1
            out[y, x] = n


@program(_mandelbrot, (((3, 3), (8, 8)), (zeros(20, 24, dtype=np.int32), 50)))
def mandelbrot(out, limit):
    x, y = cuda.grid(2)
    if y < out.shape[0] and x < out.shape[1]:
        a = x * 3 / out.shape[1] - 2
        b = y * 2 / out.shape[0] - 1
        u = v = 0.0
        n = 0
        while n < limit and u * u + v * v <= 4:
            u, v = u * u - v * v + a, 2 * u * v + b
            n += 1
        out[y, x] = n


@program(
    lambda x, counts: counts.__iadd__(np.bincount(x, minlength=counts.size)),
    ((4, 32), (SOURCE.integers(0, 10, 300), zeros(10, dtype=np.int64))),
    ((1, 7), (SOURCE.integers(0, 3, 20), zeros(3, dtype=np.int32))),
)
def histogram(x, counts):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, x[i], 1)


@program(
    lambda m, v, out: np.matmul(m, v, out=out),
    ((2, 8), (whole(13, 17), whole(17), zeros(13))),
    ((1, 32), (whole(5, 40), whole(40), zeros(5))),
)
def matrix_times_vector(m, v, out):
    row = cuda.grid(1)
    if row < m.shape[0]:
        total = 0.0
        for k in range(v.size):
            total += m[row, k] * v[k]
        out[row] = total


def _sparse(rows):
    matrix = np.where(SOURCE.random((rows, 9)) < 0.4, whole(rows, 9), 0)
    first = np.concatenate([[0], np.cumsum((matrix != 0).sum(1))])
    return matrix, (first, np.nonzero(matrix)[1], matrix[matrix != 0], whole(9), zeros(rows))


def _csr(first, columns, values, v, out):
    for row in range(out.size):
        part = slice(first[row], first[row + 1])
        out[row] = values[part] @ v[columns[part]]


@program(_csr, ((2, 16), _sparse(30)[1]))
def sparse_times_vector(first, columns, values, v, out):
    row = cuda.grid(1)
    if row < out.size:
        total = 0.0
        for k in range(first[row], first[row + 1]):
            total += values[k] * v[columns[k]]
        out[row] = total


@program(
    gives(lambda table, x: np.searchsorted(table, x)),
    ((3, 16), (np.sort(whole(50)), whole(40), zeros(40, dtype=np.int64))),
)
def binary_search(table, x, out):
    i = cuda.grid(1)
    if i < x.size:
        low, high = 0, table.size
        while low < high:
            middle = (low + high) // 2
            if table[middle] < x[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low


@program(
    gives(lambda m: np.sort(m, axis=1)),
    ((2, 4), (whole(7, 8), zeros(7, 8))),
    ((1, 7), (whole(7, 8, high=3), zeros(7, 8))),
)
def insertion_sort_of_rows(m, out):
    own = cuda.local.array(8, np.float64)
    row = cuda.grid(1)
    if row < m.shape[0]:
        for k in range(8):
            value = m[row, k]
            j = k
            while j > 0 and own[j - 1] > value:
                own[j] = own[j - 1]
                j -= 1
            own[j] = value
        for k in range(8):
            out[row, k] = own[k]


def _compact(x, out, count):
    kept = x[x > 0]
    count[0] = kept.size
    out[: kept.size] = kept


@program(_compact, ((1, 1), (whole(40), zeros(40), zeros(1, dtype=np.int32))))
def compaction_by_one_thread(x, out, count):
    for value in x:
        if value > 0:
            out[count[0]] = value
            count[0] += 1


@program(
    gives(lambda m: m.T),
    (((2, 2), (8, 8)), (whole(11, 13), zeros(13, 11))),
    (((1, 1), (32, 8)), (whole(8, 32)[:, ::2], zeros(16, 8))),
)
def transpose_directly(m, out):
    x, y = cuda.grid(2)
    if y < m.shape[0] and x < m.shape[1]:
        out[x, y] = m[y, x]


@program(
    gives(lambda image: (image[..., 0] + 2 * image[..., 1] + image[..., 2]) // 4),
    (((2, 2), (8, 8)), (SOURCE.integers(0, 60, (9, 14, 3)).astype(np.uint8), zeros(9, 14, dtype=np.uint8))),
)
def gray_image(image, out):
    x, y = cuda.grid(2)
    if y < out.shape[0] and x < out.shape[1]:
        r, g, b = image[y, x, 0], image[y, x, 1], image[y, x, 2]
        out[y, x] = (r + 2 * g + b) // 4


@program(
    gives(lambda points, centres: ((points[:, None] - centres) ** 2).sum(-1).argmin(1)),
    ((2, 32), (whole(50, 2), whole(4, 2), zeros(50, dtype=np.int64))),
)
def nearest_centre(points, centres, out):
    i = cuda.grid(1)
    if i >= points.shape[0]:
        return
    best, least = 0, math.inf
    for k in range(centres.shape[0]):
        distance = 0.0
        for axis in range(points.shape[1]):
            distance += (points[i, axis] - centres[k, axis]) ** 2
        if distance < least:
            best, least = k, distance
    out[i] = best
