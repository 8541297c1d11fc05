"""Test kernels for optional values, swapped arrays, whole arrays, dates and text."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from tests.dsl.kernel.probes.definition import FLOATS, INTS, OUT, probe
from weft import cuda

DAYS = np.array(["2020-01-01", "2020-02-29", "NaT", "1969-12-31"], "M8[D]")
WORDS = np.array(["ab", "abc", "", "zoë"], "U4")


@probe(FLOATS, OUT)
def optional_number(x, out):
    y = None
    if x[0] > x[1]:
        y = x[0]
    out[0] = 1 if y is None else 2
    best = None
    for i in range(x.size):
        if best is None or x[i] > best:
            best = x[i]
    if best is not None:
        out[1] = best


@probe(FLOATS, OUT)
def swapped_local_arrays(x, out):
    a, b = np.zeros(2), np.ones(2)
    for i in range(3):
        a, b = b, a
        a[0] += x[i]
    out[0], out[1], out[2] = a[0], b[0], a[1]


@probe(INTS, OUT)
def deleted_names_and_bytes(n, out):
    x = n[0]
    out[0] = x
    del x
    text = b"abc"
    out[1] = text[n[0] % 3]
    out[2] = len(text)


@probe(FLOATS, OUT, ulps=4)
def array_statistics(x, out):
    a = np.zeros(6)
    for i in range(6):
        a[i] = x[i]
    out[0] = np.median(a)
    out[1] = np.var(a)
    out[2] = np.count_nonzero(a)
    out[3] = np.nansum(a)
    out[4] = np.sort(a)[1]
    out[5] = np.cumsum(a)[3]
    out[6] = np.argsort(a)[0]


@probe(OUT, 2)
def arrays_made_in_kernels(out, i):
    table = np.array([[1, 2], [4, i]])
    out[0] = table[1, 1] + np.arange(6)[i]
    out[1] = np.full(3, 0.5)[i] + np.linspace(0.0, 1.0, 5)[i]
    out[2] = np.zeros_like(table)[0, 1] + np.ones_like(table)[1, 1]


@probe(DAYS, np.zeros(4, "m8[h]"), np.zeros(4, bool), launch=(1, 4), want=lambda x, d, late: dates_by_numpy(x, d, late))
def dates(x, d, late):
    i = cuda.grid(1)
    d[i] = x[i] - np.datetime64("2020-01-01")
    late[i] = x[i] > np.datetime64("2000-01-01T12") and not np.isnat(x[i])


def dates_by_numpy(x, d, late):
    d[:] = x - np.datetime64("2020-01-01")
    late[:] = x > np.datetime64("2000-01-01T12")


@probe(WORDS, np.zeros(4, "U2"), OUT, launch=(1, 4), want=lambda words, short, out: text_by_numpy(words, short, out))
def text_elements(words, short, out):
    i = cuda.grid(1)
    short[i] = words[i]
    out[i] = len(words[i])
    if words[i] == "abc":
        out[4] = 1
    if words[i] < "ac":
        out[5 + i] = 1


def text_by_numpy(words, short, out):
    short[:] = words.astype("U2")
    out[:4] = np.strings.str_len(words)
    out[4] = 1
    out[5:] = (words < "ac")[:3]
