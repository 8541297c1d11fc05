"""Solve Poisson's equation with sparse matrices, find eigenvalues, and rank the nodes of a graph."""

import numpy as np
from scipy import sparse
from scipy.sparse import linalg


def main():
    n = 40
    ones = np.ones(n)
    line = sparse.diags([-ones[:-1], 2 * ones, -ones[:-1]], [-1, 0, 1])
    eye = sparse.identity(n)
    matrix = (sparse.kron(line, eye) + sparse.kron(eye, line)).tocsr()
    source = np.zeros((n, n))
    source[n // 4, n // 4], source[n // 2, 3 * n // 4] = 1.0, -0.5
    u = linalg.spsolve(matrix, source.ravel()).reshape(n, n)
    print(np.round(u[::8, ::8], 5))
    v, status = linalg.cg(matrix, source.ravel(), rtol=1e-10)
    print(status, np.abs(u.ravel() - v).max() < 1e-6)
    values = linalg.eigsh(matrix, k=3, sigma=0, v0=np.ones(n * n), return_eigenvectors=False)
    print(np.round(np.sort(values), 6))
    rng = np.random.default_rng(6)
    rows, columns = rng.integers(0, 500, (2, 3_000))
    graph = sparse.coo_matrix((np.ones(3_000), (rows, columns)), shape=(500, 500)).tocsr()
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    rank = np.full(500, 1 / 500)
    for _ in range(30):
        rank = 0.15 / 500 + 0.85 * (graph.T @ (rank / np.maximum(degrees, 1)))
    print(np.argsort(rank)[-5:], np.round(rank.sum(), 5))


if __name__ == "__main__":
    main()
