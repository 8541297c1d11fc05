"""Rolling statistics of simulated prices."""

import numpy as np
import pandas as pd


def main():
    rng = np.random.default_rng(2)
    steps = rng.normal(0.0004, 0.012, size=(1_000, 3))
    prices = 100 * np.exp(np.cumsum(steps, axis=0))
    index = pd.date_range("2020-01-01", periods=1_000, freq="D")
    frame = pd.DataFrame(prices, index=index, columns=["x", "y", "z"])
    returns = np.log(frame / frame.shift(1)).dropna()
    print(returns.describe().round(5).to_string())
    volatility = returns.rolling(30).std() * np.sqrt(252)
    print(volatility.iloc[-1].round(5).to_string())
    print(frame.resample("YE").last().round(4).to_string())
    weights = np.array([0.5, 0.3, 0.2])
    portfolio = returns.to_numpy() @ weights
    growth = np.cumprod(1 + portfolio)
    drawdown = 1 - growth / np.maximum.accumulate(growth)
    print(np.round(drawdown.max(), 5), int(np.argmax(drawdown)))
    smooth = pd.Series(growth).ewm(span=20).mean()
    print(np.round(np.mean((smooth - growth) ** 2), 8))
    print(np.round(np.percentile(portfolio, [1, 5, 50, 95, 99]), 5))


if __name__ == "__main__":
    main()
