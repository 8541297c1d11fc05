"""Interpolate with splines, interpolate scattered data, and find nearest neighbours."""

import numpy as np
from scipy import interpolate, spatial


def main():
    rng = np.random.default_rng(7)
    x = np.linspace(0, 10, 30)
    spline = interpolate.CubicSpline(x, np.sin(x))
    fine = np.linspace(0, 10, 1_000)
    print(np.round(np.abs(spline(fine) - np.sin(fine)).max(), 6))
    print(np.round(spline(fine, 1)[::200], 5), np.round(spline.integrate(0, np.pi), 5))
    noisy = np.sin(fine) + 0.1 * rng.standard_normal(fine.size)
    smooth = interpolate.UnivariateSpline(fine, noisy, s=10)
    print(np.round(np.sqrt(np.mean((smooth(fine) - np.sin(fine)) ** 2)), 4))
    points = rng.random((1_000, 2))
    values = np.cos(4 * points[:, 0]) * np.sin(6 * points[:, 1])
    gx, gy = np.mgrid[0.1:0.9:20j, 0.1:0.9:20j]
    grid = interpolate.griddata(points, values, (gx, gy), method="linear")
    print(np.round(np.nanmean(np.abs(grid - np.cos(4 * gx) * np.sin(6 * gy))), 4))
    regular = interpolate.RegularGridInterpolator((gx[:, 0], gy[0]), grid)
    print(np.round(regular(np.array([[0.3, 0.4], [0.55, 0.65]])), 4))
    tree = spatial.KDTree(points)
    distances, neighbours = tree.query(points[:200], k=4)
    print(np.round(distances[:, 1:].mean(), 5), int(neighbours[:, 1].sum()))
    print(np.round(spatial.distance.pdist(points[:100]).mean(), 5))


if __name__ == "__main__":
    main()
