"""Logistic regression by Newton's method and by stochastic gradient descent."""

import numpy as np

FEATURES = 20


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def loss(x, labels, weights):
    margins = x @ weights
    return float(np.mean(np.logaddexp(0, margins) - labels * margins)) + 0.5e-3 * float(weights @ weights)


def newton(x, labels, iterations):
    weights = np.zeros(FEATURES)
    for _ in range(iterations):
        p = sigmoid(x @ weights)
        gradient = x.T @ (p - labels) / len(x) + 1e-3 * weights
        hessian = (x * (p * (1 - p))[:, None]).T @ x / len(x) + 1e-3 * np.eye(FEATURES)
        weights = weights - np.linalg.solve(hessian, gradient)
    return weights


def adam(x, labels, rng, epochs, batch=256):
    weights, m, v, t = np.zeros(FEATURES), np.zeros(FEATURES), np.zeros(FEATURES), 0
    for _ in range(epochs):
        order = rng.permutation(len(x))
        for start in range(0, len(x) - batch + 1, batch):
            rows = order[start : start + batch]
            t += 1
            gradient = x[rows].T @ (sigmoid(x[rows] @ weights) - labels[rows]) / batch + 1e-3 * weights
            m = 0.9 * m + 0.1 * gradient
            v = 0.999 * v + 0.001 * gradient**2
            weights -= 0.02 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return weights


def main(size):
    rng = np.random.default_rng(19)
    x = rng.standard_normal((size, FEATURES))
    truth = rng.standard_normal(FEATURES)
    labels = (rng.random(size) < sigmoid(x @ truth)).astype(float)
    exact, rough = newton(x, labels, 8), adam(x, labels, rng, 3)
    right = np.mean((x @ exact > 0) == (labels > 0.5))
    return exact, rough, loss(x, labels, exact), loss(x, labels, rough), right
