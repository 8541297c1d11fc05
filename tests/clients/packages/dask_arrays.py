"""Compute with chunked arrays and delayed functions."""

import dask
import dask.array as da
import numpy as np

dask.config.set(scheduler="synchronous")


def main():
    rng = np.random.default_rng(31)
    data = rng.normal(size=(1_000, 200))
    x = da.from_array(data, chunks=(250, 100))
    print(np.round((x + x.T[:1].mean()).std(axis=0)[:5].compute(), 5))
    centred = x - x.mean(axis=0)
    covariance = (centred.T @ centred / (x.shape[0] - 1)).compute()
    print(np.round(np.linalg.eigvalsh(covariance)[-3:], 5))
    clipped = da.where(x > 0, x, 0).sum(axis=1)
    print(np.round(np.asarray(clipped)[:4], 4))
    blocks = x.map_blocks(lambda block: np.sort(block, axis=1)[:, :1], chunks=((250,) * 4, (1, 1)))
    print(np.round(blocks.compute()[:3], 4))
    overlap = da.overlap.overlap(x, depth={0: 2}, boundary="reflect")
    print(overlap.shape, np.round(da.exp(-x[::100, ::50]).compute()[0], 4))
    parts = [dask.delayed(np.linalg.norm)(data[k::4]) for k in range(4)]
    print(np.round(np.sqrt(np.sum(np.square(dask.compute(*parts)))), 4))
    counts, edges = da.histogram(x, bins=8, range=(-4, 4))
    print(counts.compute().tolist(), np.round(edges[:2], 3))


if __name__ == "__main__":
    main()
