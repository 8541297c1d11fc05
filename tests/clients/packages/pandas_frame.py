"""Group a data frame of measurements, and normalise a column with NumPy."""

import numpy as np
import pandas as pd


def main():
    rng = np.random.default_rng(1)
    size = 2_000
    frame = pd.DataFrame(
        {
            "height": rng.normal(170, 10, size),
            "weight": rng.normal(70, 12, size),
            "group": np.array(["a", "b", "c", "d"])[rng.integers(0, 4, size)],
        }
    )
    frame["index"] = frame["weight"] / (frame["height"] / 100) ** 2
    frame["tall"] = np.where(frame["height"] > 175, 1, 0)
    frame["z"] = (frame["index"] - np.mean(frame["index"])) / np.std(frame["index"])
    means = frame.groupby("group")[["height", "weight", "index", "z"]].agg(["mean", "std"])
    print(means.round(4).to_string())
    print(pd.crosstab(frame["group"], frame["tall"]).to_string())
    values = frame[["height", "weight", "index"]].to_numpy()
    print(np.round(np.corrcoef(values, rowvar=False), 4))
    bins = pd.cut(frame["index"], np.linspace(10, 50, 9))
    print(frame.groupby(bins, observed=True)["z"].sum().round(4).to_string())
    outliers = frame[np.abs(frame["z"]) > 2.5]
    print(len(outliers), round(outliers["z"].abs().max(), 4))


if __name__ == "__main__":
    main()
