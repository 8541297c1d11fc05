"""Train a self-organising map on colours."""

import numpy as np
from minisom import MiniSom


def main():
    rng = np.random.default_rng(20)
    colors = rng.random((400, 3))
    som = MiniSom(8, 8, 3, sigma=2.0, learning_rate=0.5, random_seed=1)
    som.random_weights_init(colors)
    print(np.round(som.quantization_error(colors), 5))
    som.train(colors, 500)
    print(np.round(som.quantization_error(colors), 5), np.round(som.topographic_error(colors), 5))
    weights = som.get_weights()
    print(weights.shape, np.round(weights[::4, ::4].reshape(-1, 3), 4).tolist())
    print(np.round(som.distance_map()[::2, ::2], 4))
    winners = np.array([som.winner(color) for color in colors[:50]])
    print(np.bincount(winners[:, 0], minlength=8))
    quantized = som.quantization(colors)
    print(np.round(np.mean((quantized - colors) ** 2), 5), som.activation_response(colors).max())


if __name__ == "__main__":
    main()
