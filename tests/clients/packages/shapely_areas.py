"""Test whether points are in a polygon, and compute areas and a convex hull."""

import numpy as np
import shapely
from shapely.geometry import Point, Polygon


def main():
    rng = np.random.default_rng(32)
    points = rng.uniform(-2, 2, (1_000, 2))
    angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    radius = 1 + 0.3 * np.cos(5 * angles)
    star = Polygon(np.column_stack([radius * np.cos(angles), radius * np.sin(angles)]))
    print(np.round([star.area, star.length], 5), star.is_valid)
    inside = shapely.contains_xy(star, points[:, 0], points[:, 1])
    print(int(inside.sum()), np.round(16 * np.mean(inside), 3))
    geometries = shapely.points(points)
    print(np.round(shapely.distance(geometries, Point(0, 0))[:4], 5))
    hull = shapely.convex_hull(shapely.multipoints(geometries))
    print(np.round(hull.area, 5), len(hull.exterior.coords))
    discs = shapely.buffer(geometries[:50], 0.2)
    print(np.round(shapely.union_all(discs).area, 4), np.round(np.sum(shapely.area(discs)), 4))
    tree = shapely.STRtree(geometries)
    print(np.sort(tree.query(star.buffer(-0.6), predicate="contains"))[:8])
    coordinates = shapely.get_coordinates(hull)
    print(np.round(coordinates.max(axis=0), 4), np.round(np.ptp(coordinates, axis=0), 4))


if __name__ == "__main__":
    main()
