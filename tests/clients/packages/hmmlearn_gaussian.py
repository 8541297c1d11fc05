"""Sample from a hidden Markov model, and fit another model to the sample."""

import numpy as np
from hmmlearn import hmm


def main():
    start = np.array([0.6, 0.3, 0.1, 0.0])
    transitions = np.array([[0.7, 0.2, 0.0, 0.1], [0.3, 0.5, 0.2, 0.0], [0.0, 0.3, 0.5, 0.2], [0.2, 0.0, 0.2, 0.6]])
    means = np.array([[0.0, 0.0], [0.0, 11.0], [9.0, 10.0], [11.0, -1.0]])
    covariances = 0.5 * np.tile(np.identity(2), (4, 1, 1))
    truth = hmm.GaussianHMM(n_components=4, covariance_type="full")
    truth.startprob_, truth.transmat_, truth.means_, truth.covars_ = start, transitions, means, covariances
    points, states = truth.sample(500, random_state=3)
    fitted = hmm.GaussianHMM(n_components=4, covariance_type="diag", n_iter=50, random_state=10)
    fitted.fit(points[:400])
    order = np.lexsort(np.round(fitted.means_).T)
    print(np.round(fitted.means_[order], 3))
    print(np.round(fitted.transmat_[order][:, order], 3))
    print(np.round(fitted.score(points[400:]), 3), np.round(fitted.bic(points), 2))
    hidden = fitted.predict(points)
    agreement = np.mean(np.argsort(order)[hidden] == np.argsort(np.lexsort(means.T))[states])
    print(np.round(agreement, 3), np.bincount(hidden)[order])
    lengths = np.array([250, 250])
    print(np.round(fitted.fit(points, lengths).monitor_.history[-1], 2))


if __name__ == "__main__":
    main()
