"""Monthly anomalies of a temperature field, and its weighted mean."""

import numpy as np
import pandas as pd
import xarray as xr


def main():
    rng = np.random.default_rng(3)
    times = pd.date_range("2000-01-01", "2001-12-31", name="time")
    cycle = np.sin(2 * np.pi * (times.dayofyear.values / 365.25 - 0.28))
    base = 10 + 15 * cycle.reshape(-1, 1)
    low = base + 3 * rng.standard_normal((base.size, 3))
    high = base + 10 + 3 * rng.standard_normal((base.size, 3))
    data = xr.Dataset(
        {"low": (("time", "location"), low), "high": (("time", "location"), high)},
        {"time": times, "location": ["IA", "IN", "IL"]},
    )
    frost = (data["low"] <= 0).groupby("time.month").mean("time")
    print(np.round(frost.values, 4))
    climate = data.groupby("time.month").mean("time")
    anomalies = data.groupby("time.month") - climate
    print(np.round(anomalies["low"].std().item(), 5))
    monthly = data.resample(time="1MS").mean()
    print(np.round(monthly["high"].values[:3], 4))
    weights = xr.DataArray(np.cos(np.linspace(0.1, 0.9, 3)), dims="location")
    print(np.round(data["low"].weighted(weights).mean("location").values[::100], 4))
    spread = np.sqrt((data["high"] - data["low"]) ** 2).max("time")
    print(np.round(spread.to_numpy(), 4))


if __name__ == "__main__":
    main()
