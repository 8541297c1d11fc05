"""Seasonal decomposition, exponential smoothing, and a vector autoregression."""

import numpy as np
import statsmodels.api as sm


def main():
    rng = np.random.default_rng(39)
    months = np.arange(240)
    series = 50 + 0.1 * months + 5 * np.sin(2 * np.pi * months / 12) + rng.normal(size=240)
    parts = sm.tsa.STL(series, period=12).fit()
    print(np.round(parts.trend[::60], 3), np.round(np.std(parts.resid), 4))
    print(np.round(sm.tsa.acf(series - parts.trend, nlags=6), 4))
    model = sm.tsa.ExponentialSmoothing(series, trend="add", seasonal="add", seasonal_periods=12).fit()
    print(np.round(model.forecast(6), 2))
    both = np.column_stack([np.diff(series), rng.normal(size=239)])
    print(np.round(sm.tsa.VAR(both).fit(1).params, 3))


if __name__ == "__main__":
    main()
