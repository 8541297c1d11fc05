"""Dynamic programming: the knapsack problem, and the edit distance of two sequences."""

import numpy as np

ITEMS = 60


def knapsack(weights, values, capacity):
    best = np.zeros(capacity + 1, dtype=np.int64)
    taken = np.zeros((len(weights), capacity + 1), dtype=bool)
    for k, (w, v) in enumerate(zip(weights.tolist(), values.tolist(), strict=True)):
        candidate = best.copy()
        candidate[w:] = best[:-w] + v
        taken[k] = candidate > best
        best = np.maximum(best, candidate)
    chosen, left = np.zeros(len(weights), dtype=bool), capacity
    for k in range(len(weights) - 1, -1, -1):
        if taken[k, left]:
            chosen[k] = True
            left -= int(weights[k])
    return best, chosen


def edit_distance(a, b):
    row = np.arange(len(b) + 1)
    offsets = np.arange(len(b) + 1)
    for i, letter in enumerate(a):
        cost = np.empty(len(b) + 1, dtype=np.int64)
        cost[0] = i + 1
        cost[1:] = np.minimum(row[1:] + 1, row[:-1] + (b != letter))
        row = np.minimum.accumulate(cost - offsets) + offsets
    return int(row[-1])


def main(size):
    rng = np.random.default_rng(20)
    weights, values = rng.integers(1, size // 10, ITEMS), rng.integers(1, 1000, ITEMS)
    best, chosen = knapsack(weights, values, size)
    a, b = rng.integers(0, 4, size // 50), rng.integers(0, 4, size // 40)
    return best, chosen, int(weights[chosen].sum()), edit_distance(a, b)
