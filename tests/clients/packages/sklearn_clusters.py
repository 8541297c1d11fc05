"""Cluster points, and reduce their dimension."""

import numpy as np
from sklearn.cluster import DBSCAN, KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler


def main():
    rng = np.random.default_rng(15)
    centres = np.array([[0, 0, 0, 0], [5, 5, 0, 1], [0, 6, 4, -2]])
    points = np.concatenate([c + rng.normal(size=(250, 4)) for c in centres])
    scaled = StandardScaler().fit_transform(points)
    means = KMeans(n_clusters=3, n_init=4, random_state=0).fit(scaled)
    order = np.argsort(means.cluster_centers_[:, 0])
    print(np.round(means.cluster_centers_[order], 4))
    print(np.sort(np.bincount(means.labels_)), np.round(silhouette_score(scaled, means.labels_), 5))
    pca = PCA(n_components=2).fit(points)
    flat = pca.transform(points)
    print(np.round(pca.explained_variance_ratio_, 5), np.round(np.abs(flat).max(axis=0), 4))
    mixture = GaussianMixture(3, random_state=0).fit(points)
    print(np.round(np.sort(mixture.weights_), 4), np.round(mixture.score(points), 4))
    labels = DBSCAN(eps=0.6).fit_predict(scaled)
    print(np.unique(labels).size, int(np.sum(labels == -1)))


if __name__ == "__main__":
    main()
