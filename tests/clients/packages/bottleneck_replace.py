"""Replace missing values in place."""

import bottleneck as bn
import numpy as np


def main():
    rng = np.random.default_rng(14)
    signal = rng.standard_normal(1_000)
    signal[::7] = np.nan
    bn.replace(signal, np.nan, 0.0)
    print(int(np.isnan(signal).sum()), np.round(signal.mean(), 5))
    print(np.round(np.cumsum(signal)[::100], 4))


if __name__ == "__main__":
    main()
