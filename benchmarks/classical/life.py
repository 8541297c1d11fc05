"""Conway's Game of Life on a torus, with the number of live cells and the age of each cell."""

import numpy as np

GLIDER = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 1]], dtype=np.uint8)


def neighbors(cells):
    count = np.zeros_like(cells)
    for i in (-1, 0, 1):
        for j in (-1, 0, 1):
            if i or j:
                count += np.roll(np.roll(cells, i, axis=0), j, axis=1)
    return count


def generation(cells):
    count = neighbors(cells)
    return ((count == 3) | ((cells == 1) & (count == 2))).astype(np.uint8)


def main(size):
    rng = np.random.default_rng(11)
    cells = (rng.random((size, size)) < 0.3).astype(np.uint8)
    cells[2:5, 2:5] = GLIDER
    living, age = [], np.zeros((size, size), dtype=np.int64)
    for _ in range(60):
        new = generation(cells)
        age = np.where(new & cells, age + 1, 0)
        cells = new
        living.append(int(cells.sum()))
    return cells, age, np.array(living)
