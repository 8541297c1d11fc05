"""Principal components of a table, and k-means clustering of its rows in the space of the first two components.

Usage: pca.py [table.csv] [clusters]
"""

import os
import sys

import numpy as np

path = (
    sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "measurements.csv")
)
clusters = int(sys.argv[2]) if len(sys.argv) > 2 else 3
table = np.loadtxt(path, delimiter=",", skiprows=1)
centered = (table - table.mean(axis=0)) / table.std(axis=0)
covariance = centered.T @ centered / (len(table) - 1)
values, vectors = np.linalg.eigh(covariance)
order = np.argsort(values)[::-1]
values, vectors = values[order], vectors[:, order]
vectors = vectors * np.sign(vectors[0])
scores = centered @ vectors[:, :2]
print(f"{table.shape[0]} rows of {table.shape[1]} columns")
print("explained variance:", " ".join(f"{v:.4f}" for v in values / values.sum()))

centers = scores[:: len(scores) // clusters][:clusters].copy()
for step in range(20):
    distance = ((scores[:, None, :] - centers[None, :, :]) ** 2).sum(axis=-1)
    nearest = distance.argmin(axis=1)
    for k in range(clusters):
        member = nearest == k
        if member.any():
            centers[k] = scores[member].mean(axis=0)
sizes = np.array([int((nearest == k).sum()) for k in range(clusters)])
for k in range(clusters):
    print(f"cluster {k}: {sizes[k]} rows around ({centers[k, 0]:.4f}, {centers[k, 1]:.4f})")
