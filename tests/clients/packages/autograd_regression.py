"""Fit a logistic regression by gradient descent, and differentiate functions elementwise."""

import autograd.numpy as anp
import numpy as np
from autograd import elementwise_grad, grad, hessian


def sigmoid(x):
    return 0.5 * (anp.tanh(x / 2.0) + 1)


def main():
    rng = np.random.default_rng(23)
    inputs = rng.normal(size=(200, 3))
    targets = inputs @ np.array([1.5, -2.0, 0.5]) + 0.3 * rng.normal(size=200) > 0

    def loss(weights):
        predicted = sigmoid(anp.dot(inputs, weights))
        chances = predicted * targets + (1 - predicted) * (1 - targets)
        return -anp.sum(anp.log(chances)) + 0.5 * anp.sum(weights**2)

    gradient, weights = grad(loss), np.zeros(3)
    for _ in range(100):
        weights = weights - 0.01 * gradient(weights)
    print(np.round(loss(weights), 5), np.round(weights, 4))
    print(np.round(np.linalg.eigvalsh(hessian(loss)(weights)), 4))
    x = np.linspace(-3, 3, 300)
    print(np.round(elementwise_grad(anp.tanh)(x)[::60], 5))
    print(np.round(elementwise_grad(elementwise_grad(anp.sin))(x)[::60] + np.sin(x)[::60], 8))


if __name__ == "__main__":
    main()
