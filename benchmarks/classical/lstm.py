"""The forward pass of a recurrent network with two LSTM layers."""

import numpy as np

BATCH, INPUTS, CLASSES, STEPS = 16, 40, 10, 60


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def parameters(rng, inputs, hidden):
    scale = 1 / np.sqrt(hidden)
    return (
        rng.uniform(-scale, scale, (inputs, 4 * hidden)),
        rng.uniform(-scale, scale, (hidden, 4 * hidden)),
        rng.uniform(-scale, scale, 4 * hidden),
    )


def layer(sequence, weights, hidden):
    of_input, of_state, bias = weights
    h, c = np.zeros((sequence.shape[1], hidden)), np.zeros((sequence.shape[1], hidden))
    outputs = np.empty((sequence.shape[0], sequence.shape[1], hidden))
    for t in range(sequence.shape[0]):
        gates = sequence[t] @ of_input + h @ of_state + bias
        i, f, g, o = np.split(gates, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs[t] = h
    return outputs, h


def softmax(x):
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def main(size):
    rng = np.random.default_rng(6)
    sequence = rng.standard_normal((STEPS, BATCH, INPUTS))
    first, second = parameters(rng, INPUTS, size), parameters(rng, size, size)
    readout = rng.standard_normal((size, CLASSES)) / np.sqrt(size)
    outputs, _ = layer(sequence, first, size)
    outputs, last = layer(outputs, second, size)
    probabilities = softmax(last @ readout)
    labels = rng.integers(0, CLASSES, BATCH)
    loss = -np.log(probabilities[np.arange(BATCH), labels]).mean()
    return outputs, probabilities, loss
