"""Compute page ranks, components and the Laplacian of a random geometric graph."""

import networkx as nx
import numpy as np


def main():
    rng = np.random.default_rng(26)
    points = rng.random((150, 2))
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
    adjacency = np.where(distances < 0.15, 1 - distances, 0.0)
    np.fill_diagonal(adjacency, 0)
    graph = nx.from_numpy_array(adjacency)
    print(graph.number_of_nodes(), graph.number_of_edges(), nx.number_connected_components(graph))
    ranks = np.array(list(nx.pagerank(graph).values()))
    print(np.argsort(ranks)[-5:], np.round(ranks.max(), 6))
    laplacian = nx.laplacian_matrix(graph).toarray()
    print(np.round(np.linalg.eigvalsh(laplacian)[1:6], 4))
    largest = graph.subgraph(max(nx.connected_components(graph), key=len))
    print(len(largest), nx.diameter(largest), np.round(nx.average_clustering(graph), 5))
    back = nx.to_numpy_array(graph)
    print(np.allclose(back, adjacency), np.round(back.sum(), 4))
    degrees = np.array([d for _, d in graph.degree()])
    print(np.bincount(degrees)[:8])


if __name__ == "__main__":
    main()
