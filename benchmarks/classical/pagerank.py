"""PageRank of a random web graph by power iteration."""

import numpy as np

DAMPING = 0.85


def web(pages, rng):
    count = 6 * pages
    source = rng.integers(0, pages, count)
    target = (pages * rng.random(count) ** 3).astype(np.int64)  # a few pages have most of the links
    different = source != target
    source, target = source[different], target[different]
    kept = np.unique(source * pages + target)
    return kept // pages, kept % pages


def rank(source, target, pages):
    degrees = np.bincount(source, minlength=pages)
    dangling = degrees == 0
    share = np.where(dangling, 0.0, 1 / np.maximum(degrees, 1))
    ranks = np.full(pages, 1 / pages)
    changes = []
    for _ in range(40):
        flow = np.zeros(pages)
        np.add.at(flow, target, (ranks * share)[source])
        lost = ranks[dangling].sum()
        new = (1 - DAMPING) / pages + DAMPING * (flow + lost / pages)
        changes.append(float(np.abs(new - ranks).sum()))
        ranks = new
        if changes[-1] < 1e-10:
            break
    return ranks, np.array(changes)


def main(size):
    source, target = web(size, np.random.default_rng(14))
    ranks, changes = rank(source, target, size)
    best = np.argsort(-ranks)[:10]
    histogram, _ = np.histogram(np.log10(ranks * size), bins=20, range=(-1, 3))
    return ranks, ranks[best], histogram, changes
