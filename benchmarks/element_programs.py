"""Plain NumPy programs that loop over elements, rows and slices of large arrays.

The parameter `n` of each program determines the number of iterations.
"""

import numpy as np

N = 100_000
SIDE = 300


def generator():
    return np.random.default_rng(7)


def recurrence(n):
    x = np.zeros(N)
    for i in range(1, n):
        x[i] = x[i - 1] * 0.5 + 1
    return x


def exponential_average(n):
    x = generator().random(N)
    smooth = np.zeros_like(x)
    smooth[0] = x[0]
    for i in range(1, n):
        smooth[i] = 0.1 * x[i] + 0.9 * smooth[i - 1]
    return smooth


def random_walk(n):
    rng = generator()
    x = np.zeros(N)
    for i in range(1, n):
        x[i] = x[i - 1] + rng.normal()
    return x


def reversal(n):
    x = np.arange(N) * 1.5
    for i in range(n):
        x[i], x[-i - 1] = x[-i - 1], x[i]
    return x


def bubbles(n):
    x = generator().random(N)
    for _ in range(n // 30):
        for j in range(30):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    return x


def counts(n):
    values, found = generator().integers(0, N, N), np.zeros(N, int)
    for i in range(n):
        found[values[i]] += 1
    return found


def gathered_sum(n):
    rng = generator()
    x, order = rng.random(N), rng.permutation(N)
    total = 0.0
    for i in range(n):
        total += x[order[i]]
    return np.array(total)


def conditions(n):
    x, count = generator().random(N), 0
    for i in range(n):
        if x[i] > 0.5:
            count += 1
    return np.array(count)


def iteration(n):
    x = generator().random(N)
    y, total = 2 * x, 0.0
    for a, b in zip(x[:n], y[:n], strict=True):
        total += a * b
    return np.array(total)


def convolution(n):
    x, out = generator().random(N), np.zeros(N)
    for i in range(1, n):
        out[i] = (x[i - 1] + 2 * x[i] + x[i + 1]) / 4
    return out


def stencil(n):
    u = np.zeros((SIDE, SIDE))
    u[0] = 1
    for k in range(n):
        i, j = 1 + k // 20 % (SIDE - 2), 1 + k % 20
        u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    return u


def edit_distance(n):
    a, b = generator().integers(0, 4, (2, SIDE))
    d = np.zeros((SIDE + 1, SIDE + 1), int)
    d[0] = np.arange(SIDE + 1)
    for k in range(n):
        i, j = 1 + k // 40 % SIDE, 1 + k % 40
        d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
    return d


def sieve(n):
    prime = np.ones(N, bool)
    prime[:2] = False
    for i in range(2, min(n, int(N**0.5) + 1)):
        if prime[i]:
            prime[i * i :: i] = False
    return np.nonzero(prime)[0]


def window_means(n):
    x = generator().random(N)
    return np.array([x[i : i + 20].mean() for i in range(n // 4)])


def searches(n):
    x = np.sort(generator().random(N))
    return np.array([np.searchsorted(x, i / n) for i in range(n // 4)])


def row_sums(n):
    a, out = generator().random((SIDE, SIDE)), np.zeros(SIDE)
    for i in range(n // 8):
        out[i % SIDE] = a[i % SIDE].sum()
    return out


def scaled_rows(n):
    a = generator().random((SIDE, SIDE))
    b = np.zeros_like(a)
    for i in range(n // 8):
        b[i % SIDE] = a[i % SIDE] * 2 + 1
    return b


def centered_columns(n):
    a = generator().random((SIDE, SIDE))
    b = np.zeros_like(a)
    for i in range(n // 8):
        b[:, i % SIDE] = a[:, i % SIDE] - a[:, i % SIDE].mean()
    return b


def row_products(n):
    rng = generator()
    a, v, out = rng.random((SIDE, SIDE)), rng.random(SIDE), np.zeros(SIDE)
    for i in range(n // 8):
        out[i % SIDE] = a[i % SIDE] @ v
    return out


def elimination(n):
    a = generator().random((SIDE, SIDE)) + SIDE * np.eye(SIDE)
    for k in range(min(n // 10, SIDE - 1)):
        a[k + 1 :] -= a[k + 1 :, k : k + 1] / a[k, k] * a[k]
    return a


def shortest_paths(n):
    d = generator().random((200, 200))
    for k in range(min(n // 10, 200)):
        d = np.minimum(d, d[:, k : k + 1] + d[k : k + 1])
    return d


def masked_writes(n):
    x = generator().random(N)
    for i in range(n // 40):
        x[x > 1 - 1e-3 * i] = 0
    return x


def selection(n):
    x, found = generator().random(N), []
    for _ in range(n // 20):
        k = x.argmax()
        found.append(k)
        x[k] = -1
    return np.array(found)


def appended(n):
    x = np.zeros(0)
    for i in range(n // 4):
        x = np.append(x, i)
    return x
