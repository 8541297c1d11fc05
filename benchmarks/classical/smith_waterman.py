"""Smith-Waterman local alignment of two sequences, computed by antidiagonals."""

import numpy as np

MATCH, MISMATCH, GAP = 2, -1, -1


def scores(a, b):
    n, m = len(a), len(b)
    table = np.zeros((n + 1, m + 1), dtype=np.int64)
    for diagonal in range(2, n + m + 1):
        i = np.arange(max(1, diagonal - m), min(n, diagonal - 1) + 1)
        j = diagonal - i
        similar = np.where(a[i - 1] == b[j - 1], MATCH, MISMATCH)
        best = np.maximum(table[i - 1, j - 1] + similar, table[i - 1, j] + GAP)
        table[i, j] = np.maximum(np.maximum(best, table[i, j - 1] + GAP), 0)
    return table


def trace(table, a, b):
    i, j = np.unravel_index(np.argmax(table), table.shape)
    path = []
    while table[i, j] > 0:
        path.append((int(i), int(j)))
        similar = MATCH if a[i - 1] == b[j - 1] else MISMATCH
        if table[i, j] == table[i - 1, j - 1] + similar:
            i, j = i - 1, j - 1
        elif table[i, j] == table[i - 1, j] + GAP:
            i = i - 1
        else:
            j = j - 1
    return np.array(path)


def main(size):
    rng = np.random.default_rng(8)
    a = rng.integers(0, 4, size)
    b = np.concatenate([rng.integers(0, 4, size // 4), a[size // 4 : size // 2], rng.integers(0, 4, size // 3)])
    changed = rng.random(len(b)) < 0.05
    b[changed] = rng.integers(0, 4, int(changed.sum()))
    table = scores(a, b)
    return table, trace(table, a, b), table.max()
